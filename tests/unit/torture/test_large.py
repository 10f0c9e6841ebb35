"""Histories have transactions that the server can't hold in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.drawn import write
from tests.torture.large import is_large
from tests.torture.script import Transaction, Wanted

if TYPE_CHECKING:
    from tests.torture.statements import Step


def large_ones(wanted: Wanted) -> list[Transaction]:
    scripts = [write(f"large/{number}", wanted) for number in range(40)]
    written = [
        transaction
        for script in scripts
        for drawn in script.rounds
        for writer in drawn.writers
        for transaction in writer
    ]
    return [transaction for transaction in written if is_large(transaction)]


def test_large_transactions_end_in_every_way():
    found = large_ones(Wanted())

    assert {transaction.ending for transaction in found} == {
        "commit",
        "rollback",
        "prepare",
        "prepare-rollback",
    }


def test_some_roll_back_a_large_part_and_commit_the_rest():
    found = large_ones(Wanted())

    assert any(
        transaction.ending == "commit" and transaction.savepoint == 1 and len(transaction.steps) == 2
        for transaction in found
    )


def test_consumers_of_topics_get_them_too():
    assert large_ones(Wanted(kafka=True))


@pytest.mark.parametrize(
    "steps", [[["fill", 0, 0, 90]], [["fill", 0, 20_000, 5]], [["fill", 0, 50_000, 90]], [["touch", 0, [1]]]]
)
def test_other_transactions_do_not_count_as_large(steps: list[Step]):
    assert not is_large(Transaction(steps))

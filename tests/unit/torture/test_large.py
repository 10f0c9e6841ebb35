"""Histories have transactions that the server can't hold in memory."""

from __future__ import annotations

from tests.torture.drawn import write
from tests.torture.script import Transaction, Wanted


def large_ones(wanted: Wanted) -> list[Transaction]:
    scripts = [write(f"large/{number}", wanted) for number in range(40)]
    written = [
        one for script in scripts for drawn in script.rounds for writer in drawn.writers for one in writer
    ]
    return [one for one in written if any(step[0] == "fill" and step[2] >= 20_000 for step in one.steps)]


def test_large_transactions_end_in_every_way():
    found = large_ones(Wanted())

    assert {one.ending for one in found} == {"commit", "rollback", "prepare", "prepare-rollback"}


def test_some_roll_back_a_large_part_and_commit_the_rest():
    found = large_ones(Wanted())

    assert any(one.ending == "commit" and one.savepoint == 1 and len(one.steps) == 2 for one in found)


def test_consumers_of_topics_get_them_too():
    assert large_ones(Wanted(kafka=True))

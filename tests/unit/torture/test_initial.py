"""The judge of initial snapshots judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.torture.emitted import Emitted
from tests.torture.initial import Initial
from tests.torture.journal import JournalReader
from tests.torture.oracle import Oracle, Table, Violation
from tests.torture.script import Script
from tests.torture.tables import TableShape
from tests.torture.truth import Entry

if TYPE_CHECKING:
    from pathlib import Path

T = "public.t"


@pytest.fixture
def journal(tmp_path: Path) -> JournalReader:
    return JournalReader(tmp_path / "journal")


def settled(journal: JournalReader, *reads: tuple[int, str], initial: bool = True) -> Oracle:
    oracle = Oracle({T: Table(T, ("k",), {"k": "integer"})})
    oracle.tables[T].start([{"k": "1"}, {"k": "2"}])
    oracle.follow([], [Emitted(1, T, "r", None, {"k": key}, None, snapshot=word) for key, word in reads])
    script = Script("s", [TableShape("t", "int", "d", 2)], [], initial=initial)
    Initial(script, oracle, exact=True).settle(oracle.tables, journal)
    return oracle


def test_every_row_once_with_its_word_is_right(journal: JournalReader):
    assert settled(journal, (1, "first"), (2, "last")).tables[T].whole


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([(1, "first")], id="left-out"),
        pytest.param([(1, "first"), (2, "incremental")], id="read-by-a-signal-alone"),
        pytest.param([(1, "first"), (1, "true"), (2, "last")], id="read-again"),
        pytest.param([(1, "true"), (2, "first")], id="first-comes-second"),
        pytest.param([(1, "last"), (2, "true")], id="something-after-the-last"),
        pytest.param([(1, "true"), (2, "first_in_data_collection")], id="first-of-its-table-comes-second"),
    ],
)
def test_what_is_wrong_is_a_violation(journal: JournalReader, reads: list[tuple[int, str]]):
    with pytest.raises(Violation):
        settled(journal, *reads)


def test_an_initial_snapshot_that_nobody_asked_for_is_a_violation(journal: JournalReader):
    with pytest.raises(Violation, match="nobody asked"):
        settled(journal, (1, "first"), (2, "last"), initial=False)


def test_what_was_there_before_the_log_is_read_and_not_told():
    oracle = Oracle({T: Table(T, ("k",), {"k": "integer"})})
    oracle.tables[T].start([{"k": "1"}])

    oracle.precede([Entry(8, "c", (T,), new={"k": "2"}), Entry(8, "d", (T,), old={"k": "1"})])

    assert set(oracle.tables[T].rows) == {("2",)}
    assert oracle.tables[T].touched == set()

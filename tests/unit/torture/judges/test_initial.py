"""The judge of initial snapshots judged."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.torture.emitted import Emitted
from tests.torture.initial import Initial
from tests.torture.journal import Journal, JournalReader
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
    Initial(script, oracle, (), exact=True).settle(oracle.tables, journal)
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


@pytest.mark.parametrize(
    ("notes", "right"),
    [
        pytest.param(["crash", "answer"], True, id="refused-after-a-crash"),
        pytest.param(["answer"], False, id="refused-for-nothing"),
        pytest.param(["crash"], False, id="left-out-in-silence"),
    ],
)
def test_a_table_without_a_key_may_be_refused_when_locks_were_lost(
    journal: JournalReader, tmp_path: Path, notes: list[str], *, right: bool
):
    name, own = "alpha.dbo.t", Journal(tmp_path / "journal")
    for note in notes:
        own.note(note, id=None, text=f"{name} not read: the table has neither a primary key nor …")
    own.close()
    oracle = Oracle({name: Table(name, ("n",), {"n": "int"})})
    oracle.tables[name].start([{"n": "1"}])
    judge = Initial(
        Script("s", [TableShape("t", "heap", "-", 1, "alpha")], [], initial=True), oracle, (), exact=True
    )

    with contextlib.nullcontext() if right else pytest.raises(Violation, match="left out"):
        judge.settle(oracle.tables, journal)
    assert not oracle.tables[name].whole or not right


def test_what_was_there_before_the_log_is_read_and_not_told():
    oracle = Oracle({T: Table(T, ("k",), {"k": "integer"})})
    oracle.tables[T].start([{"k": "1"}])

    oracle.precede([Entry(8, "c", (T,), new={"k": "2"}), Entry(8, "d", (T,), old={"k": "1"})])

    assert set(oracle.tables[T].rows) == {("2",)}
    assert oracle.tables[T].touched == set()

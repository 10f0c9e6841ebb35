"""Which rows of an initial snapshot say that they are the first or the last."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from engine.model import CollectionId, Run, StagedRun
from engine.snapshot.changes.commands import begin_initial
from engine.snapshot.extent import Advance, Extent
from engine.snapshot.markers import Marker, Markers, marks
from engine.snapshot.queue import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.staging.port import StagedRows

FIRST, LAST = Marker.FIRST, Marker.LAST
FIRST_OF, LAST_OF = Marker.FIRST_OF_COLLECTION, Marker.LAST_OF_COLLECTION


NOTHING = cast("StagedRows", None)
"""What is staged does not matter here."""


class Reading:
    """An initial snapshot of some tables, each of two runs; says the marks of what goes out."""

    def __init__(self, *names: str) -> None:
        self.snapshot = begin_initial(
            Snapshot(), [CollectionId(tuple(name.split("."))) for name in names], "initial"
        )
        for table in self.snapshot.tables:
            extent = Extent(20, 2000, greatest=("20",), span=(1, 20), key=("k",))
            self.snapshot = self.snapshot.with_extent(table.ticket, extent, 0)

    def sends(self, *pieces: tuple[str, int], empty: Sequence[str] = ()) -> dict[tuple[str, int], str]:
        """Pieces, as a table and its first or second half; those of empty tables have no rows."""
        tables = {str(table.target.collection): table for table in self.snapshot.tables}
        bounds: list[tuple[str, ...] | None] = [None, ("10",), ("20",)]
        runs = [
            Run(tables[name].ticket, tables[name].target, bounds[half], bounds[half + 1], key=("k",))
            for name, half in pieces
        ]
        staged = [
            StagedRun(run.ticket, run.target.collection, NOTHING, 0 if name in empty else 10, 0, at)
            for at, (run, (name, _half)) in enumerate(zip(runs, pieces, strict=True))
        ]
        found = marks(self.snapshot, runs, staged)
        for run, rows in zip(runs, staged, strict=True):
            self.snapshot = self.snapshot.advanced(Advance(run.ticket, (run,), rows.rows, rows.rows))
        self.snapshot = self.snapshot.without(self.snapshot.done)
        return {
            piece: "/".join(f"{side}" for side in (rows.first, rows.last) if side)
            for piece, rows in zip(pieces, found, strict=True)
        }

    def postpone(self, name: str) -> None:
        """Put a busy table behind the others."""
        self.snapshot = self.snapshot.postponed(
            table for table in self.snapshot.tables if str(table.target.collection) == name
        )


def test_each_table_has_a_first_row_and_a_last_one():
    reading = Reading("a", "b", "c")

    assert reading.sends(("a", 0)) == {("a", 0): FIRST}
    assert reading.sends(("a", 1), ("b", 0)) == {("a", 1): LAST_OF, ("b", 0): FIRST_OF}
    assert reading.sends(("b", 1), ("c", 0), ("c", 1)) == {
        ("b", 1): LAST_OF,
        ("c", 0): FIRST_OF,
        ("c", 1): LAST,
    }


def test_each_database_is_a_snapshot_of_its_own():
    reading = Reading("x.s.a", "x.s.b", "y.s.a")

    assert [table.ordinal for table in reading.snapshot.tables] == [(1, 2), (2, 2), (1, 1)]
    assert reading.sends(("x.s.a", 0), ("x.s.a", 1)) == {("x.s.a", 0): FIRST, ("x.s.a", 1): LAST_OF}
    assert reading.sends(("x.s.b", 0), ("x.s.b", 1)) == {("x.s.b", 0): FIRST_OF, ("x.s.b", 1): LAST}
    assert reading.sends(("y.s.a", 0), ("y.s.a", 1)) == {("y.s.a", 0): FIRST, ("y.s.a", 1): LAST}


def test_rows_of_one_file_may_be_first_and_last():
    reading = Reading("a", "b")
    first = reading.sends(("a", 0), ("a", 1), empty=["a"])

    assert first == {("a", 0): "", ("a", 1): ""}
    assert reading.sends(("b", 0), ("b", 1)) == {("b", 0): FIRST_OF, ("b", 1): LAST}


def test_a_first_table_without_rows_leaves_no_row_first_in_one_turn_either():
    sent = Reading("a", "b").sends(("a", 0), ("a", 1), ("b", 0), ("b", 1), empty=["a"])

    assert [*sent.values()] == ["", "", FIRST_OF, LAST]


def test_where_the_last_table_has_no_rows_nobody_looks_ahead():
    reading = Reading("a", "b")

    assert reading.sends(("a", 0), ("a", 1)) == {("a", 0): FIRST, ("a", 1): LAST_OF}
    assert reading.sends(("b", 0), ("b", 1), empty=["b"]) == {("b", 0): "", ("b", 1): ""}


@pytest.mark.parametrize("before", [True, False])
def test_a_busy_table_is_marked_where_it_comes(before):
    """Before any of its rows, or amid them."""
    reading = Reading("a", "b")
    sent = {} if before else reading.sends(("a", 0))
    reading.postpone("a")
    sent |= reading.sends(("b", 0), ("b", 1))
    sent |= reading.sends(*([("a", 0)] if before else []), ("a", 1))

    assert sent == {
        ("b", 0): FIRST if before else FIRST_OF,
        ("b", 1): LAST_OF,
        ("a", 0): FIRST_OF if before else FIRST,
        ("a", 1): LAST,
    }


def test_rows_asked_for_by_a_signal_have_none():
    snapshot = Reading("a").snapshot
    (table,) = snapshot.tables
    mine = replace(table, target=replace(table.target, initial=False), ordinal=None)
    run = Run(mine.ticket, mine.target, None, None, key=("k",))

    assert marks(
        replace(snapshot, tables=(mine,)),
        [run],
        [StagedRun(mine.ticket, mine.target.collection, NOTHING, 1, 0, 0)],
    ) == [Markers()]


@pytest.mark.parametrize(
    ("both", "expected"),
    [
        (Markers(FIRST, LAST), LAST),
        (Markers(FIRST_OF, LAST), LAST),
        (Markers(FIRST, LAST_OF), FIRST),
        (Markers(FIRST_OF, LAST_OF), LAST_OF),
        (Markers(FIRST_OF, None), FIRST_OF),
        (Markers(None, None), None),
    ],
)
def test_a_row_that_is_several_at_once_says_the_strongest(both, expected):
    assert both.single == expected

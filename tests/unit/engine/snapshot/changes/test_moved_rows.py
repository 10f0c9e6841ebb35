"""Rows whose keys change in the log are read where they have moved."""

from __future__ import annotations

from engine.model import (
    ExecuteSnapshot,
    Range,
)
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.moved_rows import read_again
from engine.snapshot.extent import Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.unit.engine.snapshot.queues import EXTENT, A, mending, ranges, with_gap


def test_a_row_that_moves_out_of_the_gap_without_a_value_is_read_too():
    moved = execute(
        read_again(with_gap(), A.collection, EXTENT.key, frozenset([(("7",), ("500",))])),
        ExecuteSnapshot("a", (A,)),
    )
    progress = moved.with_extent(3, EXTENT, 9).tables[-1].progress

    assert progress
    assert (progress.left, progress.reread) == (ranges(("10", "20")), (("500",),))


def test_a_row_that_leaves_a_key_that_waits_to_be_read_again_is_followed():
    waiting = Progress(EXTENT, 9, (), reread=(("7",),))
    moves = [(("8",), ("9",)), (("7",), ("8",)), (("1",), ("2",))]
    queue = read_again(Snapshot((Table(1, "s", A, waiting),)), A.collection, EXTENT.key, frozenset(moves))

    progress = queue.tables[0].progress
    assert progress
    assert progress.reread == (("7",), ("8",), ("9",))


def test_of_too_many_such_rows_nothing_is_kept():
    moved = with_gap()
    for start in range(0, 30_000, 5_000):
        keys = frozenset(((str(n),), (str(n),)) for n in range(start, start + 5_000))
        moved = read_again(moved, A.collection, EXTENT.key, keys)
    (failed,) = moved.failed
    again = execute(moved, ExecuteSnapshot("a", (A,))).with_extent(3, EXTENT, 9).tables[-1].progress

    assert failed.gaps == (Gap(Range()),)
    assert again == Progress(EXTENT, 9, EXTENT.ranges)


def test_a_row_that_was_none_of_the_table_s_is_read_whenever_it_comes():
    read = Progress(EXTENT, 9, ())
    queue = Snapshot((Table(1, "s", A, read),))
    came = read_again(queue, A.collection, EXTENT.key, frozenset([(None, ("7",)), (("1",), ("2",))]))

    progress = came.tables[0].progress
    assert progress
    assert progress.reread == (("7",),)


def test_a_row_that_moves_while_the_gap_waits_in_the_queue_is_read_too():
    waiting = execute(with_gap(), ExecuteSnapshot("again", (A,)))
    progress = (
        read_again(waiting, A.collection, EXTENT.key, frozenset([(("7",), ("500",))]))
        .with_extent(3, EXTENT, 9)
        .tables[-1]
        .progress
    )

    assert progress
    assert progress.reread == (("500",),)


def test_rows_that_a_repair_sends_are_read_where_they_have_moved():
    (table,) = read_again(
        mending(), A.collection, EXTENT.key, frozenset({(("7",), ("8",)), (("1",), ("2",))})
    ).tables

    assert table.progress is not None
    assert table.progress.reread == (("7",), ("8",))

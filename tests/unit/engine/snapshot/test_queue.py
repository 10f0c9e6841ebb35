"""The queue of collections: measured extents and finished windows in, a new queue out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import InvariantError
from engine.model import (
    Purpose,
    Run,
    StopSnapshot,
)
from engine.snapshot.changes.commands import stop
from engine.snapshot.changes.moved_rows import read_again
from engine.snapshot.extent import Advance, Extent, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.unit.engine.snapshot.queues import EXTENT, A, B, mending, queued, ranges, run, tickets


def test_what_was_measured_begins_its_progress():
    snapshot = queued(A, B).with_extent(2, EXTENT, 5)

    assert [table.progress for table in snapshot.tables] == [None, Progress(EXTENT, 5, EXTENT.ranges)]


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        (EXTENT, ranges((None, "100"))),
        (Extent(1, 1, whole=True), ranges((None, None))),
        (Extent(0, 0), ()),
    ],
)
def test_a_collection_is_one_range_to_its_greatest_key_if_it_has_rows(extent, expected):
    assert extent.ranges == expected


def test_a_window_moves_one_entry_on():
    snapshot = queued(A, A).with_extent(1, EXTENT, 5).with_extent(2, EXTENT, 6)
    snapshot = snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=9))
    snapshot = snapshot.advanced(Advance(1, (run("10", "15", 1), run("15", "20", 1)), rows=10, emitted=10))

    assert snapshot.done == ()
    assert snapshot.tables[0].progress == Progress(
        EXTENT, 5, ranges(("20", "100")), rows=20, emitted=19, chunks=4
    )
    assert snapshot.tables[1].progress == Progress(EXTENT, 6, EXTENT.ranges)


def test_the_last_window_makes_the_entry_done_with_its_totals():
    snapshot = queued(A, B).with_extent(1, EXTENT, 5)
    snapshot = snapshot.advanced(Advance(1, (run(None, "100"),), rows=100, emitted=90))

    assert snapshot.done == (Table(1, "s", A, Progress(EXTENT, 5, (), rows=100, emitted=90, chunks=2)),)
    assert tickets(snapshot.without(snapshot.done)) == [(2, B)]


def test_a_window_of_an_entry_that_was_stopped_changes_nothing():
    snapshot, _stopped = stop(queued(A, B).with_extent(1, EXTENT, 5), StopSnapshot("s", (A.collection,)))

    assert snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=9)) == snapshot


def test_a_run_that_is_not_what_comes_next_is_our_own_fault():
    snapshot = queued(A).with_extent(1, EXTENT, 5)

    with pytest.raises(InvariantError):
        snapshot.advanced(Advance(1, (run("10", "20"),)))


@pytest.mark.parametrize(("ticket", "expected"), [(1, A), (2, B), (3, None)])
def test_entries_are_found_by_ticket(ticket, expected):
    found = queued(A, B).find(ticket)

    assert (found and found.target) == expected


def opened(snapshot: Snapshot, tickets: set[int]) -> Snapshot:
    return snapshot.changed(tickets, lambda table: table.opened(9_000))


@pytest.mark.parametrize(
    ("tickets", "expected"),
    [
        pytest.param({2}, [1_000, 9_000], id="those of the window"),
        pytest.param({1, 2}, [9_000, 9_000], id="all"),
        pytest.param({7}, [1_000, 1_000], id="one that was stopped"),
    ],
)
def test_the_clock_of_a_collection_starts_with_its_first_window(tickets, expected):
    before = queued(A, B).with_extent(1, EXTENT, 1_000).with_extent(2, EXTENT, 1_000)

    assert [
        table.progress and table.progress.since_ms for table in opened(before, tickets).tables
    ] == expected


def test_the_clock_goes_on_with_the_second_window():
    snapshot = queued(A).with_extent(1, EXTENT, 1_000)
    snapshot = snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=9))

    assert opened(snapshot, {1}) == snapshot


def test_the_clock_of_what_was_not_measured_does_not_start():
    assert opened(queued(A), {1}) == queued(A)


class TestReadingAgain:
    """Keys whose newest image in the log lacks a value, which nobody has sent."""

    FIRST = Advance(1, (run(None, "100", 1),), rows=100, emitted=90, lacking=frozenset([("2",), ("3",)]))

    def after(self, *advances: Advance) -> Snapshot:
        snapshot = queued(A).with_extent(1, EXTENT, 5)
        for advance in advances:
            snapshot = snapshot.advanced(advance)
        return snapshot

    def again(self, *keys: str, lacking: tuple[str, ...] = ()) -> Advance:
        read = tuple((key,) for key in keys)
        lack = frozenset((key,) for key in lacking)
        return Advance(1, (Run(1, A, None, None, 1, read),), rows=len(keys), emitted=1, lacking=lack)

    def test_a_table_is_not_done_while_keys_are_left(self):
        snapshot = self.after(self.FIRST)

        assert snapshot.done == ()
        assert snapshot.tables[0].progress == Progress(EXTENT, 5, (), 100, 90, 1, reread=(("2",), ("3",)))

    def test_they_may_come_up_before_all_is_read(self):
        before = Advance(1, (run(None, "10", 1),), rows=9, emitted=9, lacking=frozenset([("7",)]))
        rest = replace(self.FIRST, runs=(run("10", "100", 1),))
        snapshot = self.after(before, rest)

        assert snapshot.done == ()
        assert snapshot.tables[0].progress
        assert snapshot.tables[0].progress.reread == (("7",), ("2",), ("3",))

    def test_it_is_done_when_all_were_read(self):
        (done,) = self.after(self.FIRST, self.again("2", "3")).done

        assert done.progress == Progress(EXTENT, 5, (), 102, 91, 2)

    def test_a_round_in_vain_does_not_count(self):
        uncounted = replace(self.again("2", "3", lacking=("2",)), uncounted=True)
        (table,) = self.after(self.FIRST, uncounted, self.again("2", lacking=("2",))).tables

        assert table.progress
        assert (table.progress.reread, table.progress.rounds) == ((("2",),), 1)

    @pytest.mark.parametrize(
        ("keys", "lacking", "left", "rounds"),
        [
            (("2",), (), ("3",), 0),
            (("2", "3"), ("3",), ("3",), 0),
            (("2", "3"), ("9",), ("9",), 0),
            (("2",), ("2",), ("2", "3"), 1),
            (("2",), ("9",), ("3", "9"), 1),
        ],
    )
    def test_what_lacks_a_value_again_stays_and_a_round_counts_that_left_no_fewer(
        self, keys, lacking, left, rounds
    ):
        snapshot = self.after(self.FIRST, self.again(*keys, lacking=lacking))

        assert snapshot.done == ()
        assert snapshot.tables[0].progress
        assert snapshot.tables[0].progress.reread == tuple((key,) for key in left)
        assert snapshot.tables[0].progress.rounds == rounds


@pytest.mark.parametrize(
    ("rows", "staged", "expected"),
    [
        pytest.param(10, 10 * 1_001_024, 1_000_000 * EXTENT.rows, id="larger than its size on disk tells"),
        pytest.param(10, 10 * 1_024, EXTENT.bytes, id="no larger than an event is anyway"),
        pytest.param(0, 0, EXTENT.bytes, id="no rows"),
    ],
)
def test_the_size_of_rows_is_learnt_from_those_read(rows, staged, expected):
    snapshot = queued(A).with_extent(1, EXTENT, 5)
    (table,) = snapshot.advanced(Advance(1, (run(None, "10"),), rows=rows, emitted=rows, bytes=staged)).tables

    assert table.progress is not None
    assert table.progress.extent.bytes == expected


@pytest.mark.parametrize(
    ("staged", "expected"),
    [
        pytest.param(4, 1000, id="in the same bytes"),
        pytest.param(80, 240 * 10, id="but no smaller than staged or estimated"),
        pytest.param(101_024, 240 * 100_000, id="and as large as those read"),
    ],
)
def test_more_rows_than_estimated_are_each_smaller(staged, expected):
    # Otherwise a table of which the database knows a few rows would be read in windows of a few, for days.
    snapshot = queued(A).with_extent(1, EXTENT, 5)
    for end in range(1, 4):
        part = run(None if end == 1 else str(end - 1), str(end))
        snapshot = snapshot.advanced(Advance(1, (part,), rows=80, bytes=80 * staged))
    (table,) = snapshot.tables

    assert table.progress is not None
    assert (table.progress.extent.rows, table.progress.extent.bytes) == (240, expected)


def test_rows_read_again_are_no_further_rows():
    (table,) = mending().advanced(Advance(1, (replace(run(None, None), keys=(("7",),)),), rows=500)).tables

    assert table.progress is not None
    assert table.progress.extent.rows < 500


def test_a_repair_sends_rows_and_stays_in_the_queue():
    (table,) = mending().tables

    assert table.target.purpose is Purpose.MEND
    assert (table.rests, table.target.compared, table.target.judged) == (False, False, True)
    assert table.progress is not None
    assert table.progress.reread == (("7",),)
    (sent,) = mending().advanced(Advance(1, (replace(run(None, None), keys=(("7",),)),), emitted=1)).tables
    assert sent.rests
    assert sent.progress is not None
    assert sent.progress.emitted == 1


def test_a_whole_collection_gets_bounds_unless_its_key_has_changed():
    whole = Extent(1, 1, whole=True, key=("id",))
    (table,) = queued(A).with_extent(1, whole, 5).tables
    bounds = replace(EXTENT, key=("id",))

    assert table.bounded(bounds).progress == Progress(bounds, 5, bounds.ranges)
    assert table.bounded(replace(bounds, key=("id", "code"))) is table


def test_a_moved_row_is_read_again_where_ranges_are_of_the_key_that_it_moved_in():
    by_id, by_code = replace(EXTENT, key=("id",)), replace(EXTENT, key=("code",))
    snapshot = queued(A, A).with_extent(1, by_id, 5).with_extent(2, by_code, 5)
    moved = read_again(snapshot, A.collection, ("code",), frozenset([(("7",), ("500",))]))

    assert [table.progress.reread for table in moved.tables if table.progress] == [(), (("500",),)]

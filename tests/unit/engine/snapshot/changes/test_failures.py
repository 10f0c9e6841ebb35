"""What could not be read is remembered, and read when the same is asked for again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.model import (
    ExecuteSnapshot,
    Range,
    Target,
)
from engine.snapshot.changes.commands import begin_initial, execute
from engine.snapshot.changes.failures import remember_failures
from engine.snapshot.extent import Advance, Extent, FailedSnapshot, Gap, Progress
from engine.snapshot.queue import Snapshot
from tests.unit.engine.snapshot.queues import EXTENT, A, B, mending, queued, ranges, run, tickets, with_gap


def test_a_signal_reads_what_the_snapshot_before_the_log_could_not():
    snapshot = begin_initial(Snapshot(), (A.collection,), "initial").with_extent(1, EXTENT, 5)
    snapshot = snapshot.advanced(Advance(1, (run(None, "10"),)))
    snapshot = execute(remember_failures(snapshot, snapshot.tables), ExecuteSnapshot("s", (A,)))

    (table,) = snapshot.tables
    assert table.resumes is not None
    assert [gap.range for gap in table.resumes.gaps] == [Range(("10",), EXTENT.greatest)]


class TestGaps:
    """What could not be read, and is read when the same is asked for again."""

    def test_the_rest_is_read_and_the_gap_remembered(self):
        gaps = (Gap(Range(("10",), ("20",)), why="bad page"),)

        assert tickets(with_gap()) == [(2, B)]
        assert with_gap().failed == (FailedSnapshot(A, EXTENT.key, gaps),)

    def test_the_next_signal_reads_just_the_gap(self):
        again = execute(with_gap(), ExecuteSnapshot("again", (A,)))
        begun = again.with_extent(3, EXTENT, 9)

        assert again.failed == ()
        assert begun.tables[-1].progress == Progress(EXTENT, 9, ranges(("10", "20")))

    @pytest.mark.parametrize(
        "target", [B, Target(A.collection, condition="id > 5"), Target(A.collection, surrogate_key="x")]
    )
    def test_a_signal_for_something_else_reads_all_of_that(self, target):
        again = with_gap().without(with_gap().tables)
        again = execute(again, ExecuteSnapshot("again", (target,))).with_extent(3, EXTENT, 9)

        assert again.tables[-1].progress == Progress(EXTENT, 9, EXTENT.ranges)
        assert len(again.failed) == 1

    def test_of_what_was_measured_and_not_read_no_bound_is_remembered(self):
        """A server may have been restored since to a time at which the collection had greater keys."""
        measured = queued(A).with_extent(1, EXTENT, 5)
        failed = remember_failures(measured, measured.tables)
        grown = replace(EXTENT, greatest=("900",))
        again = execute(failed, ExecuteSnapshot("again", (A,))).with_extent(2, grown, 9)

        assert failed.failed == (FailedSnapshot(A, EXTENT.key, (Gap(Range()),)),)
        assert again.tables[-1].progress == Progress(grown, 9, grown.ranges)

    def test_of_keys_that_were_asked_for_and_not_read_only_these_are_read(self):
        keys = (("7",), ("9",))
        measured = queued(A).with_extent(1, EXTENT, 5)
        (table,) = measured.tables
        assert table.progress is not None
        asked = replace(table, progress=replace(table.progress, left=(), points=keys))

        assert asked.failed is not None
        assert asked.failed.gaps == (Gap(None, points=keys),)

    def test_under_another_key_all_is_read_again(self):
        rekeyed = replace(EXTENT, key=("email",))
        again = execute(with_gap(), ExecuteSnapshot("again", (A,))).with_extent(3, rekeyed, 9)

        assert again.tables[-1].progress == Progress(rekeyed, 9, EXTENT.ranges)

    def test_one_that_is_small_now_is_read_whole(self):
        whole = Extent(10, 100, whole=True)
        again = execute(with_gap(), ExecuteSnapshot("again", (A,))).with_extent(3, whole, 9)

        assert again.tables[-1].progress == Progress(whole, 9, whole.ranges)

    def test_what_is_given_up_in_the_middle_lacks_all_that_is_left(self):
        snapshot = queued(A).with_extent(1, EXTENT, 5).advanced(Advance(1, (run(None, "10"),)))
        (failed,) = remember_failures(snapshot, snapshot.tables).failed

        assert failed.gaps == (Gap(Range(("10",), ("100",))),)


def test_a_repair_that_is_given_up_is_not_remembered():
    snapshot = mending()

    assert remember_failures(snapshot, snapshot.tables).failed == ()

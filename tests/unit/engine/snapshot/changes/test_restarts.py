"""What makes entries begin anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.model import (
    ExecuteSnapshot,
    Purpose,
)
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.failures import remember_failures
from engine.snapshot.changes.restarts import (
    restart_all,
    restart_collection,
    restart_replaced,
    restart_unread,
)
from engine.snapshot.extent import Advance
from engine.snapshot.queue import Snapshot
from tests.unit.engine.snapshot.queues import EXTENT, A, B, C, mending, queued, run, with_gap


class TestUnread:
    """Entries that no window has read, at a start."""

    def test_what_was_measured_and_not_read_is_measured_again(self):
        snapshot = queued(A, B).with_extent(1, EXTENT, 5)

        assert restart_unread(snapshot) == queued(A, B)

    def test_what_was_read_in_part_goes_on(self):
        begun = queued(A).with_extent(1, EXTENT, 5)
        snapshot = begun.advanced(Advance(1, (run(None, "10"),), rows=9, emitted=9))

        assert restart_unread(snapshot) == snapshot

    def test_what_resumes_after_a_failure_keeps_its_gaps(self):
        resumed = execute(with_gap(), ExecuteSnapshot("again", (A,)))
        measured = resumed.with_extent(resumed.tables[-1].ticket, EXTENT, 5)

        assert restart_unread(measured) == measured


class TestReplaced:
    """Rows that others took the place of, outside the log."""

    def read(self, as_of: tuple[int, ...], snapshot: Snapshot | None = None) -> Snapshot:
        began = (snapshot or queued(A)).with_extent(1, replace(EXTENT, as_of=as_of), 5)
        return began.advanced(Advance(1, (run(None, "10"),), rows=9, emitted=9))

    @pytest.mark.parametrize("as_of", [(), (6, 9), (6,)])
    def test_what_was_measured_before_begins_anew(self, as_of):
        snapshot, anew = restart_replaced(self.read(as_of), {A.collection: (7, 1)})

        assert snapshot == queued(A)
        assert [table.ticket for table in anew] == [1]

    @pytest.mark.parametrize("as_of", [(7, 1), (8, 0)])
    def test_what_was_measured_later_goes_on(self, as_of):
        before = self.read(as_of)

        assert restart_replaced(before, {A.collection: (7, 1)}) == (before, ())

    def test_others_go_on(self):
        before = self.read(())

        assert restart_replaced(before, {B.collection: (7, 1)}) == (before, ())

    def test_what_was_not_measured_waits_as_it_did(self):
        assert restart_replaced(queued(A), {A.collection: (7, 1)}) == (queued(A), ())

    def test_what_failed_entries_lack_is_not_all_any_more(self):
        failed = remember_failures(self.read(()), self.read(()).tables)
        resumed = execute(failed, ExecuteSnapshot("again", (A,)))
        forgotten, none = restart_replaced(failed, {A.collection: (7, 1)})
        whole, (anew,) = restart_replaced(resumed, {A.collection: (7, 1)})

        assert (forgotten.failed, none) == ((), ())
        assert anew.resumes is not None
        assert whole.tables[0].resumes is None

    def test_what_resumes_after_a_failure_begins_anew_even_if_it_is_measured_later(self):
        """What was read before the failure was read before the replacement."""
        failed = remember_failures(self.read(()), self.read(()).tables)
        resumed = execute(failed, ExecuteSnapshot("again", (A,)))
        later = resumed.with_extent(resumed.tables[0].ticket, replace(EXTENT, as_of=(8, 0)), 5)

        whole, (anew,) = restart_replaced(later, {A.collection: (7, 1)})

        assert anew.progress is not None
        assert whole.tables[0].progress is None


def test_beside_another_log_nothing_of_it_counts():
    anew = restart_all(execute(with_gap(), ExecuteSnapshot("again", (A, C))))

    assert anew.failed == ()
    assert [(table.progress, table.resumes) for table in anew.tables] == [(None, None)] * 3


@pytest.mark.parametrize(
    "change",
    [
        restart_all,
        lambda snapshot: restart_collection(snapshot, A.collection),
        lambda snapshot: restart_replaced(snapshot, {A.collection: (9,)})[0],
        lambda snapshot: snapshot.changed((1,), lambda table: table.anew),
        lambda snapshot: snapshot.with_extent(1, EXTENT, 0),
    ],
)
def test_a_repair_that_must_be_measured_anew_compares_before_it_sends(change):
    (table,) = change(mending()).tables

    assert table.target.purpose is Purpose.REPAIR
    assert table.progress is None

"""What commands change in the queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.job.snapshots.queue_limits import requests
from engine.model import (
    NO_LIMIT,
    CollectionId,
    ExecuteSnapshot,
    Limit,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
    Target,
)
from engine.snapshot.changes.commands import begin_initial, execute, pause, resume, stop
from engine.snapshot.changes.failures import remember_failures
from engine.snapshot.changes.moved_rows import read_again
from engine.snapshot.extent import Advance
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Request
from tests.unit.engine.snapshot.queues import EXTENT, A, B, C, queued, run, tickets


def test_collections_are_queued_in_the_order_of_their_signals():
    snapshot = execute(queued(A, B), ExecuteSnapshot("again", (C,)))

    assert tickets(snapshot) == [(1, A), (2, B), (3, C)]
    assert [table.signal for table in snapshot.tables] == ["s", "s", "again"]


def test_what_waits_is_asked_for_by_one_more_and_measured_anew():
    before = queued(A, B).with_extent(1, EXTENT, 5).with_extent(2, EXTENT, 5)
    snapshot = execute(before, ExecuteSnapshot("again", (B, A, C), "monday"))

    assert tickets(snapshot) == [(1, A), (2, B), (3, C)]
    assert [table.progress for table in snapshot.tables] == [None] * 3
    assert snapshot.tables[0].requests == (Request("s"), Request("again", "monday"))
    assert requests(snapshot) == 5


class TestPriority:
    """Higher priorities first, equal ones in the order of their arrival."""

    def asked(self, *priorities: int, first: Snapshot | None = None) -> Snapshot:
        snapshot = first or Snapshot()
        for number, priority in enumerate(priorities):
            target = Target(CollectionId(("public", f"t{number}")))
            snapshot = execute(snapshot, ExecuteSnapshot(str(number), (target,), priority=priority))
        return snapshot

    @pytest.mark.parametrize(
        ("priorities", "order"),
        [
            pytest.param((0, 5, -3, 5, 0), [1, 3, 0, 4, 2], id="in the order of arrival"),
            pytest.param((1, 2, 3), [2, 1, 0], id="each before those of before"),
            pytest.param((0, 0, 0), [0, 1, 2], id="equal ones"),
        ],
    )
    def test_the_queue_is_in_the_order_of_priorities(self, priorities, order):
        assert [table.signal for table in self.asked(*priorities).tables] == list(map(str, order))

    def test_one_that_is_being_read_yields_to_a_higher_one_and_keeps_its_progress(self):
        reading = queued(A).with_extent(1, EXTENT, 5).advanced(Advance(1, (run(None, "50"),), rows=50))
        snapshot = execute(reading, ExecuteSnapshot("urgent", (B,), priority=1))

        assert tickets(snapshot) == [(2, B), (1, A)]
        assert snapshot.tables[1] == reading.tables[0]

    def test_nothing_goes_before_the_initial_snapshot(self):
        initial = begin_initial(Snapshot(), [A.collection], "initial")

        assert [table.initial for table in self.asked(9, first=initial).tables] == [True, False]

    def test_a_request_that_joins_another_raises_its_priority(self):
        snapshot = execute(queued(A, B), ExecuteSnapshot("again", (B,), priority=1))

        assert [(table.target, table.priority) for table in snapshot.tables] == [(B, 1), (A, 0)]

    def test_what_is_put_off_stays_before_lower_priorities(self):
        snapshot = self.asked(1, 1, 0)

        assert [table.signal for table in snapshot.postponed(snapshot.tables[:1]).tables] == ["1", "0", "2"]


def test_a_request_with_another_limit_gets_an_entry_of_its_own():
    slow = Limit(rows=10)
    snapshot = execute(queued(A), ExecuteSnapshot("slow", (A,), limit=slow))
    snapshot = execute(snapshot, ExecuteSnapshot("as slow", (A,), limit=slow))

    assert [(table.limit, len(table.requests)) for table in snapshot.tables] == [(NO_LIMIT, 1), (slow, 2)]


@pytest.mark.parametrize("why", ["in a window", "read in part", "resumes", "another condition", "initial"])
def test_what_is_read_or_something_else_is_not_merged_with(why):
    before, asked, reading = queued(A).with_extent(1, EXTENT, 5), A, frozenset[int]()
    match why:
        case "in a window":
            reading = frozenset({1})
        case "read in part":
            before = before.advanced(Advance(1, (run(None, "50"),), rows=50, emitted=50))
        case "resumes":
            before = execute(remember_failures(before, before.tables), ExecuteSnapshot("s", (A,)))
        case "another condition":
            asked = replace(A, condition="x > 1")
        case "initial":
            before = begin_initial(Snapshot(), [A.collection], "initial")
    snapshot = execute(before, ExecuteSnapshot("again", (asked,)), reading)

    assert len(snapshot.tables) == 2
    assert not snapshot.tables[0].merged
    assert snapshot.tables[1].signal == "again"


def test_an_empty_command_queues_nothing():
    assert queued() == Snapshot()


def test_a_ticket_is_never_given_twice():
    snapshot, _stopped = stop(queued(A, B), StopSnapshot("s", None))

    assert tickets(execute(snapshot, ExecuteSnapshot("s", (C,)))) == [(3, C)]


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (None, []),
        ((A.collection,), [(2, B)]),
        ((B.collection, C.collection), [(1, A), (3, A)]),
        ((C.collection,), [(1, A), (2, B), (3, A)]),
        ((), [(1, A), (2, B), (3, A)]),
    ],
)
def test_stop_takes_out_every_entry_of_what_it_names(named, left):
    before = queued(A, B, A)
    after, stopped = stop(before, StopSnapshot("s", named))

    assert tickets(after) == left
    assert sorted(
        [*tickets(after), *((table.ticket, table.target) for table in stopped)], key=lambda pair: pair[0]
    ) == tickets(before)


class TestPaused:
    """Entries that wait until they are resumed."""

    def test_a_paused_entry_is_not_active_and_stays(self):
        snapshot, paused = pause(queued(A, B), PauseSnapshot("p", (A.collection,)))

        assert [table.target for table in paused] == [A]
        assert tickets(snapshot.active) == [(2, B)]
        assert tickets(snapshot) == [(1, A), (2, B)]

    def test_what_is_asked_for_meanwhile_waits_only_where_everything_is_paused(self):
        one, _paused = pause(queued(A), PauseSnapshot("p", (A.collection,)))
        all_, _paused = pause(queued(A), PauseSnapshot("p", None))
        ask = ExecuteSnapshot("s", (B,))

        assert tickets(execute(one, ask).active) == [(2, B)]
        assert tickets(execute(all_, ask).active) == []

    def test_resuming_everything_is_as_if_nothing_was_paused(self):
        before = queued(A, B)
        paused, _tables = pause(before, PauseSnapshot("p", None))
        after, resumed = resume(paused, ResumeSnapshot("r", None))

        assert after == before
        assert [table.target for table in resumed] == [A, B]

    def test_one_of_several_can_be_resumed(self):
        paused, _tables = pause(queued(A, B), PauseSnapshot("p", None))
        after, resumed = resume(paused, ResumeSnapshot("r", (B.collection,)))

        assert tickets(after.active) == [(2, B)]
        assert [table.target for table in resumed] == [B]
        assert tickets(execute(after, ExecuteSnapshot("s", (C,))).active) == [(2, B)]

    def test_pausing_again_tells_of_nothing(self):
        paused, _tables = pause(queued(A), PauseSnapshot("p", None))

        assert pause(paused, PauseSnapshot("p", None)) == (paused, ())
        assert resume(queued(A), ResumeSnapshot("r", None)) == (queued(A), ())

    def test_an_initial_snapshot_goes_on(self):
        snapshot = begin_initial(Snapshot(), [A.collection], "initial")

        assert pause(snapshot, PauseSnapshot("p", None))[0].active.tables == snapshot.tables

    def test_a_paused_entry_can_be_stopped(self):
        paused, _tables = pause(queued(A, B), PauseSnapshot("p", None))
        after, stopped = stop(paused, StopSnapshot("s", (A.collection,)))

        assert [table.target for table in stopped] == [A]
        assert tickets(after) == [(2, B)]

    def test_rows_that_move_meanwhile_are_read_again(self):
        begun = queued(A).with_extent(1, EXTENT, 5)
        paused, _tables = pause(begun, PauseSnapshot("p", None))
        (moved,) = read_again(paused, A.collection, EXTENT.key, frozenset({(("1",), ("9",))})).tables

        assert moved.progress is not None
        assert moved.progress.reread == (("9",),)
        assert moved.paused


def test_the_snapshot_before_the_log_goes_first_and_no_signal_stops_it():
    snapshot = begin_initial(queued(A), (B.collection, C.collection), "initial")
    left, stopped = stop(snapshot, StopSnapshot("s", None))
    b, c = replace(B, initial=True), replace(C, initial=True)

    assert tickets(snapshot) == [(2, b), (3, c), (1, A)]
    assert [table.ordinal for table in snapshot.tables] == [(1, 2), (2, 2), None]
    assert tickets(left) == [(2, b), (3, c)]
    assert [table.target for table in stopped] == [A]
    assert tickets(snapshot.postponed(snapshot.tables[:1])) == [(3, c), (2, b), (1, A)]


def test_a_snapshot_before_the_log_that_is_begun_anew_replaces_the_one_before():
    snapshot = begin_initial(
        begin_initial(queued(A), (B.collection, C.collection), "initial"), (C.collection,), "initial"
    )

    assert tickets(snapshot) == [(4, replace(C, initial=True)), (1, A)]
    assert snapshot.initial
    assert not queued(A).initial


def blocking(*targets: Target, signal: str = "b") -> ExecuteSnapshot:
    return ExecuteSnapshot(signal, tuple(replace(target, blocking=True) for target in targets), signal)


class TestBlocking:
    def test_it_goes_before_what_does_not_block_and_behind_what_does(self):
        snapshot = execute(execute(queued(A, B), blocking(C)), blocking(B, A, signal="c"))

        assert [(table.signal, table.target.collection.parts[1]) for table in snapshot.tables] == [
            ("b", "c"),
            ("c", "b"),
            ("c", "a"),
            ("s", "a"),
            ("s", "b"),
        ]
        assert [table.ordinal for table in snapshot.tables[:3]] == [(1, 1), (1, 2), (2, 2)]

    def test_the_initial_snapshot_stays_in_front(self):
        snapshot = execute(begin_initial(Snapshot(), [C.collection], "initial"), blocking(A))

        assert [table.initial for table in snapshot.tables] == [True, False]

    def test_a_second_one_of_a_collection_joins_none(self):
        snapshot = execute(execute(queued(A), blocking(A)), blocking(A, signal="c"))

        assert [table.signal for table in snapshot.tables] == ["b", "c", "s"]
        assert not any(table.merged for table in snapshot.tables)

    def test_an_incremental_request_does_not_join_it(self):
        snapshot = execute(execute(Snapshot(), blocking(A)), ExecuteSnapshot("s", (A,)))

        assert [table.signal for table in snapshot.tables] == ["b", "s"]

    def test_the_first_signal_alone_leads(self):
        snapshot = execute(execute(queued(A), blocking(B, C)), blocking(A, signal="c"))

        assert [table.signal for table in snapshot.leading] == ["b", "b"]

    def test_a_busy_collection_waits_behind_those_of_its_signal(self):
        snapshot = execute(execute(queued(A), blocking(B, C)), blocking(A, signal="c"))
        snapshot = snapshot.postponed(snapshot.tables[:1])

        assert [table.target.collection.parts[1] for table in snapshot.tables] == ["c", "b", "a", "a"]
        assert [table.signal for table in snapshot.tables] == ["b", "b", "c", "s"]

    def test_a_pause_does_not_hold_it_up(self):
        snapshot, paused = pause(execute(queued(A), blocking(B)), PauseSnapshot("p", None))

        assert [table.signal for table in paused] == ["s"]
        assert execute(snapshot, blocking(C, signal="c")).active.tables[1].signal == "c"

    @pytest.mark.parametrize("kind", [True, False])
    def test_a_stop_ends_snapshots_of_its_kind(self, kind):
        snapshot, stopped = stop(execute(queued(A), blocking(A)), StopSnapshot("x", None, blocking=kind))

        assert [table.blocking for table in stopped] == [kind]
        assert [table.blocking for table in snapshot.tables] == [not kind]

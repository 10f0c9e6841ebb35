"""The queue of collections: commands and finished windows in, a new queue and answers out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import InvariantError
from engine.job.snapshots.queue_limits import requests
from engine.model import (
    NO_LIMIT,
    CollectionId,
    ExecuteSnapshot,
    Limit,
    PauseSnapshot,
    Purpose,
    Range,
    ResumeSnapshot,
    Run,
    StopSnapshot,
    Target,
)
from engine.snapshot.changes.commands import begin_initial, execute, pause, resume, stop
from engine.snapshot.changes.failures import remember_failures
from engine.snapshot.changes.moved_rows import read_again
from engine.snapshot.changes.restarts import restart_all, restart_collection, restart_replaced
from engine.snapshot.extent import Advance, Extent, Failed, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Request, Table

A, B, C = (Target(CollectionId(("public", name))) for name in "abc")
EXTENT = Extent(rows=100, bytes=1000, greatest=("100",))


def queued(*targets: Target) -> Snapshot:
    return execute(Snapshot(), ExecuteSnapshot("s", targets))


def tickets(snapshot: Snapshot) -> list[tuple[int, Target]]:
    return [(table.ticket, table.target) for table in snapshot.tables]


def test_collections_are_queued_in_the_order_of_their_signals():
    snapshot = execute(queued(A, B), ExecuteSnapshot("again", (C,)))

    assert tickets(snapshot) == [(1, A), (2, B), (3, C)]
    assert [table.signal for table in snapshot.tables] == ["s", "s", "again"]


def test_what_waits_is_asked_for_by_one_more_and_measured_anew():
    before = queued(A, B).began(1, EXTENT, 5).began(2, EXTENT, 5)
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
        reading = queued(A).began(1, EXTENT, 5).advanced(Advance(1, (run(None, "50"),), rows=50))
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
    before, asked, reading = queued(A).began(1, EXTENT, 5), A, frozenset[int]()
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
        [*tickets(after), *((one.ticket, one.target) for one in stopped)], key=lambda one: one[0]
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
        begun = queued(A).began(1, EXTENT, 5)
        paused, _tables = pause(begun, PauseSnapshot("p", None))
        (moved,) = read_again(paused, A.collection, frozenset({(("1",), ("9",))})).tables

        assert moved.progress is not None
        assert moved.progress.reread == (("9",),)
        assert moved.paused


def run(after: str | None, upto: str | None, chunks: int = 2) -> Run:
    return Run(1, A, (after,) if after else None, (upto,) if upto else None, chunks)


def ranges(*bounds: tuple[str | None, str | None]) -> tuple[Range, ...]:
    return tuple(Range((after,) if after else None, (upto,) if upto else None) for after, upto in bounds)


def test_what_was_measured_begins_its_progress():
    snapshot = queued(A, B).began(2, EXTENT, 5)

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
    snapshot = queued(A, A).began(1, EXTENT, 5).began(2, EXTENT, 6)
    snapshot = snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=9))
    snapshot = snapshot.advanced(Advance(1, (run("10", "15", 1), run("15", "20", 1)), rows=10, emitted=10))

    assert snapshot.done == ()
    assert snapshot.tables[0].progress == Progress(
        EXTENT, 5, ranges(("20", "100")), rows=20, emitted=19, chunks=4
    )
    assert snapshot.tables[1].progress == Progress(EXTENT, 6, EXTENT.ranges)


def test_the_last_window_makes_the_entry_done_with_its_totals():
    snapshot = queued(A, B).began(1, EXTENT, 5)
    snapshot = snapshot.advanced(Advance(1, (run(None, "100"),), rows=100, emitted=90))

    assert snapshot.done == (Table(1, "s", A, Progress(EXTENT, 5, (), rows=100, emitted=90, chunks=2)),)
    assert tickets(snapshot.without(snapshot.done)) == [(2, B)]


def test_a_window_of_an_entry_that_was_stopped_changes_nothing():
    snapshot, _stopped = stop(queued(A, B).began(1, EXTENT, 5), StopSnapshot("s", (A.collection,)))

    assert snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=9)) == snapshot


def test_a_run_that_is_not_what_comes_next_is_our_own_fault():
    snapshot = queued(A).began(1, EXTENT, 5)

    with pytest.raises(InvariantError):
        snapshot.advanced(Advance(1, (run("10", "20"),)))


def test_the_snapshot_before_the_log_goes_first_and_no_signal_stops_it():
    snapshot = begin_initial(queued(A), (B.collection, C.collection), "initial")
    left, stopped = stop(snapshot, StopSnapshot("s", None))
    b, c = replace(B, initial=True), replace(C, initial=True)

    assert tickets(snapshot) == [(2, b), (3, c), (1, A)]
    assert [table.place for table in snapshot.tables] == [(1, 2), (2, 2), None]
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


def test_a_signal_reads_what_the_snapshot_before_the_log_could_not():
    snapshot = begin_initial(Snapshot(), (A.collection,), "initial").began(1, EXTENT, 5)
    snapshot = execute(remember_failures(snapshot, snapshot.tables), ExecuteSnapshot("s", (A,)))

    (table,) = snapshot.tables
    assert table.resumes is not None
    assert [gap.range for gap in table.resumes.gaps] == [Range(None, EXTENT.greatest)]


class TestReplaced:
    """Rows that others took the place of, outside the log."""

    def read(self, as_of: tuple[int, ...], snapshot: Snapshot | None = None) -> Snapshot:
        began = (snapshot or queued(A)).began(1, replace(EXTENT, as_of=as_of), 5)
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


class TestGaps:
    """What could not be read, and is read when the same is asked for again."""

    BROKEN = Advance(1, (run("10", "20"),), why="bad page")

    def failed(self) -> Snapshot:
        snapshot = queued(A, B).began(1, EXTENT, 5)
        snapshot = snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=10))
        snapshot = snapshot.advanced(self.BROKEN)
        snapshot = snapshot.advanced(Advance(1, (run("20", "100"),), rows=80, emitted=80))
        return remember_failures(snapshot, snapshot.done)

    def test_the_rest_is_read_and_the_gap_remembered(self):
        gaps = (Gap(Range(("10",), ("20",)), why="bad page"),)

        assert tickets(self.failed()) == [(2, B)]
        assert self.failed().failed == (Failed(A, EXTENT.key, gaps),)

    def test_the_next_signal_reads_just_the_gap(self):
        again = execute(self.failed(), ExecuteSnapshot("again", (A,)))
        begun = again.began(3, EXTENT, 9)

        assert again.failed == ()
        assert begun.tables[-1].progress == Progress(EXTENT, 9, ranges(("10", "20")))

    @pytest.mark.parametrize(
        "target", [B, Target(A.collection, condition="id > 5"), Target(A.collection, surrogate_key="x")]
    )
    def test_a_signal_for_something_else_reads_all_of_that(self, target):
        again = self.failed().without(self.failed().tables)
        again = execute(again, ExecuteSnapshot("again", (target,))).began(3, EXTENT, 9)

        assert again.tables[-1].progress == Progress(EXTENT, 9, EXTENT.ranges)
        assert len(again.failed) == 1

    def test_under_another_key_all_is_read_again(self):
        rekeyed = replace(EXTENT, key=("email",))
        again = execute(self.failed(), ExecuteSnapshot("again", (A,))).began(3, rekeyed, 9)

        assert again.tables[-1].progress == Progress(rekeyed, 9, EXTENT.ranges)

    def test_a_row_that_moves_out_of_the_gap_without_a_value_is_read_too(self):
        moved = execute(
            read_again(self.failed(), A.collection, frozenset([(("7",), ("500",))])),
            ExecuteSnapshot("a", (A,)),
        )
        progress = moved.began(3, EXTENT, 9).tables[-1].progress

        assert progress
        assert (progress.left, progress.reread) == (ranges(("10", "20")), (("500",),))

    def test_a_row_that_leaves_a_key_that_waits_to_be_read_again_is_followed(self):
        waiting = Progress(EXTENT, 9, (), reread=(("7",),))
        moves = [(("8",), ("9",)), (("7",), ("8",)), (("1",), ("2",))]
        queue = read_again(Snapshot((Table(1, "s", A, waiting),)), A.collection, frozenset(moves))

        progress = queue.tables[0].progress
        assert progress
        assert progress.reread == (("7",), ("8",), ("9",))

    def test_of_too_many_such_rows_nothing_is_kept(self):
        moved = self.failed()
        for start in range(0, 30_000, 5_000):
            keys = frozenset(((str(n),), (str(n),)) for n in range(start, start + 5_000))
            moved = read_again(moved, A.collection, keys)
        (failed,) = moved.failed
        again = execute(moved, ExecuteSnapshot("a", (A,))).began(3, EXTENT, 9).tables[-1].progress

        assert failed.gaps == (Gap(Range()),)
        assert again == Progress(EXTENT, 9, EXTENT.ranges)

    def test_a_row_that_was_none_of_the_table_s_is_read_whenever_it_comes(self):
        read = Progress(EXTENT, 9, ())
        queue = Snapshot((Table(1, "s", A, read),))
        came = read_again(queue, A.collection, frozenset([(None, ("7",)), (("1",), ("2",))]))

        progress = came.tables[0].progress
        assert progress
        assert progress.reread == (("7",),)

    def test_one_that_is_small_now_is_read_whole(self):
        whole = Extent(10, 100, whole=True)
        again = execute(self.failed(), ExecuteSnapshot("again", (A,))).began(3, whole, 9)

        assert again.tables[-1].progress == Progress(whole, 9, whole.ranges)

    def test_a_row_that_moves_while_the_gap_waits_in_the_queue_is_read_too(self):
        waiting = execute(self.failed(), ExecuteSnapshot("again", (A,)))
        progress = (
            read_again(waiting, A.collection, frozenset([(("7",), ("500",))]))
            .began(3, EXTENT, 9)
            .tables[-1]
            .progress
        )

        assert progress
        assert progress.reread == (("500",),)

    def test_beside_another_log_nothing_of_it_counts(self):
        anew = restart_all(execute(self.failed(), ExecuteSnapshot("again", (A, C))))

        assert anew.failed == ()
        assert [(table.progress, table.resumes) for table in anew.tables] == [(None, None)] * 3

    def test_what_is_given_up_in_the_middle_lacks_all_that_is_left(self):
        snapshot = queued(A).began(1, EXTENT, 5).advanced(Advance(1, (run(None, "10"),)))
        (failed,) = remember_failures(snapshot, snapshot.tables).failed

        assert failed.gaps == (Gap(Range(("10",), ("100",))),)

    @pytest.mark.parametrize(
        ("gap", "expected"),
        [
            (Gap(Range()), "everything"),
            (Gap(Range(None, ("a", None))), "keys up to (a, NULL)"),
            (Gap(Range(("7",))), "keys after (7)"),
            (Gap(Range(("7",), ("9",))), "keys after (7) up to (9)"),
            (Gap(None, (("7",), ("9",))), "2 rows under single keys"),
        ],
    )
    def test_a_gap_says_what_it_is(self, gap, expected):
        assert str(gap) == expected


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
    before = queued(A, B).began(1, EXTENT, 1_000).began(2, EXTENT, 1_000)

    assert [
        table.progress and table.progress.since_ms for table in opened(before, tickets).tables
    ] == expected


def test_the_clock_goes_on_with_the_second_window():
    snapshot = queued(A).began(1, EXTENT, 1_000)
    snapshot = snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=9))

    assert opened(snapshot, {1}) == snapshot


def test_the_clock_of_what_was_not_measured_does_not_start():
    assert opened(queued(A), {1}) == queued(A)


class TestReadingAgain:
    """Keys whose newest image in the log lacks a value, which nobody has sent."""

    FIRST = Advance(1, (run(None, "100", 1),), rows=100, emitted=90, lacking=frozenset([("2",), ("3",)]))

    def after(self, *advances: Advance) -> Snapshot:
        snapshot = queued(A).began(1, EXTENT, 5)
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
    snapshot = queued(A).began(1, EXTENT, 5)
    (table,) = snapshot.advanced(Advance(1, (run(None, "10"),), rows=rows, emitted=rows, bytes=staged)).tables

    assert table.progress is not None
    assert table.progress.extent.bytes == expected


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
        assert [table.place for table in snapshot.tables[:3]] == [(1, 1), (1, 2), (2, 2)]

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


def mending() -> Snapshot:
    """A repair that was compared and sends the row under one key."""
    snapshot = queued(replace(A, purpose=Purpose.REPAIR)).began(1, EXTENT, 0)
    read = snapshot.advanced(Advance(1, (run(None, "100"),), rows=5))
    return read.changed((1,), lambda table: table.mending((("7",),)))


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


@pytest.mark.parametrize(
    "change",
    [
        restart_all,
        lambda snapshot: restart_collection(snapshot, A.collection),
        lambda snapshot: restart_replaced(snapshot, {A.collection: (9,)})[0],
        lambda snapshot: snapshot.changed((1,), lambda table: table.anew),
        lambda snapshot: snapshot.began(1, EXTENT, 0),
    ],
)
def test_a_repair_that_must_be_measured_anew_compares_before_it_sends(change):
    (table,) = change(mending()).tables

    assert table.target.purpose is Purpose.REPAIR
    assert table.progress is None


def test_rows_that_a_repair_sends_are_read_where_they_have_moved():
    (table,) = read_again(mending(), A.collection, frozenset({(("7",), ("8",)), (("1",), ("2",))})).tables

    assert table.progress is not None
    assert table.progress.reread == (("7",), ("8",))


def test_a_repair_that_is_given_up_is_not_remembered():
    snapshot = mending()

    assert remember_failures(snapshot, snapshot.tables).failed == ()

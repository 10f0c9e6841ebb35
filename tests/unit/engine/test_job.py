"""One turn after another: what happens in which order, and what is tried again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.spark.executors import LocalExecutors
from engine import state as saved
from engine.errors import (
    PositionLost,
    SchemaChanged,
    SignalError,
    SinkError,
    SinkRefused,
    SourceError,
    StateError,
    TableBusy,
)
from engine.job import Job, Observation
from engine.model import CollectionId, Position
from engine.pulse import Pulse
from engine.seams import Pace, Seams
from engine.state import State
from signals.desk import Desk
from tests.fakes import MemorySink, MemoryStateStore
from tests.memory_source import Change, MemoryDatabase, MemorySource, MemorySpan, batch_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.model import Target
    from signals.answers import Answer

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))
STEPS = ("take", "encode", "writer", "save_pending", "commit", "promote", "acknowledge", "open_window")
BOTH = '{"data-collections": ["public.t", "public.u"]}'


@dataclass
class Noted:
    """Passes every call on, and notes the steps of a turn in the order they were taken."""

    behind: Any
    steps: list[str]

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.behind, name)
        if name not in STEPS:
            return call

        def noted(*args: Any) -> Any:
            self.steps.append(name)
            return call(*args)

        return noted


@dataclass
class ScriptedLog:
    """A log that says what it is told to, then nothing."""

    says: list[MemorySpan | SourceError]
    hurried: list[bool] = field(default_factory=list)
    acknowledged: list[Position] = field(default_factory=list)
    closed: bool = False

    def take(self, _timeout_s: float) -> MemorySpan | None:
        said = self.says.pop(0) if self.says else None
        if isinstance(said, SourceError):
            raise said
        return said

    def acknowledge(self, position: Position) -> None:
        self.acknowledged.append(position)

    def hurry(self, *, on: bool) -> None:
        self.hurried.append(on)

    def close(self) -> None:
        self.closed = True


@dataclass
class Scripted:
    """A MemorySource whose log, openings and measures are told what to do."""

    memory_source: MemorySource
    log: ScriptedLog | None = None
    openings: list[SourceError | StateError] = field(default_factory=list)
    refused: dict[CollectionId, SignalError] = field(default_factory=dict)
    vanish: dict[CollectionId, SignalError] = field(default_factory=dict)
    windows: list[SchemaChanged | SourceError] = field(default_factory=list)
    opened: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory_source, name)

    def open_log(self, state: State) -> Any:
        self.opened += 1
        if self.openings:
            raise self.openings.pop(0)
        if self.log is None:
            return self.memory_source.open_log(state)
        return replace(state, position=state.position or Position((0,))), self.log

    def tables(self) -> Scripted:
        return self

    def measure(self, targets: Sequence[Target], *, bounded: bool = False) -> list[Any]:
        extents = self.memory_source.measure(targets, bounded=bounded)
        return [
            self.refused.get(target.collection) or extent
            for target, extent in zip(targets, extents, strict=True)
        ]

    def open_window(self, window: Any) -> Any:
        if self.windows:
            self.refused |= self.vanish
            raise self.windows.pop(0)
        return self.memory_source.open_window(window)


@dataclass
class CountedExecutors:
    """Runs tasks here, and counts those of each call."""

    tasks: list[int] = field(default_factory=list)

    def map(self, task: Any, items: Any) -> Any:
        self.tasks.append(len(items))
        return LocalExecutors().map(task, items)


def end(store: MemoryStateStore, turn: int) -> None:
    """Promote, and be no more."""
    MemoryStateStore.promote(store, turn)
    raise KeyboardInterrupt


class Bench:
    """A job in memory, with a clock that stands still until it is moved."""

    def __init__(self, staging: Path, **pace: Any) -> None:
        self.database = MemoryDatabase()
        for key in range(1, 6):
            self.database.commit(Change(T, key, f"t{key}"))
        for key in range(1, 4):
            self.database.commit(Change(U, key, f"u{key}"))
        self.database.acknowledged = len(self.database.log)
        self.source = Scripted(MemorySource(self.database, str(staging), span_rows=100))
        self.sink, self.store = MemorySink(), MemoryStateStore()
        self.steps: list[str] = []
        self.answers: list[Answer] = []
        self.seen: list[Observation] = []
        self.slept: list[float] = []
        self.now_s = 1000.0
        self.executors, self.local_rows = CountedExecutors(), 1000
        self.pulse = Pulse(0.0, lambda now_ms: batch_of([("beat", None, str(now_ms))]), lambda: None)
        self.pace = Pace(**{"chunk_rows": 2, "window_rows": 100, "max_lag_s": 1e12, "backoff_s": 1.0, **pace})
        self.job = self.new_job()

    def new_job(self) -> Job:
        seams = Seams(
            source=Noted(self.source, self.steps),
            sink=Noted(self.sink, self.steps),
            store=Noted(self.store, self.steps),
            executors=self.executors,
            desk=Desk(self.answers.append),
            pulse=self.pulse,
            now=lambda: self.now_s,
            sleep=self.sleep,
            local_rows=self.local_rows,
        )
        self.job = Job(seams, self.pace, self.seen.append)
        return self.job

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def execute(self, data: str = '{"data-collections": ["public.t"]}') -> None:
        self.database.signal("s", "execute-snapshot", data)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.job.turn()

    def told(self) -> list[str]:
        """How each answer came out, and about which collection if it is about one."""
        firsts = ((one.outcome, one.text.split()[0]) for one in self.answers)
        return [f"{how} {what}" if what.startswith("public.") else how for how, what in firsts]

    def events(self) -> list[tuple[str, str, Any]]:
        """Operation, topic and key of what was sent."""
        return [
            (orjson.loads(one["value"])["op"], one["topic"], orjson.loads(one["key"]))
            for one in self.sink.events()
        ]


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


class TestStopping:
    def test_the_end_and_the_next_start_say_where_the_job_stands(self, tmp_path, caplog):
        bench = Bench(tmp_path, max_chunks=1)
        bench.execute()
        with caplog.at_level("INFO", "engine"):
            bench.job.run(lambda: len(bench.seen) == 3)
            bench.new_job().run(lambda: True)

        assert caplog.messages == [
            "stopped after turn 3 at Position(order=(9,))",
            "the snapshot of public.t goes on at 40 % with the next start",
            "the snapshot of public.t goes on at 40 %",
            "stopped after turn 3 at Position(order=(9,))",
            "the snapshot of public.t goes on at 40 % with the next start",
        ]

    def test_nothing_is_said_of_an_empty_queue(self, bench, caplog):
        with caplog.at_level("INFO", "engine"):
            bench.job.run(lambda: True)

        assert caplog.messages == ["stopped after turn 0 at no position"]


class TestOrder:
    def test_a_turn_sends_then_saves_then_acknowledges(self, bench):
        bench.database.commit(Change(T, 1, "new"))
        bench.job.start()
        log = bench.job._log
        bench.job._log = Noted(log, bench.steps)
        bench.turns(1)

        assert bench.steps == ["take", "writer", "encode", "save_pending", "commit", "promote", "acknowledge"]
        assert bench.database.acknowledged == len(bench.database.log)

    def test_what_is_saved_is_the_state_after_the_turn(self, bench):
        bench.database.commit(Change(T, 1, "new"))
        bench.turns(1)

        assert saved.from_json(bench.store.promoted[1]) == bench.job.state
        assert (bench.job.state.turn, bench.job.state.position) == (1, Position((9,)))

    def test_a_silent_log_makes_no_turn(self, bench):
        assert [bench.job.turn() for _ in range(3)] == [False, False, False]
        assert bench.steps == []

    def test_a_window_opens_after_the_turn_that_brought_its_signal(self, bench):
        bench.execute()
        bench.turns(1)

        assert bench.steps[-2:] == ["promote", "open_window"]
        assert bench.job.window is not None

    def test_read_rows_stand_behind_the_span_of_their_turn(self, bench):
        bench.execute()
        bench.turns(2)
        bench.database.commit(Change(U, 9, "new"))
        bench.turns(1)

        assert bench.events() == [
            ("w", "public.signals", 8),
            ("w", "public.u", 9),
            *(("r", "public.t", key) for key in range(1, 6)),
        ]

    def test_a_window_needs_no_traffic_to_finish(self, bench):
        bench.execute()
        bench.turns(4)

        assert bench.told() == ["accepted", "finished public.t"]
        assert bench.job.window is None
        # Behind each turn with answers comes one that notes that they were told.
        assert [len(bench.sink.turns[turn]) for turn in sorted(bench.sink.turns)] == [1, 0, 5, 0]

    def test_a_change_in_the_window_keeps_the_row_read_back(self, bench):
        bench.execute()
        bench.turns(1)
        bench.database.commit(Change(T, 3, "new"))
        bench.turns(3)

        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 4, 5]
        assert "5 rows read, 1 of them superseded" in bench.answers[-1].text

    def test_a_large_window_goes_out_run_by_run(self, tmp_path):
        bench = Bench(tmp_path, window_rows=6, tasks=3, slice_bytes=1, slice_s=0.0)
        bench.execute()
        bench.turns(5)

        assert [events for one in bench.seen if (events := one.events)] == [1, 2, 2, 1]
        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 3, 4, 5]
        assert bench.told() == ["accepted", "finished public.t"]

    def test_a_change_between_two_slices_keeps_the_row_read_back(self, tmp_path):
        bench = Bench(tmp_path, window_rows=6, tasks=3, slice_bytes=1, slice_s=0.0)
        bench.execute()
        bench.turns(3)
        bench.database.commit(Change(T, 1, "new"))
        bench.database.commit(Change(T, 5, "new"))
        bench.turns(3)

        assert [(op, key) for op, topic, key in bench.events() if topic == "public.t"] == [
            ("r", 1),
            ("r", 2),
            ("w", 1),
            ("w", 5),
            ("r", 3),
            ("r", 4),
        ]

    def test_a_crash_between_two_slices_reads_only_what_had_not_gone_out(self, tmp_path):
        bench = Bench(tmp_path, window_rows=6, tasks=3, slice_bytes=1, slice_s=0.0)
        bench.execute()
        bench.turns(3)
        bench.job.close()
        bench.new_job().settle()
        bench.turns(5)

        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 3, 4, 5]

    def test_an_onlooker_sees_every_turn(self, bench):
        bench.execute()
        bench.turns(3)

        assert [(one.state.turn, one.events) for one in bench.seen] == [(1, 1), (2, 0), (3, 5)]

    def test_many_rows_are_emitted_by_the_executors(self, tmp_path):
        bench = Bench(tmp_path, window_rows=5)
        bench.executors, bench.local_rows = CountedExecutors(), 4
        bench.new_job()
        bench.execute()
        bench.turns(3)

        assert bench.executors.tasks == [2]
        assert [op for op, _topic, _key in bench.events()] == ["w", *"rrrrr"]

    def test_a_heartbeat_is_due_on_a_silent_log_too(self, bench):
        bench.pulse.interval_s = 10.0
        bench.turns(2)
        bench.now_s += 10.0
        bench.turns(2)

        assert [one["value"] for one in bench.sink.events()] == ["1000000", "1010000"]

    def test_a_heartbeat_stands_behind_the_rows_of_its_turn(self, bench):
        bench.execute()
        bench.turns(2)
        bench.pulse.interval_s = 10.0
        bench.turns(1)

        assert [one["topic"] for one in bench.sink.events()] == ["public.signals", *["public.t"] * 5, "beat"]


class TestSilentPosition:
    def bench(self, tmp_path: Path, *spans: MemorySpan) -> Bench:
        bench = Bench(tmp_path, save_s=5.0)
        bench.source.log = ScriptedLog(list(spans))
        return bench

    def test_it_is_saved_a_while_later(self, tmp_path):
        bench = self.bench(tmp_path, MemorySpan(Position((50,)), (), silent=True))
        bench.turns(2)
        before = dict(bench.store.promoted)
        bench.now_s += 5.0
        bench.turns(2)

        assert before == {}
        assert saved.from_json(bench.store.promoted[1]).position == Position((50,))
        assert bench.source.log is not None
        assert bench.source.log.acknowledged == [Position((50,))]
        assert list(bench.store.promoted) == [1]

    def test_it_goes_with_the_next_turn_if_that_is_sooner(self, tmp_path):
        empty_transaction = MemorySpan(Position((60,)), ())
        bench = self.bench(tmp_path, MemorySpan(Position((50,)), (), silent=True), empty_transaction)
        bench.turns(2)

        assert saved.from_json(bench.store.promoted[1]).position == Position((60,))


class TestSettling:
    PENDING = State(turn=7, position=Position((8,)))
    PROMOTED = State(turn=6, position=Position((7,)))

    def bench(self, tmp_path: Path, *, applied: bool) -> Bench:
        bench = Bench(tmp_path)
        bench.store.promoted[6] = saved.to_json(self.PROMOTED)
        bench.store.pending[7] = saved.to_json(self.PENDING)
        if applied:
            bench.sink.turns[7] = []
        bench.job.settle()
        return bench

    def test_a_pending_turn_that_the_sink_has_counts(self, tmp_path):
        bench = self.bench(tmp_path, applied=True)

        assert bench.job.state == self.PENDING
        assert sorted(bench.store.promoted) == [6, 7]

    def test_a_pending_turn_that_the_sink_has_not_is_done_again(self, tmp_path):
        bench = self.bench(tmp_path, applied=False)
        before = bench.job.state
        bench.turns(1)

        assert before == self.PROMOTED
        assert list(bench.sink.turns) == [7]
        assert bench.store.pending == {}

    def test_without_a_saved_state_it_begins_anew(self, bench):
        bench.job.settle()

        assert bench.job.state == State()

    def test_a_turn_that_the_sink_refuses_is_not_saved(self, bench, monkeypatch):
        def refuse(_turn: int) -> None:
            raise SinkError("disk full")

        monkeypatch.setattr(bench.sink, "commit", refuse)
        bench.database.commit(Change(T, 1, "new"))
        with pytest.raises(SinkError):
            bench.job.turn()
        bench.new_job().settle()

        assert bench.job.state == State()
        assert bench.database.acknowledged == 8

    def test_a_turn_that_the_sink_refuses_for_now_is_done_again(self, bench, monkeypatch):
        commit, refused = bench.sink.commit, [SinkError("disk full")]

        def refuse_once(turn: int) -> None:
            if refused:
                raise refused.pop()
            commit(turn)

        monkeypatch.setattr(bench.sink, "commit", refuse_once)
        bench.database.commit(Change(T, 1, "new"))
        bench.job.run(lambda: bool(bench.sink.turns))

        assert bench.slept == [1.0]
        assert [event["value"] for event in bench.sink.events()] == [
            event["value"] for event in bench.sink.events() if "new" in event["value"]
        ]

    def test_a_turn_that_the_sink_refuses_for_good_ends_the_job(self, bench, monkeypatch):
        def refuse(_turn: int) -> None:
            raise SinkRefused("too large")

        monkeypatch.setattr(bench.sink, "commit", refuse)
        bench.database.commit(Change(T, 1, "new"))

        with pytest.raises(SinkRefused):
            bench.job.run(lambda: False)

    def test_answers_are_told_once_the_turn_is_saved(self, bench, monkeypatch):
        def refuse(_turn: int) -> None:
            raise SinkError("disk full")

        bench.execute()
        with monkeypatch.context() as refusing:
            refusing.setattr(bench.sink, "commit", refuse)
            with pytest.raises(SinkError):
                bench.job.turn()
        untold = list(bench.answers)
        bench.job.close()
        bench.job.settle()
        bench.turns(1)

        assert untold == []
        assert [answer.outcome for answer in bench.answers] == ["accepted"]

    def test_an_answer_is_told_though_the_process_ended_before_it_was(self, bench, monkeypatch):
        bench.execute()
        with monkeypatch.context() as ending:
            ending.setattr(bench.store, "promote", lambda turn: end(bench.store, turn))
            with pytest.raises(KeyboardInterrupt):
                bench.job.turn()
        untold = list(bench.answers)
        bench.new_job().settle()
        bench.turns(1)

        assert untold == []
        assert [answer.outcome for answer in bench.answers] == ["accepted"]

    def test_a_snapshot_goes_on_behind_its_last_window(self, tmp_path):
        bench = Bench(tmp_path, max_chunks=1)
        bench.execute()
        bench.turns(4)
        bench.new_job().settle()
        bench.turns(8)

        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 3, 4, 5]
        assert bench.told() == ["accepted", "finished public.t"]


class TestSessions:
    """What ends a session, and when the next one is opened."""

    def run(self, bench: Bench, sessions: int) -> None:
        bench.job.run(lambda: bench.source.opened > sessions)

    def test_a_lost_connection_is_opened_again_after_growing_pauses(self, tmp_path):
        bench = Bench(tmp_path, longest_backoff_s=5.0)
        bench.source.openings = [SourceError("connection lost")] * 5
        self.run(bench, 5)

        assert bench.slept == [1.0, 2.0, 4.0, 5.0, 5.0]

    def test_a_turn_that_works_makes_the_pause_short_again(self, bench):
        bench.source.openings = [SourceError("refused")] * 2
        bench.source.log = ScriptedLog([MemorySpan(Position((9,)), ()), SourceError("lost")])
        self.run(bench, 3)

        assert bench.slept == [1.0, 2.0, 1.0]

    @pytest.mark.parametrize(("first_retries", "expected"), [(0, []), (2, [1.0, 2.0])])
    def test_a_log_that_never_opened_is_given_up(self, tmp_path, first_retries, expected):
        bench = Bench(tmp_path, first_retries=first_retries)
        bench.source.openings = [SourceError("refused")] * 9
        with pytest.raises(SourceError, match="refused"):
            self.run(bench, 9)

        assert bench.slept == expected

    @pytest.mark.parametrize(("retries", "expected"), [(None, 8), (3, 3)])
    def test_one_that_was_open_is_tried_as_often_as_is_set(self, tmp_path, retries, expected):
        bench = Bench(tmp_path, retries=retries, first_retries=0)
        bench.source.log = ScriptedLog([SourceError("lost")])
        bench.job.start()
        bench.source.openings = [SourceError("refused")] * 7
        if retries is None:
            self.run(bench, 8)
        else:
            with pytest.raises(SourceError, match="refused"):
                self.run(bench, 8)

        assert len(bench.slept) == expected

    @pytest.mark.parametrize("error", [PositionLost("gone"), StateError("another database")])
    def test_what_no_retry_mends_ends_the_job(self, bench, error):
        bench.source.openings = [error]
        with pytest.raises(type(error)):
            self.run(bench, 1)

        assert bench.slept == []

    def test_a_session_begins_at_the_saved_state(self, bench):
        bench.execute()
        bench.turns(2)
        bench.database.failures.append(SourceError("lost"))
        stop = iter([False, False, True, True, True])
        bench.job.run(lambda: next(stop))

        assert bench.job.state == saved.from_json(bench.store.promoted[2])
        assert bench.job.window is None

    def test_the_log_is_closed_however_the_job_ends(self, bench):
        log = ScriptedLog([PositionLost("gone")])
        bench.source.log = log
        with pytest.raises(PositionLost):
            self.run(bench, 9)

        assert log.closed


class TestWindows:
    """Windows that can't open, or fail, or are no longer wanted."""

    def reading(self, bench: Bench) -> Any:
        window = bench.source.memory_source.window
        assert window is not None
        return window

    def test_a_window_is_hurried_once_its_rows_are_read(self, bench):
        bench.execute()
        log = ScriptedLog([MemorySpan(Position((9,)), tuple(bench.database.log[-1:]))])
        bench.source.log = log
        bench.turns(4)

        assert log.hurried == [False, False, True, False]

    def test_a_window_whose_table_changed_is_read_again(self, bench):
        bench.execute()
        bench.turns(1)
        first = bench.job.window
        self.reading(bench).failure = SchemaChanged("another session waits")
        bench.turns(1)
        meanwhile = bench.job.window
        bench.now_s += 1.0
        bench.turns(1)
        second = bench.job.window
        bench.turns(3)

        assert first
        assert meanwhile is None
        assert second
        assert (first.runs, first.id != second.id) == (second.runs, True)
        assert bench.told() == ["accepted", "finished public.t"]

    def test_a_window_whose_table_is_locked_is_read_again_however_often(self, bench):
        bench.execute()
        for _time in range(20):
            bench.now_s += 60.0
            bench.turns(1)
            self.reading(bench).failure = TableBusy("locked", place="public.t")
            bench.turns(1)
            assert bench.job.window is None
        bench.now_s += 60.0
        bench.turns(4)

        assert bench.told() == ["accepted", "finished public.t"]

    def test_a_window_that_can_t_be_read_is_tried_again_after_a_pause(self, bench):
        bench.execute()
        bench.turns(1)
        self.reading(bench).failure = SourceError("statement timeout")
        bench.turns(2)
        meanwhile = bench.job.window
        bench.now_s += 1.0
        bench.turns(4)

        assert meanwhile is None
        assert bench.told() == ["accepted", "finished public.t"]

    def test_in_the_end_its_tables_are_answered_as_failed_and_the_others_go_on(self, tmp_path):
        bench = Bench(tmp_path, window_retries=2, max_chunks=1)
        bench.execute(BOTH)
        bench.turns(3)
        for _ in range(3):
            self.reading(bench).failure = SourceError("bad block")
            bench.turns(1)
            bench.now_s += 10.0
            bench.turns(1)
        bench.turns(12)

        assert bench.told() == ["accepted", "failed public.t", "finished public.u"]
        assert "bad block; missing: keys after (2) up to (4);" in bench.answers[1].text
        assert saved.from_json(bench.store.promoted[max(bench.store.promoted)]).snapshot.tables == ()

    def test_rows_that_can_t_be_read_are_found_left_out_and_read_by_the_next_signal(self, tmp_path):
        bench = Bench(tmp_path, window_retries=1, tasks=2)
        for key in range(6, 41):
            bench.database.commit(Change(T, key, f"t{key}"))
        bench.execute()
        self.turns_with_a_bad_row(bench, "13")
        left_out = bench.told()
        bench.execute()
        for _ in range(6):
            bench.now_s += 10.0
            bench.turns(1)

        read = [found for one in bench.sink.events() if (found := self.read_key(one)) is not None]
        assert left_out == ["accepted", "failed public.t"]
        assert "bad block; missing: keys after (12) up to (14);" in bench.answers[1].text
        assert bench.told()[2:] == ["accepted", "finished public.t"]
        assert sorted(read) == list(range(1, 41))

    def turns_with_a_bad_row(self, bench, bad: str) -> None:
        """Every window that would read this key fails."""
        for _ in range(60):
            if bench.job.window and any(
                int((run.after or ("0",))[0]) < int(bad) <= int(run.upto[0]) for run in bench.job.window.runs
            ):
                self.reading(bench).failure = SourceError("bad block")
            bench.turns(1)
            bench.now_s += 10.0

    def read_key(self, event) -> int | None:
        if event["topic"] != "public.t" or orjson.loads(event["value"])["op"] != "r":
            return None
        return int(orjson.loads(event["key"]))

    def test_a_window_that_was_read_forgives_earlier_failures(self, tmp_path):
        bench = Bench(tmp_path, window_retries=1, max_chunks=1)
        bench.execute()
        bench.turns(1)
        for _ in range(3):
            self.reading(bench).failure = SourceError("statement timeout")
            bench.turns(1)
            bench.now_s += 10.0
            bench.turns(3)

        assert bench.told() == ["accepted", "finished public.t"]

    def test_one_that_can_t_open_for_a_change_is_tried_a_moment_later(self, bench):
        bench.source.windows = [SchemaChanged("no such column")]
        bench.execute()
        bench.turns(3)
        meanwhile = bench.job.window
        bench.now_s += 1.0
        bench.turns(4)

        assert meanwhile is None
        assert bench.told() == ["accepted", "finished public.t"]

    def test_one_whose_table_is_gone_answers_and_goes_on(self, bench):
        bench.source.windows = [SchemaChanged("no such table")]
        bench.source.vanish[T] = SignalError("there is no such table")
        bench.execute(BOTH)
        bench.turns(1)
        bench.now_s += 1.0
        bench.turns(4)

        assert bench.told() == ["accepted", "rejected public.t", "finished public.u"]

    def test_a_lost_connection_while_opening_ends_the_session(self, bench):
        bench.source.windows = [SourceError("lock timeout")]
        bench.execute()
        with pytest.raises(SourceError):
            bench.turns(1)

    def test_no_window_opens_while_the_stream_lags(self, tmp_path):
        bench = Bench(tmp_path, max_lag_s=5.0)
        bench.execute()
        signal = tuple(bench.database.log[-1:])
        bench.source.log = ScriptedLog(
            [
                MemorySpan(Position((9,)), signal, committed_at_s=990.0),
                MemorySpan(Position((10,)), signal, committed_at_s=1000.5),
            ]
        )
        bench.turns(1)
        lagging = bench.job.window
        bench.now_s += 1.0
        bench.turns(1)

        assert lagging is None
        assert bench.job.window is not None

    def test_a_stream_that_lags_for_long_is_told_of_once(self, tmp_path, caplog):
        bench = Bench(tmp_path, max_lag_s=5.0)
        bench.execute()
        signal = tuple(bench.database.log[-1:])
        bench.source.log = ScriptedLog(
            [MemorySpan(Position((9 + n,)), signal, committed_at_s=900.0) for n in range(6)]
        )
        told = []
        with caplog.at_level("INFO", "engine"):
            for _ in range(6):
                bench.turns(1)
                told.append(sum("tidemark.max.lag.ms" in line for line in caplog.messages))
                bench.now_s += 1.0

        assert told == [0, 0, 0, 1, 1, 1]

    def test_what_can_t_be_read_is_answered_and_left_out(self, bench):
        bench.source.refused = {T: SignalError("a view can't be snapshotted", place=str(T))}
        bench.execute(BOTH)
        bench.turns(4)

        assert bench.told() == ["accepted", "rejected public.t", "finished public.u"]
        assert bench.job.state.snapshot.tables == ()

    def test_a_table_without_rows_is_finished_without_a_window(self, bench):
        bench.database.commit(Change(U, None))
        bench.execute('{"data-collections": ["public.u"]}')
        bench.turns(2)

        assert bench.told() == ["accepted", "finished public.u"]
        assert bench.steps.count("open_window") == 0

    def test_stopping_a_table_gives_its_window_up(self, bench):
        bench.execute()
        bench.turns(1)
        bench.database.signal("s", "stop-snapshot", '{"type": "incremental"}')
        bench.turns(4)

        assert bench.told() == ["accepted", "accepted", "stopped public.t"]
        assert [op for op, _topic, _key in bench.events()] == ["w", "w"]
        assert bench.source.memory_source.window is None

    def test_stopping_one_table_of_a_window_reads_the_other_again(self, bench):
        bench.execute(BOTH)
        bench.turns(1)
        stop = '{"type": "incremental", "data-collections": ["public.t"]}'
        bench.database.signal("s", "stop-snapshot", stop)
        bench.turns(4)

        assert bench.told() == ["accepted", "accepted", "stopped public.t", "finished public.u"]
        assert [(topic, key) for op, topic, key in bench.events() if op == "r"] == [
            ("public.u", 1),
            ("public.u", 2),
            ("public.u", 3),
        ]

    def test_closing_gives_the_window_up(self, bench):
        bench.execute()
        bench.turns(1)
        bench.job.close()

        assert bench.job.window is None
        assert bench.source.memory_source.window is None

"""One turn after another: what happens in which order, and what is tried again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import (
    ExecutorsFailed,
    LeaseLost,
    PositionLost,
    SinkError,
    SinkRefused,
    SourceError,
    StateError,
    StateNotSaved,
    TableBusy,
)
from engine.job.loop import Job
from engine.job.saved import state_document as saved
from engine.job.saved.attempt import Attempt
from engine.job.saved.state import State
from engine.job.snapshots.queue_limits import requests
from engine.model import Channel, CollectionId, Position
from engine.snapshot.changes.restarts import restart_unread
from signals.answers import Outcome
from signals.channels.topic import TopicChannel
from tests.changed_parts import change_parts
from tests.fakes import MemoryTopic
from tests.job_bench import BOTH, Bench, CountedExecutors, ScriptedLog, StepRecorder, T, U, end
from tests.memory_source import Change, MemorySpan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


class TestSignals:
    def test_a_message_of_a_topic_is_logged_with_the_position_of_its_turn(self, bench):
        topic = MemoryTopic()
        bench.channels = {Channel.KAFKA: TopicChannel("asks", "shop", topic, 0)}
        bench.new_job()
        bench.turns(1)
        bench.database.commit(Change(T, 9, "t9"))
        topic.append(0, b"shop", b'{"type": "log", "data": {"message": "seen at {}"}}')
        bench.turns(2)

        position = bench.job.state.position
        assert position is not None
        assert [answer.text for answer in bench.answers] == [f"seen at {position}"]

    @pytest.mark.parametrize("named", ["public.root", "public.*"])
    def test_one_of_a_group_has_ended_once_all_its_collections_have(self, tmp_path, named):
        bench = Bench(tmp_path, max_chunks=1)
        bench.source.memory_source.grouped = {CollectionId(("public", "root")): [T, U]}
        bench.execute(f'{{"data-collections": ["{named}"]}}')
        bench.turns(20)

        finished = [
            turn
            for turn, answers in sorted(bench.recorded.items())
            for answer in answers
            if answer.outcome is Outcome.FINISHED
        ]
        assert [bench.fate(turn).known for turn in finished] == [False, True]
        assert bench.fate().good

    def test_a_full_queue_takes_no_more_and_says_so_once(self, tmp_path):
        bench = Bench(tmp_path, most_queued=3)
        for _ in range(3):
            bench.execute(BOTH)
        bench.turns(1)

        rejected = [answer for answer in bench.answers if answer.outcome is Outcome.REJECTED]
        assert len(bench.job.state.snapshot.tables) == 2
        assert len(rejected) == 2
        assert "2 collections are queued, and none of the 2 named is taken on top" in rejected[0].text

    def test_equal_ones_that_wait_are_read_once_and_each_is_answered(self, tmp_path):
        bench = Bench(tmp_path)
        for number in range(20):
            bench.database.signal(f"s{number}", "execute-snapshot", BOTH)
        bench.turns(6)

        finished = [answer for answer in bench.answers if answer.outcome is Outcome.FINISHED]
        assert sorted(answer.id or "" for answer in finished) == sorted(
            f"s{n}" for n in range(20) for _ in "tu"
        )
        assert sum(1 for operation, *_ in bench.events() if operation == "r") == 8
        assert not bench.job.state.snapshot.tables

    def test_a_turn_saves_no_more_where_thousands_wait(self, tmp_path):
        bench = Bench(tmp_path)
        bench.source.refused = {
            collection: TableBusy("it is locked", where=collection) for collection in (T, U)
        }
        sizes = []
        for count in (1, 1_000):
            for number in range(count):
                bench.database.signal(f"s{number}", "execute-snapshot", BOTH)
            bench.turns(12)
            bench.database.commit(Change(T, count, "more"))
            bench.turns(1)
            sizes.append(len(bench.store.promoted[max(bench.store.promoted)]))
        besides = len(bench.store.beside)
        bench.database.commit(Change(T, 9, "more"))
        bench.turns(1)

        assert requests(bench.job.state.snapshot) == 2_002
        assert sizes[1] <= sizes[0]
        assert len(bench.store.beside) == besides

    def test_a_long_queue_is_read_on_by_the_next_job(self, tmp_path):
        bench = Bench(tmp_path)
        for number in range(100):
            bench.database.signal(f"s{number}", "execute-snapshot", BOTH)
        bench.turns(1)
        assert bench.job.state.beside
        bench.new_job().settle()
        bench.turns(6)

        assert sum(1 for answer in bench.answers if answer.outcome is Outcome.FINISHED) == 200

    def test_one_that_comes_while_rows_are_read_is_read_on_its_own(self, tmp_path):
        bench = Bench(tmp_path)
        bench.execute()
        bench.turns(1)
        assert bench.job.window
        bench.execute()
        bench.turns(6)

        assert sum(1 for operation, *_ in bench.events() if operation == "r") == 10

    @pytest.mark.parametrize("begun", [False, True])
    def test_what_the_settings_leave_out_since_is_stopped_with_that_reason(self, tmp_path, begun):
        bench = Bench(tmp_path, max_chunks=1)
        bench.execute(BOTH)
        bench.turns(3 if begun else 1)
        bench.excluded = {T}
        for _ in range(2):
            bench.new_job().settle()  # the answer is kept until a turn is saved
        bench.turns(6)

        stopped = [answer.text for answer in bench.answers if answer.outcome is Outcome.STOPPED]
        (text,) = stopped
        assert text.startswith(
            f"public.t stopped after {2 if begun else 0} rows: the settings leave the table out"
        )
        assert "finished public.u" in bench.told()
        assert "finished public.t" not in bench.told()


class TestMemoryOfTheSink:
    @pytest.mark.parametrize("count", [1, 100])
    def test_it_is_saved_soon_and_given_back(self, bench, count):
        bench.turns(1)
        kept = {f"topic-{number}": f"id-{number}" for number in range(count)}
        bench.sink.kept = kept
        bench.turns(2)
        turn = bench.job.state.turn
        bench.turns(3)
        bench.sink.kept = {}
        bench.new_job().settle()

        assert bench.job.state.turn == turn
        assert bench.sink.kept == kept


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
        bench.steps.clear()
        log = bench.job._log
        bench.job._log = StepRecorder(log, bench.steps)
        bench.turns(1)

        assert bench.steps == ["take", "writer", "encode", "save_pending", "commit", "promote", "acknowledge"]
        assert bench.database.acknowledged == len(bench.database.log)

    def test_what_is_saved_is_the_state_after_the_turn(self, bench):
        bench.database.commit(Change(T, 1, "new"))
        bench.turns(1)

        assert saved.from_json(bench.store.promoted[1]) == bench.job.state
        assert (bench.job.state.turn, bench.job.state.position) == (1, Position((9,)))

    def test_a_silent_log_makes_no_turn(self, bench):
        bench.job.start()
        bench.steps.clear()

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

        assert [events for seen_turn in bench.seen if (events := seen_turn.events)] == [1, 2, 2, 1]
        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 3, 4, 5]
        assert bench.told() == ["accepted", "finished public.t"]

    @pytest.mark.parametrize(("spreads", "slices"), [(True, [2, 2, 1]), (False, [1, 1, 1, 1, 1])])
    def test_a_slice_for_executors_has_a_run_for_each_task(self, tmp_path, spreads, slices):
        pace = {"window_rows": 6, "chunk_rows": 1, "piece_rows": 1, "slice_bytes": 1, "slice_s": 0.0}
        bench = Bench(tmp_path, tasks=2, spreads=spreads, **pace)
        bench.local_rows = 0
        bench.new_job()
        bench.execute()
        bench.turns(7)

        assert [events for seen_turn in bench.seen if (events := seen_turn.events)] == [1, *slices]
        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 3, 4, 5]

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

        assert [(seen_turn.state.turn, seen_turn.events) for seen_turn in bench.seen] == [
            (1, 1),
            (2, 0),
            (3, 5),
        ]

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

        assert [event["value"] for event in bench.sink.events()] == ["1000000", "1010000"]

    def test_a_heartbeat_is_due_though_the_clock_was_set_back(self, bench):
        bench.pulse.interval_s = 10.0
        bench.turns(1)
        bench.set_by_s = -500.0
        bench.now_s += 10.0
        bench.turns(1)

        assert [event["value"] for event in bench.sink.events()] == ["1000000", "510000"]

    def test_a_heartbeat_stands_behind_the_rows_of_its_turn(self, bench):
        bench.execute()
        bench.turns(2)
        bench.pulse.interval_s = 10.0
        bench.turns(1)

        assert [event["topic"] for event in bench.sink.events()] == [
            "public.signals",
            *["public.t"] * 5,
            "beat",
        ]


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

        assert list(before) == [0]
        assert saved.from_json(bench.store.promoted[1]).position == Position((50,))
        assert bench.source.log is not None
        assert bench.source.log.acknowledged == [Position((50,))]
        assert list(bench.store.promoted) == [0, 1]

    def test_a_new_job_makes_a_turn_a_while_later_though_nothing_came(self, tmp_path):
        """Who watches it hears where it began."""
        bench = self.bench(tmp_path)
        bench.turns(2)
        before = len(bench.seen)
        bench.now_s += 5.0
        bench.turns(3)

        assert (before, len(bench.seen)) == (0, 1)

    def test_it_is_saved_and_acknowledged_though_the_clock_was_set_back(self, tmp_path):
        bench = self.bench(tmp_path, MemorySpan(Position((50,)), (), silent=True))
        bench.turns(2)
        bench.set_by_s = -3600.0
        bench.now_s += 5.0
        bench.turns(1)

        assert bench.source.log is not None
        assert bench.source.log.acknowledged == [Position((50,))]

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

        assert before == replace(self.PROMOTED, attempt=Attempt(Position((8,)), {}))
        assert list(bench.sink.turns) == [7]
        assert bench.store.pending == {}

    def test_what_a_turn_may_have_sent_is_known_until_the_job_has_come_past_it(self, tmp_path):
        bench = Bench(tmp_path)
        bench.store.promoted[6] = saved.to_json(self.PROMOTED)
        bench.store.pending[7] = saved.to_json(replace(self.PENDING, position=Position((9,))))
        bench.job.settle()
        bench.new_job().settle()
        begun = bench.job.state
        bench.turns(1)
        short = bench.job.state
        bench.new_job().settle()
        again = bench.job.state
        bench.database.commit(Change(T, 1, "new"))
        bench.turns(1)

        assert begun.attempt == short.attempt == again.attempt == Attempt(Position((9,)), {})
        assert short.position == Position((8,))
        assert bench.job.state.position == Position((9,))
        assert bench.job.state.attempt is None

    def test_what_a_sink_knows_that_it_has_not_was_not_sent(self, tmp_path, monkeypatch):
        bench = Bench(tmp_path)
        monkeypatch.setattr(bench.sink, "knows_turns", True, raising=False)
        bench.store.promoted[6] = saved.to_json(self.PROMOTED)
        bench.store.pending[7] = saved.to_json(self.PENDING)
        bench.job.settle()

        assert bench.job.state == self.PROMOTED
        assert bench.store.pending == {}

    def test_without_a_saved_state_it_begins_anew(self, bench):
        bench.job.settle()

        assert bench.job.state == State()

    def test_a_turn_that_the_sink_refuses_is_not_saved(self, bench, monkeypatch):
        def refuse(_turn: int, _parts: object) -> None:
            raise SinkError("disk full")

        monkeypatch.setattr(bench.sink, "commit", refuse)
        bench.database.commit(Change(T, 1, "new"))
        with pytest.raises(SinkError):
            bench.job.turn()
        began = bench.job.state.position
        bench.new_job().settle()

        assert (bench.job.state.turn, bench.job.state.position) == (0, began)
        assert bench.database.acknowledged == 8

    def test_where_a_new_log_begins_is_saved_before_anything_is_sent(self, bench, monkeypatch):
        def refuse(_turn: int, _parts: object) -> None:
            raise SinkError("part of it was sent, perhaps")

        began = bench.database.acknowledged
        with monkeypatch.context() as failing:
            failing.setattr(bench.sink, "commit", refuse)
            bench.database.commit(Change(T, 1, "sent, perhaps"))
            with pytest.raises(SinkError):
                bench.job.turn()
        bench.database.commit(Change(T, 2, "not yet sent"))
        bench.database.acknowledged = len(bench.database.log)  # this database keeps nothing for us
        bench.new_job().settle()
        bench.turns(1)

        assert began == 8
        assert [key for _op, _topic, key in bench.events()] == [1, 2]

    def test_a_turn_that_the_sink_refuses_for_now_is_done_again(self, bench, monkeypatch):
        commit, refused = bench.sink.commit, [SinkError("disk full")]

        def refuse_once(turn: int, parts: Any) -> None:
            if refused:
                raise refused.pop()
            commit(turn, parts)

        monkeypatch.setattr(bench.sink, "commit", refuse_once)
        bench.database.commit(Change(T, 1, "new"))
        bench.job.run(lambda: bool(bench.sink.turns))

        assert bench.slept == [1.0]
        assert [event["value"] for event in bench.sink.events()] == [
            event["value"] for event in bench.sink.events() if "new" in event["value"]
        ]

    def test_a_turn_that_the_sink_refuses_for_good_ends_the_job(self, bench, monkeypatch):
        def refuse(_turn: int, _parts: object) -> None:
            raise SinkRefused("too large")

        monkeypatch.setattr(bench.sink, "commit", refuse)
        bench.database.commit(Change(T, 1, "new"))

        with pytest.raises(SinkRefused):
            bench.job.run(lambda: False)

    def test_answers_are_told_once_the_turn_is_saved(self, bench, monkeypatch):
        def refuse(_turn: int, _parts: object) -> None:
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

    def test_a_log_that_opens_and_brings_nothing_before_it_fails_is_tried_after_growing_pauses(
        self, tmp_path
    ):
        bench = Bench(tmp_path, longest_backoff_s=5.0)
        bench.source.log = ScriptedLog([None, SourceError("the server can't decode it")] * 4)
        self.run(bench, 4)

        assert bench.slept == [1.0, 2.0, 4.0, 5.0]

    @pytest.mark.parametrize(("first_retries", "expected"), [(0, []), (2, [1.0, 2.0])])
    def test_a_log_that_never_opened_is_given_up(self, tmp_path, first_retries, expected):
        bench = Bench(tmp_path, first_retries=first_retries)
        bench.source.openings = [SourceError("refused")] * 9
        with pytest.raises(SourceError, match="refused"):
            self.run(bench, 9)

        assert bench.slept == expected

    def test_executors_that_fail_again_and_again_at_one_place_end_the_job(self, bench, monkeypatch):
        def lost(_state: State) -> None:
            raise ExecutorsFailed("rows that were staged are lost")

        monkeypatch.setattr(bench.source, "tick", lost)
        with pytest.raises(ExecutorsFailed, match="staged are lost"):
            self.run(bench, 20)

        assert len(bench.slept) == 5

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

        before = saved.from_json(bench.store.promoted[2])
        assert bench.job.state == before.with_queue(restart_unread(before.snapshot))
        assert bench.job.window is None

    def test_the_log_is_closed_however_the_job_ends(self, bench):
        log = ScriptedLog([PositionLost("gone")])
        bench.source.log = log
        with pytest.raises(PositionLost):
            self.run(bench, 9)

        assert log.closed


class TestLease:
    """A job that has lost its lease touches nothing more."""

    class Lost:
        def __init__(self, checks: int) -> None:
            self.left = checks

        def check(self) -> None:
            self.left -= 1
            if self.left < 0:
                raise LeaseLost("another job has taken over")

        def confirm(self) -> None:
            raise LeaseLost("another job has taken over")

    @pytest.mark.parametrize(("checks", "stops_before"), [(0, "save_pending"), (1, "commit"), (2, "promote")])
    def test_it_stops_before_the_next_step(self, bench, checks, stops_before):
        bench.job.settle()
        bench.job.start()
        bench.steps.clear()
        change_parts(bench.job, lease=self.Lost(checks))
        bench.database.commit(Change(T, 1, "new"))
        with pytest.raises(LeaseLost):
            bench.turns(1)

        assert stops_before not in bench.steps
        assert "acknowledge" not in bench.steps

    @pytest.mark.parametrize(
        "failure", [StateError("is gone"), PositionLost("is gone"), SinkError("is gone")]
    )
    def test_what_fails_as_another_job_took_over_is_no_failure(self, bench, failure):
        change_parts(bench.job, lease=self.Lost(9))
        bench.source.openings = [failure]
        with pytest.raises(LeaseLost):
            bench.job.run(lambda: False)

    def test_it_does_not_even_settle(self, bench):
        bench.store.pending[1] = saved.to_json(State(turn=1))
        change_parts(bench.job, lease=self.Lost(0))
        with pytest.raises(LeaseLost):
            bench.job.run(lambda: False)

        assert list(bench.store.pending) == [1]


class TestAhead:
    """A sink that holds turns which the checkpoint does not know."""

    def bench(self, tmp_path: Path, **pace: Any) -> Bench:
        bench = Bench(tmp_path, **pace)
        bench.sink.turns |= {3: [], 4: []}
        bench.store.promoted[3] = saved.to_json(State(turn=3, position=Position((8,))))
        return bench

    def test_it_is_refused_with_a_way_out(self, tmp_path):
        bench = self.bench(tmp_path)

        with pytest.raises(SinkRefused, match=r"up to 4.*ends at turn 3.*tidemark\.sink\.ahead=repeat"):
            bench.job.run(lambda: False)

    def test_so_it_is_beside_an_empty_checkpoint(self, tmp_path):
        bench = self.bench(tmp_path)
        bench.store.promoted.clear()

        with pytest.raises(SinkRefused, match="the checkpoint is empty"):
            bench.job.run(lambda: False)

    def test_the_way_out_goes_on_behind_the_sinks_turns(self, tmp_path):
        bench = self.bench(tmp_path, repeats_behind_sink=True)
        bench.database.commit(Change(T, 1, "new"))
        bench.job.run(lambda: bool(bench.seen))

        assert max(bench.sink.turns) == 5

    def test_a_turn_left_pending_that_the_sink_has_is_none_too_many(self, tmp_path):
        bench = self.bench(tmp_path)
        bench.store.pending[4] = saved.to_json(State(turn=4, position=Position((8,))))
        bench.job.settle()

        assert bench.job.state.turn == 4


class TestDestination:
    """Where events go is saved; another place is refused, since nobody has sent it what came before."""

    def started(self, tmp_path: Path, saved_with: dict[str, str], **pace: Any) -> Bench:
        bench = Bench(tmp_path, **pace)
        state = State(turn=3, position=Position((8,)), destination=saved_with)
        bench.store.promoted[3] = saved.to_json(state)
        destination = {"topic.prefix": "new", "tidemark.sink": "kafka", "kafka sink": "cluster"}
        bench.job = Job(replace(bench.job._parts, destination=lambda: destination), bench.pace)
        return bench

    @pytest.mark.parametrize(
        ("before", "told"),
        [
            ({"topic.prefix": "old"}, "topic.prefix 'old', now 'new'"),
            (
                {"topic.prefix": "new", "tidemark.sink": "files", "files sink": "x"},
                "sink 'files', now 'kafka'",
            ),
            ({"tidemark.sink": "kafka", "kafka sink": "other"}, "kafka sink 'other', now 'cluster'"),
        ],
    )
    def test_another_one_is_refused_with_the_ways_out(self, tmp_path, before, told):
        bench = self.started(tmp_path, before)

        with pytest.raises(StateError, match=rf"{told}.*empty checkpoint.*tidemark\.destination=moved"):
            bench.job.run(lambda: False)
        assert "writer" not in bench.steps

    @pytest.mark.parametrize(("before", "pace"), [({}, {}), ({"topic.prefix": "old"}, {"moves": True})])
    def test_an_older_state_and_one_that_was_moved_take_it_on(self, tmp_path, before, pace):
        bench = self.started(tmp_path, before, **pace)
        bench.database.commit(Change(T, 1, "new"))
        turns = iter(range(5))
        bench.job.run(lambda: next(turns, None) is None)

        assert saved.from_json(bench.store.promoted[max(bench.store.promoted)]).destination == {
            "topic.prefix": "new",
            "tidemark.sink": "kafka",
            "kafka sink": "cluster",
        }

    def test_a_sink_that_is_down_at_the_start_is_waited_for_before_the_log_is_opened(self, tmp_path):
        bench = self.started(tmp_path, {}, first_retries=2)
        down = [SinkError("not reached")] * 5

        def reached_later() -> dict[str, str]:
            if down:
                raise down.pop()
            return {}

        bench.job = Job(replace(bench.job._parts, destination=reached_later), bench.pace)
        turns = iter(range(8))
        bench.job.run(lambda: next(turns, None) is None)

        assert (len(bench.slept), bench.source.opened, down) == (5, 1, [])


class TestSlowSink:
    """A sink that takes long gets smaller turns, also in the next session of the log."""

    def spans(self, bench: Bench) -> list[int]:
        sizes: list[int] = []
        encode = bench.source.memory_source.encode

        def noted(span: Any, *given: Any) -> Any:
            sizes.append(span.entries)
            return encode(span, *given)

        bench.source.memory_source.encode = noted  # type: ignore[method-assign, assignment] # looks on
        for _number in range(200):
            bench.database.commit(Change(T, 1, "new"))
        return sizes

    def test_turns_take_some_seconds(self, bench):
        sizes, commit = self.spans(bench), bench.sink.commit

        def slowly(turn: int, parts: Any) -> None:
            bench.now_s += sizes[-1] / 2
            commit(turn, parts)

        bench.sink.commit = slowly
        bench.job.settle()
        bench.turns(4)

        assert sizes[:2] == [100, 20]

    def test_one_that_is_refused_for_now_is_tried_in_halves(self, bench):
        sizes, commit, fails = self.spans(bench), bench.sink.commit, [SinkError("not now")] * 2

        def refused_twice(turn: int, parts: Any) -> None:
            if fails:
                raise fails.pop()
            commit(turn, parts)

        bench.sink.commit = refused_twice
        bench.job.run(lambda: len(sizes) > 2)

        assert sizes == [100, 50, 25]


class TestFullDisk:
    def test_a_state_that_finds_no_room_is_saved_once_there_is(self, bench, monkeypatch, caplog):
        save, full = bench.store.save_pending, [StateNotSaved("no space left on device")] * 3

        def full_for_a_while(turn: int, document: bytes) -> None:
            if full:
                raise full.pop()
            save(turn, document)

        monkeypatch.setattr(bench.store, "save_pending", full_for_a_while)
        bench.database.commit(Change(T, 1, "new"))
        bench.job.run(lambda: bool(bench.seen))

        assert bench.slept[:3] == [1.0, 2.0, 4.0]
        assert len(bench.events()) == 1
        assert "no space left on device; trying again" in caplog.text

    def test_nor_does_one_end_the_job_that_finds_no_room_for_a_name(self, bench, monkeypatch):
        promote, full = bench.store.promote, [StateNotSaved("no space left on device")]

        def full_once(turn: int) -> None:
            if full:
                raise full.pop()
            promote(turn)

        bench.job.start()
        monkeypatch.setattr(bench.store, "promote", full_once)
        bench.database.commit(Change(T, 1, "new"))
        bench.job.run(lambda: 1 in bench.store.promoted)

        assert len(bench.events()) == 1

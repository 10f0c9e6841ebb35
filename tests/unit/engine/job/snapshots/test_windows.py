"""Windows that can't open, or fail, or are no longer wanted; one that is read while another goes out."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from engine.errors import (
    GaveWay,
    LoginRefused,
    SchemaChanged,
    SignalError,
    SinkError,
    SinkRefused,
    SnapshotGone,
    SourceError,
    TableBusy,
)
from engine.job.parts import Pace
from engine.job.saved import state_document as saved
from engine.job.saved.state import State
from engine.job.snapshots.window_scheduler import WindowScheduler
from engine.model import CollectionId, ExecuteSnapshot, Position, Range, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.extent import Progress
from engine.snapshot.merge import SupersededKeys
from engine.snapshot.queue import Snapshot
from tests.job_bench import BOTH, Bench, ScriptedLog, T, U
from tests.memory_source import Change, MemorySpan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def reading(bench: Bench) -> Any:
    """The window that was opened last."""
    return bench.source.memory_source.windows[-1]


def sliced(tmp_path: Path, **pace: Any) -> Bench:
    """A job whose windows go out a run at a time."""
    return Bench(tmp_path, **{"window_rows": 4, "slice_s": 0.0, "slice_bytes": 1, **pace})


def until_two(bench: Bench) -> None:
    """Turn until a second window is open."""
    while len(bench.source.memory_source.windows) < 2:
        bench.turns(1)


class TestPaused:
    """Snapshots that wait until they are resumed."""

    def pause(self, bench: Bench, *names: str) -> None:
        bench.database.signal("p", "pause-snapshot", orjson.dumps({"data-collections": names}).decode())

    def resume(self, bench: Bench) -> None:
        bench.database.signal("r", "resume-snapshot", "{}")

    def read(self, bench: Bench) -> list[tuple[str, Any]]:
        """Table and key of the rows that were read and sent."""
        return [(topic, key) for op, topic, key in bench.events() if op == "r"]

    def test_a_window_in_progress_is_given_up_and_its_rows_are_read_after_the_pause(self, tmp_path):
        bench = Bench(tmp_path, window_rows=2)
        bench.execute()
        bench.turns(2)
        self.pause(bench)
        bench.turns(5)
        meanwhile, sent = bench.job.window, self.read(bench)
        bench.turns(5)
        assert meanwhile is None
        assert self.read(bench) == sent

        self.resume(bench)
        bench.turns(12)

        assert bench.told()[-1] == "finished public.t"
        assert sorted(key for _topic, key in self.read(bench)) == [1, 2, 3, 4, 5]

    def test_others_go_on_while_one_is_paused(self, bench):
        bench.execute(BOTH)
        self.pause(bench, "public.t")
        bench.turns(6)

        assert "finished public.u" in bench.told()
        assert "finished public.t" not in bench.told()
        assert {topic.rpartition(".")[2] for topic, _key in self.read(bench)} == {"u"}

    def test_a_pause_outlives_the_job(self, bench):
        bench.execute()
        self.pause(bench)
        bench.turns(3)
        bench.new_job().settle()
        bench.turns(6)

        assert self.read(bench) == []
        assert [table.paused for table in bench.job.state.snapshot.tables] == [True]

    def test_what_changes_meanwhile_is_streamed_and_not_read_older(self, bench):
        bench.execute()
        self.pause(bench)
        bench.turns(3)
        bench.database.commit(Change(T, 1, "newer"))
        bench.turns(2)
        self.resume(bench)
        bench.turns(6)

        values = [orjson.loads(event["value"]) for event in bench.sink.events() if event["key"] == "1"]
        assert [value["value"] for value in values] == ["newer", "newer"]


class TestWindows:
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
        reading(bench).failure = SchemaChanged("another session waits")
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

    def test_a_window_names_the_signals_that_it_serves(self, bench):
        bench.execute()
        bench.turns(1)

        assert bench.job.window.signals == ("s",)

    def test_a_window_whose_table_is_locked_is_read_again_however_often(self, bench):
        bench.execute()
        for _time in range(20):
            bench.now_s += 60.0
            bench.turns(1)
            reading(bench).failure = TableBusy("locked", where=T)
            bench.turns(1)
            assert bench.job.window is None
        bench.now_s += 60.0
        bench.turns(4)

        assert bench.told() == ["accepted", "finished public.t"]

    def test_only_the_collection_that_an_error_carries_is_set_aside(self, bench):
        """Names with dots may read alike."""
        busy, other = CollectionId(("a", "b.c")), CollectionId(("a.b", "c"))
        queue = execute(Snapshot(), ExecuteSnapshot("s", (Target(busy), Target(other))))
        scheduler = WindowScheduler(bench.parts(), Pace())
        state = scheduler.handle_refusal(State(snapshot=queue), TableBusy("locked", where=busy))

        assert [table.target.collection for table in state.snapshot.tables] == [other, busy]

    def test_a_window_that_can_t_be_read_is_tried_again_after_a_pause(self, bench):
        bench.execute()
        bench.turns(1)
        reading(bench).failure = SourceError("statement timeout")
        bench.turns(2)
        meanwhile = bench.job.window
        bench.now_s += 1.0
        bench.turns(4)

        assert meanwhile is None
        assert bench.told() == ["accepted", "finished public.t"]

    @pytest.mark.parametrize("error", [SinkError("no space left"), LoginRefused("password expired")])
    def test_what_is_no_fault_of_rows_is_waited_for_ever_longer_and_no_row_is_left_out(self, tmp_path, error):
        bench = Bench(tmp_path, window_retries=1, backoff_s=0.5, longest_backoff_s=4.0)
        bench.execute()
        bench.turns(1)
        pauses = []
        for _ in range(6):
            reading(bench).failure = error
            bench.turns(1)
            begun = bench.now_s
            while bench.job.window is None:
                bench.now_s += 0.25
                bench.turns(1)
            pauses.append(bench.now_s - begun)
        bench.turns(6)

        assert pauses == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
        assert bench.told() == ["accepted", "finished public.t"]
        assert bench.source.opened == 1

    def test_what_no_retry_mends_stops_the_job(self, bench):
        bench.execute()
        bench.turns(1)
        reading(bench).failure = SinkRefused("nobody reads it")
        with pytest.raises(SinkRefused):
            bench.turns(1)

    def test_in_the_end_its_tables_are_answered_as_failed_and_the_others_go_on(self, tmp_path):
        bench = Bench(tmp_path, window_retries=2, max_chunks=1)
        bench.execute(BOTH)
        bench.turns(3)
        for _ in range(3):
            reading(bench).failure = SourceError("bad block")
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

        read = [found for event in bench.sink.events() if (found := self.read_key(event)) is not None]
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
                reading(bench).failure = SourceError("bad block")
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
            reading(bench).failure = SourceError("statement timeout")
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

    def test_the_lag_is_what_the_database_says_whatever_the_clock_here_says(self, tmp_path):
        bench = Bench(tmp_path, max_lag_s=5.0)
        bench.set_by_s = 6.0
        bench.execute()
        signal = tuple(bench.database.log[-1:])
        bench.source.log = ScriptedLog(
            [MemorySpan(Position((9,)), signal, committed_at_s=1000.0, lag_s=0.01)]
        )
        bench.turns(1)

        assert bench.job.window is not None
        assert [progress.lag_s for progress in bench.seen] == [0.01]

    def test_windows_open_though_the_clock_was_set_back(self, bench):
        bench.execute()
        bench.turns(1)
        reading(bench).failure = SchemaChanged("another session waits")
        bench.turns(1)
        bench.set_by_s = -3600.0
        bench.now_s += 1.0
        bench.turns(1)

        assert bench.job.window is not None

    def test_windows_that_let_others_through_become_smaller_and_larger_again(self, tmp_path, caplog):
        bench = Bench(tmp_path, window_rows=100, chunk_rows=1)
        bench.execute()
        bench.turns(1)
        chunks = []
        for _ in range(3):
            window = bench.job.window
            assert window is not None
            chunks.append(sum(run.chunks for run in window.runs))
            reading(bench).failure = GaveWay("another session waited")
            bench.turns(1)
            bench.now_s += 1.0
            bench.turns(1)
        while not bench.told()[1:]:
            bench.turns(1)
            bench.now_s += 1.0

        assert chunks == sorted(set(chunks), reverse=True)
        assert "rows at once: another session waited" in caplog.text
        assert bench.told() == ["accepted", "finished public.t"]

    def test_a_table_that_others_never_leave_alone_is_given_up_with_that_reason(self, bench):
        bench.execute(BOTH)
        bench.turns(1)
        for _ in range(40):
            window = bench.job.window
            if window is not None and T in {run.target.collection for run in window.runs}:
                reading(bench).failure = GaveWay("another session waited")
            bench.turns(1)
            bench.now_s += 1.0

        assert sorted(bench.told()) == ["accepted", "failed public.t", "finished public.u"]
        assert any("before a chunk was read" in answer.text for answer in bench.answers)

    def test_rounds_of_a_row_that_changes_all_the_time_are_spaced(self, tmp_path):
        bench = sliced(tmp_path, window_rows=5, backoff_s=1.0, longest_backoff_s=10.0)
        bench.execute()
        begun = bench.now_s
        for serial in range(4000):
            if len(bench.told()) > 1:
                break
            bench.database.commit(Change(T, 5, str(serial), large=None))
            bench.turns(1)
            bench.now_s += 0.1

        assert bench.told() == ["accepted", "failed public.t"]
        assert bench.now_s - begun > sum([1, 2, 4, 8, 10, 10, 10, 10, 10])

    def test_others_are_read_while_one_rests(self, tmp_path):
        bench = sliced(tmp_path, window_rows=5, backoff_s=1e6, longest_backoff_s=1e6)
        bench.execute(BOTH)
        for serial in range(100):
            bench.database.commit(Change(T, 5, str(serial), large=None))
            bench.turns(1)
            bench.now_s += 0.1
        hot = bench.told()
        bench.now_s += 1e6
        bench.turns(10)

        assert hot == ["accepted", "finished public.u"]
        assert bench.told() == ["accepted", "finished public.u", "finished public.t"]

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
        bench.source.refused = {T: SignalError("a view can't be snapshotted", where=str(T))}
        bench.execute(BOTH)
        bench.turns(4)

        assert bench.told() == ["accepted", "rejected public.t", "finished public.u"]
        assert bench.job.state.snapshot.tables == ()

    def test_what_is_left_out_is_answered_once_although_the_next_window_is_not_planned(self, tmp_path):
        bench: Any = Bench(tmp_path, window_rows=2, chunk_rows=1, slice_s=0.0, slice_bytes=1)
        boundaries, lost = bench.source.boundaries, []

        def fail(*_asked: Any) -> Any:
            lost.append(bench.source.refused.pop(U))
            bench.source.boundaries = boundaries
            raise SourceError("the connection is lost")

        bench.execute()
        bench.turns(1)
        bench.source.refused = {U: SignalError("a view can't be snapshotted", where=str(U))}
        bench.source.boundaries = fail
        bench.execute('{"data-collections": ["public.u"]}')
        for _ in range(12):
            bench.turns(1)
            bench.now_s += 1.0

        assert lost
        assert bench.told() == ["accepted", "accepted", "rejected public.u", "finished public.t"]

    def test_a_table_without_rows_is_finished_once_a_window_has_seen_that(self, bench):
        bench.database.commit(Change(U, None))
        bench.execute('{"data-collections": ["public.u"]}')
        bench.turns(2)
        assert bench.told() == ["accepted"]

        bench.turns(2)
        assert bench.told() == ["accepted", "finished public.u"]
        assert bench.steps.count("open_window") == 1

    def test_a_window_that_was_too_slow_is_read_in_smaller_ones_at_once(self, tmp_path):
        bench = Bench(tmp_path, window_retries=5, tasks=1)
        for key in range(6, 41):
            bench.database.commit(Change(T, key, f"t{key}"))
        bench.execute()
        bench.turns(1)
        chunks = []
        for _ in range(3):
            assert bench.job.window
            chunks.append(bench.job.window.runs[0].chunks)
            reading(bench).failure = SnapshotGone("too old", where="public.t")
            bench.turns(1)
            bench.now_s += 10.0
            bench.turns(1)
        bench.turns(60)

        assert chunks == [50, 6, 1]
        assert bench.told() == ["accepted", "finished public.t"]

    def test_a_table_whose_definition_never_stays_is_given_up(self, tmp_path, monkeypatch, caplog):
        bench = Bench(tmp_path, max_chunks=1)
        measure, definitions = bench.source.measure, count()

        def altered(targets: Any, **how: Any) -> list[Any]:
            serial = next(definitions)
            return [replace(extent, key=(f"{serial}",)) for extent in measure(targets, **how)]

        monkeypatch.setattr(bench.source, "measure", altered)
        bench.execute()
        sent = 0
        for _turn in range(500):
            bench.now_s += 60.0
            bench.turns(1)
            if len(bench.events()) > sent:
                sent = len(bench.events())
                bench.source.windows = [SchemaChanged("another definition", where=T)]

        assert bench.told() == ["accepted", "failed public.t"]
        assert caplog.text.count("the definition of public.t has changed; it is read again") == 20
        assert "its definition was changed 21 times while it was read" in bench.answers[-1].text

    def test_rows_that_took_the_place_of_others_have_a_table_read_anew(self, tmp_path):
        bench = Bench(tmp_path, max_chunks=1)
        bench.execute()
        bench.turns(3)
        before = self.left(bench)
        bench.database.commit(Change(U, 9, "moved"))
        bench.source.tells = {"replaced": {T: (7,)}}
        bench.turns(1)
        anew = self.left(bench)
        bench.turns(12)

        assert before == (Range(("2",), ("5",)),)
        assert anew == (Range(None, ("5",)),)
        assert [key for op, _topic, key in bench.events() if op == "r"] == [1, 2, 1, 2, 3, 4, 5]
        assert bench.told() == ["accepted", "finished public.t"]

    def left(self, bench) -> tuple[Range, ...]:
        """What is left of the first collection in the queue."""
        progress = bench.job.state.snapshot.tables[0].progress
        return progress.left if progress else ()

    def test_a_table_that_was_emptied_behind_a_window_s_time_counts_for_that_window_alone(self, tmp_path):
        bench = sliced(tmp_path)
        bench.execute(BOTH)
        until_two(bench)
        second = bench.job.window
        assert second
        bench.database.commit(Change(U, 9, "moved"))
        bench.source.tells = {"superseded_in": {second.id: SupersededKeys(truncated=frozenset({T, U}))}}
        bench.turns(8)

        read = [(topic, key) for op, topic, key in bench.events() if op == "r"]
        assert read == [*(("public.t", key) for key in range(1, 5)), ("public.u", 3)]
        assert bench.told() == ["accepted", "finished public.t", "finished public.u"]

    def test_stopping_a_table_gives_its_window_up(self, bench):
        bench.execute()
        bench.turns(1)
        bench.database.signal("s", "stop-snapshot", '{"type": "incremental"}')
        bench.turns(4)

        assert bench.told() == ["accepted", "accepted", "stopped public.t"]
        assert [op for op, _topic, _key in bench.events()] == ["w", "w"]
        assert not bench.source.memory_source.windows

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
        assert not bench.source.memory_source.windows


class TestBehind:
    """Two windows at once: the first goes out in two slices, the second is read meanwhile."""

    @pytest.fixture
    def bench(self, tmp_path):
        bench = sliced(tmp_path)
        bench.execute(BOTH)
        until_two(bench)
        return bench

    def read(self, bench: Bench) -> list[tuple[str, Any]]:
        return [(topic, key) for op, topic, key in bench.events() if op == "r"]

    def progress(self, bench: Bench) -> Progress:
        """That of the first collection in the queue."""
        progress = bench.job.state.snapshot.tables[0].progress
        assert progress
        return progress

    def test_the_next_window_is_read_while_one_goes_out(self, bench):
        first, second = bench.source.memory_source.windows
        sent = self.read(bench)
        bench.turns(6)

        assert sent == [("public.t", 1), ("public.t", 2)]
        assert [first._window.runs[-1].upto, second._window.runs[0].after] == [("4",), ("4",)]
        keys = [("public.t", key) for key in range(1, 6)] + [("public.u", key) for key in range(1, 4)]
        assert self.read(bench) == keys
        assert bench.told() == ["accepted", "finished public.t", "finished public.u"]

    def test_no_third_one_is_opened(self, bench):
        reading(bench)._polls = 100
        bench.turns(3)

        assert len(bench.source.memory_source.windows) == 1
        assert bench.steps.count("open_window") == 2

    def test_a_change_keeps_the_rows_of_both_back(self, bench):
        bench.database.commit(Change(T, 4, "newer"), Change(U, 1, "newer"))
        bench.turns(6)

        read = self.read(bench)
        assert ("public.t", 4) not in read
        assert ("public.u", 1) not in read
        assert len(read) == 6

    def test_when_the_first_is_given_up_so_is_the_second(self, bench):
        first = bench.source.memory_source.windows[0]
        first.failure = SchemaChanged("another session waits")
        bench.turns(1)
        given_up = list(bench.source.memory_source.windows)
        bench.now_s += 1.0
        bench.turns(8)

        assert given_up == []
        assert sorted(self.read(bench)) == sorted({*self.read(bench)})
        assert len(self.read(bench)) == 8

    def test_stopping_the_table_of_the_second_leaves_the_first(self, bench):
        stop = '{"type": "incremental", "data-collections": ["public.u"]}'
        bench.database.signal("s", "stop-snapshot", stop)
        bench.turns(6)

        assert self.read(bench) == [("public.t", key) for key in range(1, 6)]
        assert bench.told() == ["accepted", "accepted", "stopped public.u", "finished public.t"]

    @pytest.mark.parametrize(
        "error", [SourceError("bad block"), TableBusy("locked", where=T), SinkError("no space left")]
    )
    def test_a_failure_of_the_second_is_judged_once_it_is_read_alone(self, bench, error):
        reading(bench).failure = error
        bench.turns(4)
        meanwhile = bench.job.window
        bench.now_s += 1.0
        bench.turns(8)

        assert meanwhile is None
        assert len(self.read(bench)) == 8
        assert bench.told() == ["accepted", "finished public.t", "finished public.u"]

    def test_no_blocking_window_holds_the_stream_that_the_first_one_waits_for(self, tmp_path):
        bench = sliced(tmp_path)
        bench.execute('{"data-collections": ["public.t"]}')
        bench.turns(1)
        blocking = '{"type": "blocking", "data-collections": ["public.u"]}'
        bench.database.signal("b", "execute-snapshot", blocking)
        open_at_once = []
        for _ in range(20):
            bench.turns(1)
            open_at_once.append({window._window.blocking for window in bench.source.memory_source.windows})

        assert {True} in open_at_once
        assert {True, False} not in open_at_once
        assert bench.told()[-2:] == ["finished public.u", "finished public.t"]

    def test_one_that_can_t_open_leaves_the_queue_as_it_is(self, tmp_path):
        bench = sliced(tmp_path)
        bench.execute(BOTH)
        bench.turns(1)
        bench.source.windows = [SchemaChanged("no such column")]
        bench.source.vanish[T] = SignalError("there is no such table")
        while bench.source.windows:
            bench.turns(1)
        bench.source.refused.clear()
        bench.now_s += 1.0
        bench.turns(8)

        assert len(self.read(bench)) == 8
        assert bench.told() == ["accepted", "finished public.t", "finished public.u"]

    def test_one_that_is_busy_is_asked_for_again_after_a_pause(self, tmp_path):
        bench = sliced(tmp_path, chunk_rows=1, window_rows=5, tasks=4)
        bench.execute()
        bench.turns(1)
        bench.execute('{"data-collections": ["public.u"]}')
        bench.source.refused = {U: TableBusy("waits for a writer", where=U)}
        while bench.source.measures < 2:
            bench.turns(1)
        bench.turns(1)

        assert len(bench.source.memory_source.windows) == 1
        assert bench.source.measures == 2
        bench.source.refused = {}
        bench.now_s += 1.0
        bench.turns(9)
        assert bench.told() == ["accepted", "accepted", "finished public.t", "finished public.u"]

    def test_nothing_is_measured_while_the_last_one_goes_out(self, tmp_path):
        bench = sliced(tmp_path, chunk_rows=1, window_rows=5, tasks=4)
        bench.execute()
        bench.turns(6)

        assert bench.told() == ["accepted", "finished public.t"]
        assert bench.source.measures == 1

    def test_many_are_measured_for_a_moment_at_a_time(self, tmp_path, monkeypatch):
        """The stream waits while they are measured."""
        bench, measured = sliced(tmp_path, chunk_rows=1000, window_rows=1000), []

        def slow(targets, **_how):
            bench.now_s += 0.25
            measured.append((bench.job.state.turn, len(targets)))
            return bench.source.memory_source.measure(targets)

        monkeypatch.setattr(bench.source, "measure", slow)
        for number in range(130):
            bench.execute(f'{{"data-collections": ["public.t"], "additional-condition": "k > {number}"}}')
        for _ in range(20):
            bench.turns(10)
            bench.now_s += 1.0

        by_turn = [sum(size for at, size in measured if at == turn) for turn in {at for at, _ in measured}]
        assert max(by_turn) == 50
        assert sum(by_turn) >= 130
        assert bench.told().count("finished public.t") == 130

    def test_a_lost_connection_while_it_opens_leaves_the_first(self, tmp_path):
        bench = sliced(tmp_path)
        bench.execute(BOTH)
        bench.turns(1)
        bench.source.windows = [SourceError("no connection is left")]
        while bench.source.windows:
            bench.turns(1)
        sent = len(bench.source.memory_source.windows)
        bench.now_s += 1.0
        bench.turns(8)

        assert sent == 1
        assert len(self.read(bench)) == 8

    def test_its_opening_does_not_start_its_table_s_clock_again(self, tmp_path):
        bench = Bench(tmp_path, window_rows=2, chunk_rows=1)
        bench.execute()
        signal = tuple(bench.database.log[-1:])
        # The first window contains this, and waits for it.
        bench.database.commit(Change(U, 9, "new"))
        bench.source.log = ScriptedLog([MemorySpan(Position((9,)), signal)])
        bench.turns(1)
        bench.now_s += 5.0
        bench.turns(3)

        assert len(bench.source.memory_source.windows) == 2
        assert self.progress(bench).since_ms == 1_000_000

    def test_a_table_of_which_too_many_rows_may_have_moved_is_begun_anew_and_given_up_in_the_end(
        self, tmp_path, caplog
    ):
        bench = sliced(tmp_path, window_rows=2, most_reread=1, max_chunks=1)
        bench.execute()
        for serial in range(40):
            changes = [Change(T, n + 1, str(serial), old=n, large=None) for n in range(10, 40, 10)]
            changes += [Change(T, n, str(serial), old=n + 1, large=None) for n in range(10, 40, 10)]
            bench.database.commit(*changes)
            bench.turns(1)
        bench.turns(20)

        assert caplog.text.count("the table is read again") == 3
        assert bench.told() == ["accepted", "failed public.t"]

    def test_another_snapshot_of_that_table_goes_on(self, tmp_path):
        """A window is reading it."""
        bench = Bench(tmp_path, window_rows=2, most_reread=0)
        bench.execute()
        bench.turns(1)
        (first,) = bench.job.state.snapshot.tables
        both = replace(bench.job.state.snapshot, tables=(first, replace(first, ticket=9)))

        state = bench.job._windows._opening.restart_crowded(bench.job.state.with_queue(both), [first])

        assert first.progress is not None
        assert [table.progress for table in state.snapshot.tables] == [None, first.progress]

    def test_a_row_that_leaves_a_key_that_waits_is_read_at_its_new_one(self, tmp_path):
        bench = sliced(tmp_path, window_rows=5)
        bench.execute(BOTH)
        until_two(bench)
        second = reading(bench)
        second._polls = 6
        bench.database.commit(Change(T, 5, "newer", large=None))
        while len(bench.source.memory_source.windows) == 2:
            bench.turns(1)
        waits = self.progress(bench).reread
        bench.database.commit(Change(T, 9, "newer", old=5, large=None))
        bench.turns(12)

        assert waits == (("5",),)
        assert bench.told() == ["accepted", "finished public.u", "finished public.t"]
        assert ("public.t", 9) in self.read(bench)

"""What a job counts of itself while it turns, and what a failed turn does not count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import SinkError, SourceError
from engine.events.counts import EventCounts
from engine.job.reports.tally import JobPhase, Phase, Tally
from tests.job_bench import BOTH, Bench, T, U
from tests.memory_source import Change

if TYPE_CHECKING:
    from pathlib import Path

    from engine.job.loop import Job


def watched(bench: Bench, tally: Tally) -> Job:
    """The bench's job, counting into this tally."""
    parts = bench.parts()
    bench.parts = lambda: replace(parts, tally=tally)  # type: ignore[method-assign]
    return bench.new_job()


def refuse(*_given: object) -> None:
    raise SinkError("full")


@pytest.fixture
def tally() -> Tally:
    return Tally(watched=True)


@pytest.fixture
def bench(tmp_path: Path, tally: Tally) -> Bench:
    bench = Bench(tmp_path)
    watched(bench, tally)
    bench.job.settle()
    bench.job.start()
    return bench


def test_rows_windows_and_phases_of_a_snapshot_are_counted(bench: Bench, tally: Tally):
    bench.execute(BOTH)
    bench.turns(12)

    assert (tally.read, tally.emitted, tally.superseded) == (8, 8, 0)
    assert {phase: time.windows for phase, time in tally.phases.items()} == dict.fromkeys(Phase, 1)
    assert (tally.windows, tally.staged_bytes) == ((), 0)
    course = tally.snapshots.incremental
    assert (course.total, course.finished, course.aborted, course.completed) == (2, 2, 0, True)
    assert course.rows == {T: 5, U: 3}
    assert (course.read, course.emitted) == (8, 8)
    assert tally.snapshots.whole.begun_s is None


def test_events_are_counted_by_operation_with_their_lag(bench: Bench, tally: Tally):
    bench.source.tells = {"counts": EventCounts(1, 2, 3, 0, 4, 17), "lag_s": 2.0}
    bench.database.commit(Change(T, 9, "new"))
    bench.turns(1)
    bench.source.tells = {"counts": EventCounts(1, 0, 0, 1, 1, None)}
    bench.database.commit(Change(T, 9, "newer"))
    bench.turns(1)

    assert tally.counts == EventCounts(2, 2, 3, 1, 5, 17)
    assert (tally.turns, tally.sent, tally.entries) == (2, 2, 2)
    assert (tally.lag_ms.count, tally.lag_ms.least) == (2, 2000)
    assert tally.last_event_s == 1000.0


def test_a_turn_that_fails_is_counted_once_it_succeeds(bench: Bench, tally: Tally):
    bench.sink.commit = refuse  # type: ignore[method-assign,assignment]
    bench.database.commit(Change(T, 9, "new"))
    with pytest.raises(SinkError):
        bench.turns(1)
    bench.job.close()
    assert (tally.turns, tally.sent, tally.entries) == (0, 0, 0)

    del bench.sink.commit
    watched(bench, tally)
    bench.job.settle()
    bench.turns(1)
    assert (tally.turns, tally.sent, tally.entries) == (1, 1, 1)


def test_failures_are_counted_by_class_and_end_the_session(bench: Bench, tally: Tally):
    bench.source.openings = [SourceError("gone"), SourceError("gone")]
    bench.job.close()
    bench.job.run(lambda: tally.failures["SourceError"] == 2)

    assert tally.failures == {"SourceError": 2}
    assert tally.failure == "SourceError"
    assert tally.standing is JobPhase.FAILING


def test_a_stopped_collection_is_aborted(bench: Bench, tally: Tally):
    bench.execute(BOTH)
    bench.database.signal("s1", "pause-snapshot", "{}")
    bench.turns(1)
    assert tally.snapshots.incremental.running
    bench.database.signal("s2", "stop-snapshot", '{"type": "incremental", "data-collections": ["public.u"]}')
    bench.turns(1)
    bench.database.signal("s3", "resume-snapshot", "{}")
    bench.turns(12)

    course = tally.snapshots.incremental
    assert (course.total, course.finished, course.aborted, course.running) == (2, 1, 1, False)
    assert not course.completed


def test_a_pause_is_timed(bench: Bench, tally: Tally):
    bench.execute()
    bench.database.signal("s2", "pause-snapshot", "{}")
    bench.turns(1)
    bench.now_s += 7
    course = tally.snapshots.incremental
    assert course.paused_s(bench.now_s) == 7

    bench.database.signal("s3", "resume-snapshot", "{}")
    bench.turns(12)
    bench.now_s += 7
    assert course.paused_s(bench.now_s) == 7
    assert course.duration_s(bench.now_s) == 7


def test_captured_collections_are_asked_for_only_if_somebody_watches(tmp_path: Path, tally: Tally):
    asked = Bench(tmp_path / "a")
    watched(asked, tally).start()
    unasked, unwatched = Bench(tmp_path / "b"), Tally()
    watched(unasked, unwatched).start()

    assert tally.captured >= {T, U}
    assert unwatched.captured == frozenset()

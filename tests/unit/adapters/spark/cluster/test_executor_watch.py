"""What follows from what Spark says of executors and stages."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.spark.cluster import executor_watch
from adapters.spark.cluster.executor_watch import ExecutorWatch, Seen, look_at, watched
from engine.errors import ExecutorsFailed, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNNING = frozenset({"1"})


def ended(*executors: int) -> dict[str, str]:
    return {str(executor): f"exit code {executor}" for executor in executors}


def waiting(ended_in_vain: int, *, done: int = 0) -> Seen:
    """Work waits, and so many executors have ended that had done nothing."""
    gone = ended(*range(ended_in_vain))
    return Seen(waits=True, running=RUNNING, ended=gone, in_vain=frozenset(gone), done=done)


class TestExecutorsThatEnd:
    def test_one_after_the_other_without_a_task_done_end_the_job(self):
        watch = ExecutorWatch(0)
        watch.note(waiting(0, done=7), 0.0)
        watch.note(waiting(7, done=7), 1.0)

        with pytest.raises(ExecutorsFailed, match=r"8 executors have ended .*: exit code 7; look at"):
            watch.note(waiting(8, done=7), 2.0)

    def test_count_before_the_first_look(self):
        with pytest.raises(ExecutorsFailed, match=r"8 executors have ended"):
            ExecutorWatch(0).note(waiting(8), 0.0)

    def test_count_from_the_last_task_done(self):
        watch = ExecutorWatch(0)
        watch.note(waiting(7, done=7), 0.0)

        assert watch.note(waiting(15, done=8), 1.0) == []
        assert watch.note(waiting(22, done=8), 2.0) == []
        with pytest.raises(ExecutorsFailed):
            watch.note(waiting(23, done=8), 3.0)

    def test_do_not_count_if_they_have_done_tasks(self):
        """All executors of a machine may end with it in the middle of long tasks."""
        watch = ExecutorWatch(0)
        watch.note(waiting(0, done=500), 0.0)

        assert watch.note(Seen(waits=True, ended=ended(*range(30)), done=500), 1.0) == []

    def test_do_not_count_while_nothing_is_to_be_done(self):
        watch = ExecutorWatch(0)
        watch.note(Seen(waits=True), 0.0)

        assert watch.note(Seen(ended=ended(*range(30)), in_vain=frozenset(ended(*range(30)))), 1.0) == []


class TestNoExecutor:
    def said(self, caplog: pytest.LogCaptureFixture, *moments: tuple[float, Seen]) -> list[str]:
        watch = ExecutorWatch(0)
        with caplog.at_level(logging.INFO, "adapters"):
            for now_s, seen in moments:
                watch.note(seen, now_s)
        return [record.getMessage() for record in caplog.records]

    def test_is_told_once_and_once_more_when_one_runs(self, caplog):
        none = Seen(waits=True, ended=ended(3))
        one = Seen(waits=True, running=RUNNING)

        assert self.said(caplog, (0, none), (5, none), (10, none), (60, none), (61, one), (62, one)) == [
            "no executor runs; waiting for one: has the master free cores and memory? (exit code 3)",
            "an executor runs again",
        ]

    def test_is_not_told_where_one_comes_soon_or_nothing_waits(self, caplog):
        none, one = Seen(waits=True), Seen(waits=True, running=RUNNING)

        assert self.said(caplog, (0, none), (9, one), (10, none), (19, none), (20, Seen()), (40, none)) == []


class TestStages:
    def stalled(self, stalled_s: float, *moments: tuple[float, dict[int, Any]]) -> list[Sequence[int]]:
        watch = ExecutorWatch(stalled_s)
        return [
            watch.note(Seen(waits=True, running=RUNNING, stages=stages), now_s) for now_s, stages in moments
        ]

    def test_that_stand_still_for_too_long_are_cancelled(self):
        assert self.stalled(10, (0, {1: 5, 2: 5}), (6, {1: 5, 2: 6}), (11, {1: 5, 2: 6})) == [[], [], [1]]

    def test_are_cancelled_once_while_their_tasks_end(self):
        assert self.stalled(10, *((moment, {1: 5}) for moment in (0, 11, 13, 20, 22))) == [
            [],
            [1],
            [],
            [],
            [1],
        ]

    def test_that_get_further_or_have_no_running_task_are_left_alone(self):
        assert self.stalled(10, (0, {1: 5}), (9, {1: 6}), (18, {}), (20, {1: 6}), (29, {1: 6})) == [[]] * 5

    def test_may_stand_still_for_ever_with_0(self):
        assert self.stalled(0, (0, {1: 5}), (1e6, {1: 5})) == [[], []]


class FakeStore:
    """Spark's status store, with dead executors of so many tasks and why they were removed."""

    def __init__(self, *executors: tuple[int, str]) -> None:
        self._executors = executors

    def executorList(self, _active: bool) -> FakeSequence:  # noqa: FBT001, N802  Spark's
        return FakeSequence(
            [
                SimpleNamespace(
                    id=lambda number=number: str(number),
                    isActive=lambda: False,
                    completedTasks=lambda tasks=tasks: tasks,
                    removeReason=lambda why=why: SimpleNamespace(isDefined=lambda: True, get=lambda: why),
                )
                for number, (tasks, why) in enumerate(self._executors)
            ]
        )

    def activeStages(self) -> FakeSequence:  # noqa: N802  Spark's name
        return FakeSequence([])


class FakeSequence:
    """A Scala sequence."""

    def __init__(self, items: list[Any]) -> None:
        self._items = list(items)

    def iterator(self) -> FakeSequence:
        return self

    def hasNext(self) -> bool:  # noqa: N802  Scala's name
        return bool(self._items)

    def next(self) -> Any:
        return self._items.pop(0)


def test_those_that_did_a_task_or_were_idle_have_not_ended_in_vain():
    store = FakeStore((3, "lost"), (0, "Command exited with code 1"), (0, "Executor killed by driver."))
    scala = SimpleNamespace(
        statusTracker=lambda: SimpleNamespace(getActiveJobIds=lambda: [1]), statusStore=lambda: store
    )
    context: Any = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: scala))

    seen = look_at(context)

    assert [*seen.ended] == ["0", "1", "2"]
    assert seen.in_vain == {"1"}
    assert seen.done == 3


class FakeSpark:
    """A session of which only the master is looked at, and the jobs that are cancelled are counted."""

    def __init__(self, master: str) -> None:
        self.sparkContext, self.master, self.cancelled = self, master, 0

    def cancelAllJobs(self) -> None:  # noqa: N802  Spark's name
        self.cancelled += 1


def test_a_job_whose_executors_do_nothing_ends_with_the_reason(monkeypatch):
    monkeypatch.setattr(executor_watch, "_LOOK_S", 0.01)
    moments = iter([Seen(waits=True), waiting(8)])
    monkeypatch.setattr(executor_watch, "look_at", lambda _context: next(moments))
    spark: Any = FakeSpark("spark://host:7077")

    with pytest.raises(ExecutorsFailed, match="exit code 7"), watched(spark, 0, time.monotonic) as watching:  # noqa: PT012
        while not (watching.failed and spark.cancelled):
            pass
        raise SourceError("the job that was cancelled")


def test_a_local_master_has_no_executors_to_watch(monkeypatch):
    monkeypatch.setattr(executor_watch, "_LOOK_S", 0.01)
    looked: list[SimpleNamespace] = []
    monkeypatch.setattr(executor_watch, "look_at", looked.append)
    spark: Any = FakeSpark("local[*]")
    with watched(spark, 0, time.monotonic) as watching:
        watching._over.wait(0.05)

    assert looked == []

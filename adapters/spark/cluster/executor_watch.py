"""Watches the executors of a cluster while a job runs. Without it a job might wait for ever, and say nothing.

Spark starts executors that end anew, as often as it takes, and waits for tasks as long as they run:

    what is seen                                             what follows
    ───────────────────────────────────────────────────────  ──────────────────────────────────────────────
    work waits, and for 10 s no executor has run             told once, and once more when one runs
    eight that did no task have ended, and nobody did one    the job ends, with what Spark says of the last
    of a stage runs, and nothing comes of it for `stalled_s`  the stage is cancelled, and its work done again

Progress of a stage is a task that is done, or a row that a running task has read. Executors report the latter
every few seconds. Stages that send to the sink are left alone: how long that may take is the sink's affair.

`ExecutorWatch` decides, and `watched` has the thread that looks.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adapters.spark.cluster.shipping import is_cluster
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.pools import SENDS
from engine.errors import ExecutorsFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_log = logging.getLogger("adapters")
_LOOK_S: Final = 2.0
_NONE_S: Final = 10.0
_ENDED_IN_VAIN: Final = 8
"""Spark's master gives an application up after ten that ended before they ran. It does not say why."""
_RELEASED: Final = "Executor killed by driver."
"""The reason of an executor that Spark has released because it was idle (dynamic allocation)."""
_DRIVER: Final = "driver"
_LONGEST: Final = 300


@dataclass(frozen=True, slots=True)
class Seen:
    """What Spark says of one moment.

    `running` are the executors that run, `ended` why others have ended. Of these, `in_vain` have completed no
    task, and Spark has not released them. `done` counts the tasks that all have completed. `stages` has the
    progress of each stage of which tasks run, as anything that changes.
    """

    waits: bool = False
    running: frozenset[str] = frozenset()
    ended: Mapping[str, str] = field(default_factory=dict)
    in_vain: frozenset[str] = frozenset()
    done: int = 0
    stages: Mapping[int, Any] = field(default_factory=dict)


class ExecutorWatch:
    """Decides what follows from what is seen. `stalled_s`: how long a stage may stand still; 0: for ever."""

    def __init__(self, stalled_s: float) -> None:
        self._stalled_s = stalled_s
        self._done, self._known = 0, frozenset[str]()
        self._alone_s: float | None = None
        self._told = False
        self._stages: dict[int, tuple[Any, float]] = {}

    def note(self, seen: Seen, now_s: float) -> list[int]:
        """Note what is seen; returns the stages to cancel. Raises ExecutorsFailed if the job is to end."""
        self._note_ended(seen)
        self._note_alone(seen, now_s)
        return self._stalled(seen, now_s)

    def _note_ended(self, seen: Seen) -> None:
        if seen.done != self._done or not seen.waits:
            self._done, self._known = seen.done, seen.in_vain
            return
        in_vain = seen.in_vain - self._known
        if len(in_vain) >= _ENDED_IN_VAIN:
            raise ExecutorsFailed(
                f"{len(in_vain)} executors have ended one after the other, and none has done a task:"
                f" {seen.ended[max(in_vain, key=_number)]}",
                where="spark",
                hint="look at the executors' logs",
            )

    def _note_alone(self, seen: Seen, now_s: float) -> None:
        if seen.running or not seen.waits:
            if self._told and seen.running:
                _log.info("an executor runs again")
                self._told = False
            self._alone_s = None
            return
        self._alone_s = now_s if self._alone_s is None else self._alone_s
        if not self._told and now_s - self._alone_s >= _NONE_S:
            self._told = True
            said = f" ({[*seen.ended.values()][-1]})" if seen.ended else ""
            _log.warning("no executor runs; waiting for one: has the master free cores and memory?%s", said)

    def _stalled(self, seen: Seen, now_s: float) -> list[int]:
        before = self._stages
        self._stages = {
            stage: before[stage] if stage in before and before[stage][0] == progress else (progress, now_s)
            for stage, progress in seen.stages.items()
        }
        if not self._stalled_s:
            return []
        stalled = [
            stage for stage, (_at, since_s) in self._stages.items() if now_s - since_s > self._stalled_s
        ]
        # Its tasks may take a while to end.
        self._stages |= {stage: (self._stages[stage][0], now_s) for stage in stalled}
        return stalled


def _number(executor: str) -> int:
    return int(executor) if executor.isdecimal() else -1


def look_at(context: SparkContext) -> Seen:
    """What Spark says now. If nothing is to be done, only that is asked."""
    scala: Any = context._jsc.sc()  # noqa: SLF001  there is no public way
    if not len(scala.statusTracker().getActiveJobIds()):
        return Seen(running=frozenset({_DRIVER}))
    store = scala.statusStore()
    executors = [executor for executor in _each(store.executorList(False)) if executor.id() != _DRIVER]  # noqa: FBT003  not only active ones
    ended = sorted(
        (executor for executor in executors if not executor.isActive()), key=lambda e: _number(e.id())
    )
    reasons = {executor.id(): _reason(executor) for executor in ended}
    stages = {
        stage.stageId(): _progress(stage)
        for stage in _each(store.activeStages())
        if stage.numActiveTasks() and not _sends(stage)
    }
    return Seen(
        waits=True,
        running=frozenset(executor.id() for executor in executors if executor.isActive()),
        ended=reasons,
        in_vain=frozenset(
            executor.id()
            for executor in ended
            if not executor.completedTasks() and reasons[executor.id()] != _RELEASED
        ),
        done=sum(executor.completedTasks() for executor in executors),
        stages=stages,
    )


def _progress(stage: Any) -> tuple[int, ...]:
    return (
        int(stage.attemptId()),
        int(stage.numCompleteTasks()),
        int(stage.numFailedTasks()),
        int(stage.inputRecords()),
        int(stage.inputBytes()),
    )


def _sends(stage: Any) -> bool:
    described = stage.description()
    return bool(described.isDefined()) and str(described.get()) == SENDS


def _each(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    items = sequence.iterator()
    while items.hasNext():
        yield items.next()


def _reason(executor: Any) -> str:
    reason = executor.removeReason()
    said = str(reason.get()) if reason.isDefined() else "Spark does not say why"
    return said.splitlines()[0][:_LONGEST] if said else said


class Watching:
    """The thread that looks. `failed`: why the job is to end, if it is."""

    def __init__(self, context: SparkContext, watch: ExecutorWatch, monotonic: Callable[[], float]) -> None:
        self._context, self._watch, self._monotonic = context, watch, monotonic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="tidemark-executors", daemon=True)
        self.failed: ExecutorsFailed | None = None

    def begin(self) -> None:
        """Look from now on."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_LOOK_S)

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                self._act()
            except SPARK_ERRORS:  # Spark has ended, which others notice
                return

    def _act(self) -> None:
        if self.failed is None:
            try:
                stalled = self._watch.note(look_at(self._context), self._monotonic())
            except ExecutorsFailed as error:
                self.failed = error
            else:
                for stage in stalled:
                    _log.warning("nothing has come of Spark's stage %d for too long; it is cancelled", stage)
                    self._context._jsc.sc().cancelStage(stage)  # noqa: SLF001  there is no public way
        if self.failed is not None:
            # What waits for executors in another thread fails. It is asked again until the job has ended.
            self._context.cancelAllJobs()


@contextmanager
def watched(spark: SparkSession, stalled_s: float, monotonic: Callable[[], float]) -> Iterator[Watching]:
    """Watch the executors until the end of the context, if there are any on other machines.

    Raises ExecutorsFailed at the end if the job is to end because of them.
    """
    context = spark.sparkContext
    watching = Watching(context, ExecutorWatch(stalled_s), monotonic)
    if is_cluster(str(context.master)):
        watching.begin()
    try:
        yield watching
    except Exception as error:
        if watching.failed is not None:
            raise watching.failed from error
        raise
    finally:
        watching.end()
    if watching.failed is not None:
        raise watching.failed

"""A source's job: run for the command line, or built for Python code that has its own Spark session.

A source's `job.py` says how the source is made, and what happens before Spark starts and after the job has
ended. `wiring` has what a job is built from.
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.http.watching import watching
from adapters.source.assembly.job_sink import make_sink
from adapters.source.assembly.leasing import leased_checkpoint
from adapters.source.assembly.notifier import Notifier, make_notices
from adapters.source.assembly.signal_desk import JobSignals, make_desk
from adapters.source.assembly.spark_wanted import wanted_by
from adapters.source.assembly.staging import asked_of, staging_of
from adapters.source.assembly.supplied import NOBODY
from adapters.source.assembly.wiring import job_parts, observer, opened, pace
from adapters.spark.cluster import preflight, slots
from adapters.spark.cluster.executor_watch import watched
from adapters.spark.connect import refuse_connect
from adapters.spark.ending import outlived
from adapters.spark.pools import in_pool, pool_of
from adapters.spark.shared_session import OF_PROCESS
from adapters.spark.worker import keep_loaded
from adapters.storage.answer_journal import AnswerJournal, last_answers
from adapters.storage.figures import FiguresFile
from adapters.system import system_clock
from engine.errors import LeaseLost, SourceError
from engine.job.loop import Job
from engine.job.reports.tally import JobPhase

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from adapters.source.assembly.supplied import LeasedCheckpoint, Locations, Onlookers, Site, SuppliedSource
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.job.parts import JobParts
    from signals.answers import Answer
    from signals.desk import Desk

_log = logging.getLogger("adapters")
_RECALLED = 20
"""How many answers of earlier processes the status page shows."""


def _nothing(_settings: Settings) -> None:
    """Do nothing."""


def _nowhere(_settings: Settings) -> tuple[()]:
    """No server."""
    return ()


@dataclass(frozen=True, slots=True)
class SourceJob:
    """The jobs of one source.

    - `wire` makes the source
    - `packages` are the ones that Spark needs for it
    - `prepare` runs before Spark starts, which is slow. It raises what makes the job impossible.
    - `finish` runs when the job has ended and held its lease to the end
    - `addresses` are the servers that the executors must reach: host and port
    """

    wire: Callable[[Settings, SparkSession, Locations], SuppliedSource]
    packages: tuple[str, ...] = ()
    prepare: Callable[[Settings], None] = _nothing
    finish: Callable[[Settings], None] = _nothing
    addresses: Callable[[Settings], Sequence[tuple[str, int]]] = _nowhere

    def run(
        self,
        settings: Settings,
        *,
        stop: threading.Event,
        spark: SparkSession | None = None,
        onlookers: Onlookers = NOBODY,
    ) -> None:
        """Run the job until `stop` is set, on `spark` if given, else on a session made for it.

        A job that loses its lease is closed, and a new one stands by in its place. A session made here is
        stopped with the last job of the process that uses it. Raises a TidemarkError when the job can't
        continue.
        """
        kept = False  # if Spark ends while the job is to stop, nothing more is known
        clock = system_clock(stop.wait)
        with watching(settings, self.addresses, clock, onlookers.monitor) as monitor:
            onlookers = replace(onlookers, monitor=monitor)
            self.prepare(settings)
            with on_spark(settings, self.packages, spark, stop) as session, pooled(session, settings.name):
                kept = self._run(settings, session, clock, stop, onlookers)
        if kept:
            self.finish(settings)

    def _run(
        self,
        settings: Settings,
        spark: SparkSession,
        clock: Clock,
        stop: threading.Event,
        onlookers: Onlookers,
    ) -> bool:
        """Returns whether the lease was held to the end. Raises ExecutorsFailed if none does any work."""
        with watched(spark, settings.job.spark_stalled_ms / 1000, clock.monotonic) as executors:
            preflight.check(spark, asked_of(settings, self.addresses(settings)), clock)
            while not stop.is_set():
                try:
                    with self.building(settings, spark, onlookers, clock=clock) as job:
                        keep_loaded()
                        job.run(lambda: stop.is_set() or executors.failed is not None)
                        return True
                except LeaseLost as error:
                    if not stop.is_set():
                        _log.warning("%s; nothing more is written, standing by", error)
        return False

    @contextmanager
    def building(
        self,
        settings: Settings,
        spark: SparkSession,
        onlookers: Onlookers,
        *,
        clock: Clock | None = None,
        wrap: Callable[[JobParts], JobParts] = lambda parts: parts,
    ) -> Iterator[Job]:
        """The job, not yet started; its sink and its staging directory are released at the end.

        Before it touches anything, it stands by until it holds its leases; see `leasing.leased_checkpoint`.
        `clock` is the system's if None is given: nobody can stop the job in a pause then. `wrap` can put
        something between the job and its ports.
        """
        clock, monitor = clock or system_clock(), onlookers.monitor
        if monitor is not None:
            monitor.tally.standing = JobPhase.STANDING_BY
        with (
            leased_checkpoint(settings, spark, clock.sleep) as checkpoint,
            _opened(settings, spark, checkpoint, clock) as site,
            closing(self.wire(settings, spark, site.locations)) as wired,
            closing(_desk(settings, site, onlookers, wired)) as desk,
            closing(_figures(checkpoint, wired)) as figures,
            closing(Notifier(settings.notifications)) as notifier,
        ):
            notices = make_notices(settings, notifier, clock)
            parts = replace(job_parts(settings, spark, site, wired, desk), notices=notices)
            if monitor is not None:
                monitor.attach(wired.kept, wired.show, wired.numbers, wired.figures, wired.database)
                monitor.tally.standing = JobPhase.OPENING
                if not monitor.answers:
                    monitor.recall(last_answers(checkpoint.directory, _RECALLED))
                parts = replace(parts, tally=monitor.tally)
            yield Job(
                wrap(parts),
                pace(settings, wired, shared_disk=site.shared_disk),
                observer(settings, onlookers, figures),
            )


def _opened(
    settings: Settings, spark: SparkSession, leased: LeasedCheckpoint, clock: Clock
) -> AbstractContextManager[Site]:
    stages = staging_of(settings.job.staging_kind, spark, leased.staging, slots.now(spark.sparkContext))
    return opened(settings, spark, leased, clock, stages, make_sink)


def _desk(settings: Settings, site: Site, onlookers: Onlookers, wired: SuppliedSource) -> Desk:
    clock, monitor = site.locations.clock, onlookers.monitor
    journal = AnswerJournal(site.checkpoint.directory, clock.now)

    def record(turn: int, answers: Sequence[Answer]) -> None:
        journal.record(turn, answers)
        if monitor is not None:
            monitor.record(turn, answers)

    return make_desk(
        settings.signals,
        settings.events.topic_prefix,
        clock,
        onlookers.answer,
        record,
        JobSignals(None if monitor is None else monitor.channel, wired.actions),
    )


def _figures(checkpoint: LeasedCheckpoint, wired: SuppliedSource) -> FiguresFile:
    return FiguresFile(checkpoint.directory, wired.show, wired.kept, checkpoint.leases.check)


@contextmanager
def on_spark(
    settings: Settings, packages: tuple[str, ...], spark: SparkSession | None, stop: threading.Event
) -> Iterator[SparkSession]:
    """`spark`, or the session that the jobs of this process share, with these packages.

    If Spark ends early, `outlived` decides what that means. Raises ConfigError for Spark Connect.
    """
    refuse_connect(settings.job.spark_master, spark)
    shared = nullcontext(spark) if spark is not None else OF_PROCESS.used(wanted_by(settings, packages))
    with shared as session, outlived(session, stop):
        yield session


def pooled(spark: SparkSession, name: str) -> AbstractContextManager[None]:
    """Jobs of this thread belong to the pool of this name, unless the caller has chosen one."""
    return in_pool(spark, pool_of(spark.sparkContext) or name)


@contextmanager
def trying() -> Iterator[None]:
    """Try to reach a server, so that a wrong password or host is reported before Spark spends time starting.

    A server that is not up yet is no error here: the job waits for it.
    """
    try:
        yield
    except SourceError as error:
        _log.warning("%s", error)

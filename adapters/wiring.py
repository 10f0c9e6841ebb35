"""What every job is put together from, whatever its source: sink, state, signals, pace, directories.

Owns which implementation stands behind each port but the source's, and the directories they share. An
adapter's own `job.py` gives the source.
"""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, assert_never
from urllib.parse import urlparse

from adapters.signals.desk import make_desk
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.kafka import KafkaSink
from adapters.sinks.null import NullSink
from adapters.spark.ending import end, outlived
from adapters.spark.executors import SparkExecutors, ThreadExecutors
from adapters.spark.session import spark_session
from adapters.spark.state import FileStateStore
from adapters.spark.storage import storage
from engine.config.settings import SinkKind
from engine.errors import SourceError
from engine.events.heartbeat import heartbeat
from engine.job import Job
from engine.marks import Mark
from engine.progress import ProgressLog
from engine.pulse import Pulse
from engine.seams import Pace, Seams
from engine.staging import StagingArea, clear

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from engine.config.settings import Settings, SinkSettings
    from engine.job import Observation
    from engine.model import Position
    from engine.ports import Executors, Sink, Source
    from engine.state import State
    from signals.answers import Answer

_log = logging.getLogger("adapters")
LOCAL_ROWS = 20_000
"""Rows and entries that are encoded in the driver, where a Spark job would take longer."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are kept: a URI for the state; what driver and executors share, for what is staged.

    `windows` is for the rows of windows.
    """

    checkpoint: str
    staging: str
    windows: StagingArea


@dataclass(frozen=True, slots=True)
class Onlookers:
    """Who is told what: every turn's observation, and every signal's answer; None logs them."""

    observe: Callable[[Observation], None] | None = None
    answer: Callable[[Answer], None] | None = None


NOBODY = Onlookers()


@dataclass(frozen=True, slots=True)
class Wired:
    """What a source brings: itself, how to give it up, how its positions are shown.

    `run_statement` runs the user's statement with every heartbeat; `first_retries` are the attempts
    to open a log that has never been open; `longest_window_s` is `Pace`'s; `done` says that nothing is left
    to do; `marks` are those that the READ events of an initial snapshot know.
    """

    source: Source
    close: Callable[[], None]
    show: Callable[[Position], str]
    run_statement: Callable[[str], None] = lambda _statement: None
    first_retries: int = 6
    first_backoff_s: float = 10.0
    longest_window_s: float = 0.0
    done: Callable[[State], bool] = lambda _state: False
    marks: frozenset[Mark] = frozenset(Mark)


@contextmanager
def on_spark(
    settings: Settings, packages: tuple[str, ...], spark: SparkSession | None, stop: threading.Event
) -> Iterator[SparkSession]:
    """`spark`, or a session made with these packages and stopped at the end; `stop` is set if it dies."""
    session = spark or spark_session(settings.job.spark_master, settings.job.spark_conf, packages)
    try:
        with outlived(session, stop):
            yield session
    finally:
        if spark is None:
            end(session)


@contextmanager
def trying() -> Iterator[None]:
    """Try to reach a server, to tell of a wrong password or host before Spark takes its time to start.

    A server that is not up yet is waited for by the job.
    """
    try:
        yield
    except SourceError as error:
        _log.warning("%s", error)


@contextmanager
def building(
    settings: Settings,
    spark: SparkSession,
    onlookers: Onlookers,
    wire: Callable[[Places], Wired],
    *,
    sleep: Callable[[float], object] = time.sleep,
    wrap: Callable[[Seams], Seams] = lambda seams: seams,
) -> Iterator[Job]:
    """The job, not yet started; its sink and its staging directory are given up at the end.

    `sleep` is its pause before it tries again, in seconds; it may end early when the job is to stop.
    `wrap` puts something between the job and its ports.
    """
    with ExitStack() as held:
        checkpoint, staging = held.enter_context(_directories(settings))
        sink = make_sink(settings.sink, SparkExecutors(spark), f"{staging}/kafka", tasks=tasks_of(spark))
        held.callback(sink.close)
        windows = sink.windows if isinstance(sink, FilesSink) else StagingArea(staging)
        for directory in dict.fromkeys((staging, windows.directory)):
            clear(directory)
            held.callback(clear, directory)
        wired = wire(Places(checkpoint, staging, windows))
        held.callback(wired.close)
        desk = make_desk(settings.signals, settings.events.topic_prefix, onlookers.answer)
        held.callback(desk.close)
        seams = Seams(
            source=wired.source,
            sink=sink,
            store=FileStateStore(storage(spark, checkpoint)),
            executors=_emitters(spark),
            desk=desk,
            pulse=_pulse(settings, wired),
            now=time.time,
            sleep=sleep,
            local_rows=LOCAL_ROWS,
            show=wired.show,
            done=wired.done,
            marks=wired.marks,
        )
        yield Job(wrap(seams), _pace(settings, spark, wired), _observer(settings, onlookers))


def _observer(settings: Settings, onlookers: Onlookers) -> Callable[[Observation], None]:
    return onlookers.observe or ProgressLog(settings.job.progress_interval_ms / 1000)


def _pulse(settings: Settings, wired: Wired) -> Pulse:
    job = settings.job
    return Pulse(
        job.heartbeat_interval_ms / 1000,
        partial(heartbeat, settings.events),
        partial(wired.run_statement, job.heartbeat_query),
    )


def tasks_of(spark: SparkSession) -> int:
    """How many tasks Spark runs at once."""
    return max(1, spark.sparkContext.defaultParallelism)


def _pace(settings: Settings, spark: SparkSession, wired: Wired) -> Pace:
    job, snapshot = settings.job, settings.snapshot
    return Pace(
        chunk_rows=snapshot.chunk_size,
        window_s=job.window_seconds,
        longest_window_s=wired.longest_window_s,
        window_bytes=job.window_max_bytes,
        max_chunks=job.window_max_chunks or None,
        tasks=tasks_of(spark),
        max_lag_s=job.max_lag_ms / 1000,
        retries=None if job.max_retries < 0 else job.max_retries,
        first_retries=wired.first_retries,
        first_backoff_s=wired.first_backoff_s,
        longest_backoff_s=max(0.5, job.restart_wait_ms / 1000),
    )


@contextmanager
def _directories(settings: Settings) -> Iterator[tuple[str, str]]:
    """Checkpoint and staging directory of a job; without a checkpoint in the settings, temporary ones."""
    with tempfile.TemporaryDirectory(prefix="tidemark-") as temporary:
        checkpoint = settings.job.checkpoint or f"{temporary}/checkpoint"
        staging = settings.job.staging or _staging_beside(settings, checkpoint, temporary)
        yield checkpoint, staging


def _staging_beside(settings: Settings, checkpoint: str, temporary: str) -> str:
    """Beside a local checkpoint, where there is room for state; else in a temporary directory."""
    place = urlparse(checkpoint)
    if settings.job.checkpoint and place.scheme in {"", "file"}:
        return str(Path(place.path).absolute() / "staging")
    return f"{temporary}/staging"


def _emitters(spark: SparkSession) -> Executors:
    """Who gives staged rows to the sink: on one machine the driver, since tasks may hold all slots."""
    local = (spark.sparkContext.master or "").startswith("local")
    return ThreadExecutors(tasks_of(spark)) if local else SparkExecutors(spark)


def make_sink(settings: SinkSettings, executors: Executors, staging: str, *, tasks: int) -> Sink:
    """The sink of the settings; one that stages does so in a directory of its own."""
    match settings.kind:
        case SinkKind.FILES:
            return FilesSink(settings.directory)
        case SinkKind.CONSOLE:
            return ConsoleSink()
        case SinkKind.NULL:
            return NullSink()
        case SinkKind.KAFKA:
            return KafkaSink(settings.kafka, executors, staging, tasks=tasks)
        case _:
            assert_never(settings.kind)

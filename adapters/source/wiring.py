"""What every job is built from, whatever its source: sink, state, signals, pace, directories.

Chooses the implementation behind each port except the source's, and the directories that they share. An
adapter's own `job.py` supplies the source.
"""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, assert_never

from adapters.kafka.sink import KafkaSink
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.null import NullSink
from adapters.source.signal_desk import make_desk
from adapters.spark.ending import end, outlived
from adapters.spark.executors import SparkExecutors, ThreadExecutors
from adapters.spark.session import spark_session
from adapters.staging.file_blocks import FileBlocks
from adapters.storage.dead_letters import DeadLetterFiles
from adapters.storage.directory import LocalStorage, storage
from adapters.storage.lease import Claim, FileLease, Leases
from adapters.storage.state import FileStateStore, newest_epoch
from adapters.storage.workspace import staging_base, take_workspace, workspace_of
from adapters.system import system_clock
from engine.config.settings import Destination, SinkAhead, SinkKind, StateForm, TableErrors
from engine.errors import LeaseLost, SourceError
from engine.events.batch import EventForm
from engine.events.names import topic_of
from engine.events.record.heartbeat import heartbeat
from engine.job.heartbeat import Heartbeat
from engine.job.loop import Job
from engine.job.parts import JobParts, Pace
from engine.job.progress_log import ProgressLog
from engine.job.state_document import CURRENT, PREVIOUS
from engine.snapshot.markers import Marker
from engine.staging.files import sink_errors
from engine.staging.rows import StagingArea

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from engine.clock import Clock
    from engine.config.settings import Settings, SinkSettings
    from engine.job.observation import Observation
    from engine.job.state import State
    from engine.model import CollectionId, Position
    from engine.ports import Executors, Sink, Source
    from engine.staging.port import BlockStore
    from signals.answers import Answer

_log = logging.getLogger("adapters")
LOCAL_ROWS = 20_000
"""Up to so many rows and entries are encoded in the driver, where a Spark job would take longer."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are kept: a URI for the state, and a directory shared by driver and executors for staging.

    `windows` is for the rows of windows, `spans` for the entries of spans. `clock` is what the source knows
    of time. `owner` and `previous` are the current and the previous holder of the checkpoint's lease; empty
    if there is none. `form` is the sink's. `admit` asks the sink whether it accepts these collections'
    events, before the source is made to keep a log for them; it raises SinkError.
    """

    checkpoint: str
    staging: str
    windows: StagingArea
    spans: BlockStore
    clock: Clock
    owner: str = ""
    previous: str = ""
    form: EventForm = EventForm.RECORDS
    admit: Callable[[Sequence[CollectionId]], None] = lambda _collections: None


@dataclass(frozen=True, slots=True)
class Onlookers:
    """Callbacks for every turn's observation and every signal's answer; None logs them."""

    observe: Callable[[Observation], None] | None = None
    answer: Callable[[Answer], None] | None = None


NOBODY = Onlookers()


@dataclass(frozen=True, slots=True)
class Wired:
    """What a source supplies: itself, how to close it, how to show its positions.

    `run_statement` runs the user's statement with every heartbeat. `first_retries` are the attempts to open a
    log that has never been open. `longest_window_s` is `Pace`'s. `done` says that nothing is left to do.
    `marks` are the markers that the READ events of an initial snapshot can carry.
    """

    source: Source
    close: Callable[[], None]
    show: Callable[[Position], str]
    run_statement: Callable[[str], None] = lambda _statement: None
    first_retries: int = 6
    first_backoff_s: float = 10.0
    longest_window_s: float = 0.0
    done: Callable[[State], bool] = lambda _state: False
    marks: frozenset[Marker] = frozenset(Marker)


@contextmanager
def on_spark(
    settings: Settings, packages: tuple[str, ...], spark: SparkSession | None, stop: threading.Event
) -> Iterator[SparkSession]:
    """`spark`, or a new session with these packages, stopped at the end.

    If Spark ends early, `outlived` decides what that means.
    """
    session = spark or spark_session(settings.job.spark_master, settings.job.spark_conf, packages)
    try:
        with outlived(session, stop):
            yield session
    finally:
        if spark is None:
            end(session)


@contextmanager
def trying() -> Iterator[None]:
    """Try to reach a server, so that a wrong password or host is reported before Spark spends time starting.

    A server that is not up yet is no error here: the job waits for it.
    """
    try:
        yield
    except SourceError as error:
        _log.warning("%s", error)


class Building(Protocol):
    """How a source's job is built; see `building`."""

    def __call__(
        self,
        settings: Settings,
        spark: SparkSession,
        onlookers: Onlookers,
        *,
        sleep: Callable[[float], object],
    ) -> AbstractContextManager[Job]:
        """The job, not yet started."""


def run_jobs(
    settings: Settings,
    packages: tuple[str, ...],
    spark: SparkSession | None,
    stop: threading.Event,
    onlookers: Onlookers,
    build: Building,
) -> bool:
    """Run the job until `stop` is set, on `spark` or a session made with these packages.

    A job that loses its lease is closed, and a new one stands by in its place. Returns whether the lease was
    held to the end.
    """
    with on_spark(settings, packages, spark, stop) as session:
        while not stop.is_set():
            try:
                with build(settings, session, onlookers, sleep=stop.wait) as job:
                    job.run(stop.is_set)
                    return True
            except LeaseLost as error:
                if not stop.is_set():
                    _log.warning("%s; nothing more is written, standing by", error)
        return False


@contextmanager
def building(
    settings: Settings,
    spark: SparkSession,
    onlookers: Onlookers,
    wire: Callable[[Places], Wired],
    *,
    sleep: Callable[[float], object] = time.sleep,
    wrap: Callable[[JobParts], JobParts] = lambda job_parts: job_parts,
) -> Iterator[Job]:
    """The job, not yet started; its sink and its staging directory are released at the end.

    Before it touches anything, it stands by until it holds the leases of the checkpoint and the sink. Raises
    LeaseHeld if it must not wait, LeaseLost if the job is to stop meanwhile. `sleep` pauses for some seconds
    before the next attempt; it may end early and returns true when the job is to stop. `wrap` can put
    something between the job and its ports.
    """
    with ExitStack() as held:
        checkpoint, staging_base = held.enter_context(_directories(settings))
        directory = storage(spark, checkpoint)
        claim = Claim(settings.name, settings.job.lease_ttl_ms, wait=settings.job.lease_wait)
        states = FileLease(directory, claim, epoch_in=newest_epoch)
        events = _lease_on_events(settings.sink, claim)
        leases = Leases(claim, [states, *([events] if events else [])])
        held.callback(leases.release)
        if not leases.take(sleep):
            raise LeaseLost("stopped while standing by", place=checkpoint)
        workspace = workspace_of(staging_base, settings.name, checkpoint)
        staging = str(take_workspace(workspace, states.epoch))
        spans = FileBlocks(staging)
        held.callback(spans.clear)
        sink = make_sink(
            settings.sink,
            SparkExecutors(spark),
            f"{staging}/kafka",
            tasks=tasks_of(spark),
            name=workspace.name,
            epoch=events.epoch if events else 0,
        )
        held.callback(sink.close)
        windows = StagingArea(FileBlocks(sink.row_form.directory or staging), sink.row_form)
        held.callback(windows.clear)
        previous = states.previous.id if states.previous else ""
        admit = partial(_admit, settings, sink)
        clock = system_clock(sleep)
        wired = wire(Places(checkpoint, staging, windows, spans, clock, claim.id, previous, sink.form, admit))
        held.callback(wired.close)
        desk = make_desk(settings.signals, settings.events.topic_prefix, clock.now(), onlookers.answer)
        held.callback(desk.close)
        job_parts = JobParts(
            source=wired.source,
            sink=sink,
            store=FileStateStore(directory, states.epoch),
            executors=_emitters(spark),
            desk=desk,
            pulse=_pulse(settings, wired),
            now=clock.now,
            clock=clock.monotonic,
            sleep=clock.sleep,
            new_id=clock.new_id,
            local_rows=LOCAL_ROWS,
            show=wired.show,
            done=wired.done,
            marks=wired.marks,
            lease=leases,
            letters=DeadLetterFiles(storage(spark, _letters(settings, checkpoint)), states.epoch),
            topic=partial(topic_of, settings=settings.events),
            destination=partial(_destination, settings, sink),
            excluded=partial(_excluded, settings),
        )
        yield Job(wrap(job_parts), _pace(settings, spark, wired), _observer(settings, onlookers))


def _letters(settings: Settings, checkpoint: str) -> str:
    """The directory of the dead letters; within a directory that jobs share, one of this job's own."""
    if settings.job.letters is None:
        return f"{checkpoint}/dead-letters"
    return f"{settings.job.letters}/{workspace_of('/', settings.name, checkpoint).name}"


def _lease_on_events(settings: SinkSettings, claim: Claim) -> FileLease | None:
    """The lease on a sink that only one job at a time may write to, whatever its checkpoint."""
    if settings.kind != SinkKind.FILES:
        return None
    with sink_errors(settings.directory):
        # Created here, so that it is not private.
        Path(settings.directory).mkdir(parents=True, exist_ok=True)
    return FileLease(LocalStorage(Path(settings.directory).absolute()), claim, prefix=".")


def _destination(settings: Settings, sink: Sink) -> dict[str, str]:
    """Where events go, by the settings' names; settings that don't identify a destination are left out."""
    where = {"topic.prefix": settings.events.topic_prefix, "tidemark.sink": str(settings.sink.kind)}
    found = sink.identity()
    return where | ({f"{settings.sink.kind} sink": found} if found else {})


def _admit(settings: Settings, sink: Sink, collections: Sequence[CollectionId]) -> None:
    if isinstance(sink, KafkaSink) and collections:
        sink.admit(sorted({topic_of(collection, settings.events) for collection in collections}))


def _excluded(settings: Settings, collection: CollectionId) -> bool:
    """Whether the filters exclude a collection: by schema and table, or database and collection."""
    return not settings.capture.captures(*collection.parts[-2:])


def _observer(settings: Settings, onlookers: Onlookers) -> Callable[[Observation], None]:
    return onlookers.observe or ProgressLog(settings.job.progress_interval_ms / 1000)


def _pulse(settings: Settings, wired: Wired) -> Heartbeat:
    job = settings.job
    return Heartbeat(
        job.heartbeat_interval_ms / 1000,
        partial(heartbeat, settings.events),
        partial(wired.run_statement, job.heartbeat_query),
    )


def tasks_of(spark: SparkSession) -> int:
    """The number of tasks that Spark runs at once."""
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
        isolates=job.table_errors is TableErrors.ISOLATE,
        letters_bytes=job.letters_max_bytes,
        most_queued=job.max_queued,
        moves=settings.sink.destination is Destination.MOVED,
        state_version=CURRENT if job.state_form is StateForm.CURRENT else PREVIOUS,
        repeats_behind_sink=settings.sink.ahead is SinkAhead.REPEAT,
        longest_backoff_s=max(0.5, job.restart_wait_ms / 1000),
    )


@contextmanager
def _directories(settings: Settings) -> Iterator[tuple[str, str]]:
    """Checkpoint and staging directory of a job; temporary ones if the settings have no checkpoint."""
    with tempfile.TemporaryDirectory(prefix="tidemark-") as temporary:
        checkpoint = settings.job.checkpoint or f"{temporary}/checkpoint"
        yield checkpoint, staging_base(settings.job) or f"{temporary}/staging"


def _emitters(spark: SparkSession) -> Executors:
    """Passes staged rows to the sink. On one machine the driver does, since tasks may hold all slots."""
    local = (spark.sparkContext.master or "").startswith("local")
    return ThreadExecutors(tasks_of(spark)) if local else SparkExecutors(spark)


def make_sink(
    settings: SinkSettings,
    executors: Executors,
    staging: str,
    *,
    tasks: int,
    name: str = "tidemark",
    epoch: int = 0,
) -> Sink:
    """The sink of the settings; a sink that stages does so in a directory of its own.

    `name` distinguishes the job from others; `epoch` is that of the lease on the sink.
    """
    if settings.custom is not None:
        custom = settings.custom
        return custom.make(custom.settings, executors=executors, staging=staging, tasks=tasks, name=name)
    match kind := SinkKind(settings.kind):
        case SinkKind.FILES:
            return FilesSink(settings.directory, epoch, settings.mode)
        case SinkKind.CONSOLE:
            return ConsoleSink()
        case SinkKind.NULL:
            return NullSink()
        case SinkKind.KAFKA:
            return KafkaSink(settings.kafka, executors, staging, tasks=tasks, name=name)
        case _:
            assert_never(kind)

"""What every job is built from, whatever its source: leases, directories, sink, state, pace.

Chooses the implementation behind each port except the source's, and the directories that they share.
`job_sink` makes the sink, and `job` puts the parts together.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from adapters.release import release
from adapters.source.assembly.staging import staging_of
from adapters.source.assembly.verifying import verification_of
from adapters.spark.cluster.slots import now, slots_of
from adapters.storage.certificate_files import DIRECTORY, CertificateDirectory
from adapters.storage.dead_letters import DeadLetterFiles
from adapters.storage.directory import LocalStorage, storage
from adapters.storage.lease import FileLease, Leases
from adapters.storage.owner import Claim
from adapters.storage.state import FileStateStore
from adapters.storage.state_files import newest_epoch
from adapters.storage.workspace import staging_base, take_workspace, workspace_of
from adapters.system import system_clock
from engine.config.settings import NewCollections, Recovery, StateForm, TableErrors
from engine.config.sinks.lake import LAKES
from engine.config.sinks.settings import Destination, SinkAhead, SinkKind
from engine.errors import ConfigError, LeaseLost
from engine.events.batch import EventForm
from engine.events.names import topic_of
from engine.events.record.heartbeat import heartbeat
from engine.expressions import matches
from engine.job.heartbeat import Heartbeat
from engine.job.parts import JobParts, Pace
from engine.job.reports.progress_log import ProgressLog
from engine.job.saved.forms import PREVIOUS
from engine.job.saved.state_document import CURRENT
from engine.job.verify.certificates import Certificates
from engine.ports.sink import KnowsTurns, ShowsLater
from engine.snapshot.initial import Standing
from engine.snapshot.markers import Marker
from engine.snapshot.snapshotters import snapshotter
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from adapters.http.monitor import Monitor
    from adapters.source.assembly.verifying import Verifiable
    from adapters.storage.directory import Storage
    from adapters.storage.figures import FiguresFile
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.config.sinks.settings import SinkSettings
    from engine.job.reports.observation import Observation
    from engine.job.saved.state import State
    from engine.model import Appeared, CollectionId, Position
    from engine.ports.executors import Executors
    from engine.ports.sink import Sink
    from engine.ports.source import Source
    from engine.staging.port import BlockStore
    from engine.staging.rows import StagingArea
    from signals.actions import SignalAction
    from signals.answers import Answer
    from signals.desk import Desk

LOCAL_ROWS = 20_000
"""Up to so many rows and entries are encoded in the driver, where a Spark job would take longer."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are kept: a URI for the state, and a directory for what the driver stages.

    `windows` is for the rows of windows, `spans` for the entries of spans, which `encoders` decode. `clock`
    is what the source knows of time. `owner` and `previous` are the current and the previous holder of the
    checkpoint's lease; empty if there is none. `form` is the sink's. `admit` asks the sink whether it accepts
    these collections' events, before the source is made to keep a log for them; it raises SinkError.
    """

    checkpoint: str
    staging: str
    windows: StagingArea
    spans: BlockStore
    encoders: Executors
    clock: Clock
    owner: str = ""
    previous: str = ""
    form: EventForm = EventForm.RECORDS
    admit: Callable[[Sequence[CollectionId]], None] = lambda _collections: None


@dataclass(frozen=True, slots=True)
class Onlookers:
    """Callbacks for every turn's observation and every signal's answer; None logs them.

    `monitor` is what a web server shows of the job; None: nobody watches.
    """

    observe: Callable[[Observation], None] | None = None
    answer: Callable[[Answer], None] | None = None
    monitor: Monitor | None = None


NOBODY = Onlookers()


@dataclass(frozen=True, slots=True)
class Wired:
    """What a source supplies: itself, how to close it, how to show its positions.

    `run_statement` runs the user's statement with every heartbeat. `first_retries` are the attempts to open a
    log that has never been open. `longest_window_s` is `Pace`'s. `done` says that nothing is left to do.
    `marks` are the markers that the READ events of an initial snapshot can carry. `kept` is how much log the
    server keeps for the job, in bytes, as last looked at. `appeared` is `JobParts`'. `numbers` gives
    a position as numbers by name, for metrics. `figures` are metrics of this source alone, by the names that
    Debezium's have in snake case. `database` has all collections, if their names don't have it.
    `verifiable` is what verifications need; None: this source's collections can't be verified. `actions` are
    the signals that only this source knows, by type, and `added` the events that they asked for.
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
    kept: Callable[[], int | None] = lambda: None
    appeared: Callable[[], Sequence[Appeared]] = tuple
    numbers: Callable[[Position], Mapping[str, int]] = lambda _position: {}
    figures: Callable[[], Mapping[str, float]] = dict
    database: str = ""
    verifiable: Verifiable | None = None
    actions: Mapping[str, SignalAction] = field(default_factory=dict)
    added: Callable[[], Sequence[pa.RecordBatch]] = tuple


@dataclass(frozen=True, slots=True)
class LeasedCheckpoint:
    """What a job has while it holds its leases: the checkpoint, and a directory for staging.

    `job` is the job's name. `name` distinguishes the job from others, also from those of the same name.
    `epoch` is that of the lease on the checkpoint, `sink_epoch` of the one on the sink, 0 if it needs none.
    `owner` and `previous` are as in `Places`.
    """

    checkpoint: str
    directory: Storage
    staging: str
    job: str
    name: str
    leases: Leases
    epoch: int
    sink_epoch: int
    owner: str
    previous: str


@contextmanager
def leased_checkpoint(
    settings: Settings, spark: SparkSession, sleep: Callable[[float], object]
) -> Iterator[LeasedCheckpoint]:
    """Stand by until the job holds the leases of the checkpoint and the sink, and release them at the end.

    Raises LeaseHeld if it must not wait, LeaseLost if the job is to stop meanwhile.
    """
    with ExitStack() as held:
        checkpoint, base = held.enter_context(_directories(settings))
        directory = storage(spark, checkpoint)
        claim = Claim(settings.name, settings.job.lease_ttl_ms, wait=settings.job.lease_wait)
        states = FileLease(directory, claim, epoch_in=newest_epoch)
        events = _lease_on_events(settings.sink, claim)
        leases = Leases(claim, [states, *([events] if events else [])])
        held.callback(leases.release)
        if not leases.take(sleep):
            raise LeaseLost("stopped while standing by", place=checkpoint)
        workspace = workspace_of(base, settings.name, checkpoint)
        yield LeasedCheckpoint(
            checkpoint,
            directory,
            str(take_workspace(workspace, states.epoch)),
            settings.name,
            workspace.name,
            leases,
            states.epoch,
            events.epoch if events else 0,
            claim.id,
            states.previous.id if states.previous else "",
        )


@dataclass(frozen=True, slots=True)
class Site:
    """The checkpoint of a job, its sink, who passes staged rows to it, and where things are kept.

    `certificates` is where those of snapshots are; None if they get none. `shared_disk`: executors read and
    write the driver's files.
    """

    checkpoint: LeasedCheckpoint
    sink: Sink
    emitters: Executors
    places: Places
    certificates: CertificateDirectory | None = None
    shared_disk: bool = True


@contextmanager
def opened(
    settings: Settings,
    spark: SparkSession,
    leased: LeasedCheckpoint,
    sleep: Callable[[float], object],
    make_sink: Callable[..., Sink],
) -> Iterator[Site]:
    """The sink, as `job_sink.make_sink` makes it, and the staging areas, which are cleared at the end."""
    with ExitStack() as held:
        stages = staging_of(settings.job.staging_kind, spark, leased.staging, now(spark.sparkContext))
        held.callback(stages.spans.clear)
        made = make_sink(settings.sink, stages, leased, spark=spark)
        held.callback(made.close)
        sink = stages.sink(made, stores=_stores(settings.sink))
        certificates = _certificates(settings, spark, leased.checkpoint)
        seed = certificates.seed() if certificates is not None else None
        windows = replace(stages.windows(made), seed=seed)
        held.callback(windows.clear)
        places = Places(
            leased.checkpoint,
            leased.staging,
            windows,
            stages.spans,
            stages.encoders,
            system_clock(sleep),
            leased.owner,
            leased.previous,
            sink.form,
            partial(_admit, settings, made),
        )
        yield Site(leased, sink, stages.emitters, places, certificates, stages.shared_disk)


def _certificates(settings: Settings, spark: SparkSession, checkpoint: str) -> CertificateDirectory | None:
    if not settings.job.certificates:
        return None
    return CertificateDirectory(storage(spark, f"{checkpoint}/{DIRECTORY}"))


def job_parts(settings: Settings, spark: SparkSession, site: Site, wired: Wired, desk: Desk) -> JobParts:
    """What the job's loop works with."""
    leased, clock = site.checkpoint, site.places.clock
    verification = verification_of(
        settings,
        site.places.encoders,
        leased.staging,
        wired.verifiable,
        shared_disk=site.shared_disk,
    )
    if settings.snapshot.recovery is Recovery.REPAIR and verification.copy is None:
        raise ConfigError(
            f"'tidemark.recovery' is 'repair', and nothing can be repaired here: {verification.why}",
            hint="leave it out; the job stops then once its log is lost",
        )
    return JobParts(
        source=wired.source,
        sink=site.sink,
        store=FileStateStore(leased.directory, leased.epoch, forced=not _knows_turns(site.sink)),
        executors=site.emitters,
        desk=desk,
        pulse=_pulse(settings, wired),
        now=clock.now,
        clock=clock.monotonic,
        sleep=clock.sleep,
        new_id=clock.new_id,
        tasks=slots_of(spark),
        local_rows=LOCAL_ROWS,
        show=wired.show,
        done=partial(all_done, wired, site.sink),
        appeared=tuple if settings.snapshot.new is NewCollections.OFF else wired.appeared,
        added=wired.added,
        reads_new=snapshotter(settings.snapshot).should_snapshot(Standing()),
        marks=wired.marks,
        lease=leased.leases,
        letters=DeadLetterFiles(storage(spark, _letters(settings, leased.checkpoint)), leased.epoch),
        topic=partial(topic_of, settings=settings.events),
        destination=partial(_destination, settings, site.sink),
        copied_in_part=partial(_copied_in_part, settings),
        excluded=partial(_excluded, settings),
        certificates=_issuer(site, wired.show),
        verification=verification,
    )


def _issuer(site: Site, show: Callable[[Position], str]) -> Certificates | None:
    """What issues the certificates of a job's snapshots."""
    seed = site.places.windows.seed
    if site.certificates is None or seed is None:
        return None
    return Certificates(seed, f"tidemark {release()}", site.certificates, site.places.clock.now, show)


def all_done(wired: Wired, sink: Sink, state: State) -> bool:
    """Whether nothing is left to do, and everything shows."""
    return wired.done(state) and not (isinstance(sink, ShowsLater) and sink.behind())


def _letters(settings: Settings, checkpoint: str) -> str:
    """The directory of the dead letters; within a directory that jobs share, one of this job's own."""
    if settings.job.letters is None:
        return f"{checkpoint}/dead-letters"
    return f"{settings.job.letters}/{workspace_of('/', settings.name, checkpoint).name}"


def _lease_on_events(settings: SinkSettings, claim: Claim) -> FileLease | None:
    """The lease on a sink that only one job at a time may write to, whatever its checkpoint."""
    directory = settings.lake.journal if settings.kind in LAKES else settings.directory
    if settings.kind not in {SinkKind.FILES, *LAKES}:
        return None
    with sink_errors(directory):
        # Created here, so that it is not private.
        Path(directory).mkdir(parents=True, exist_ok=True)
    return FileLease(LocalStorage(Path(directory).absolute()), claim, prefix=".")


def _destination(settings: Settings, sink: Sink) -> dict[str, str]:
    """Where events go, by the settings' names; settings that don't identify a destination are left out."""
    where = {"topic.prefix": settings.events.topic_prefix, "tidemark.sink": str(settings.sink.kind)}
    found = sink.identity()
    return where | ({f"{settings.sink.kind} sink": found} if found else {})


@runtime_checkable
class AdmitsTopics(Protocol):
    """A sink that can tell beforehand whether it accepts the events of a topic."""

    def admit(self, topics: Sequence[str]) -> None:
        """Raise SinkError if it does not accept these topics' events."""


def _admit(settings: Settings, sink: Sink, collections: Sequence[CollectionId]) -> None:
    if isinstance(sink, AdmitsTopics) and collections:
        sink.admit(sorted({topic_of(collection, settings.events) for collection in collections}))


def _knows_turns(sink: Sink) -> bool:
    return isinstance(sink, KnowsTurns) and sink.knows_turns


def _stores(settings: SinkSettings) -> bool:
    """Whether the sink stores events, so that it matters who writes to it."""
    return settings.kind != SinkKind.NULL


def _copied_in_part(settings: Settings, collection: CollectionId) -> str:
    """Why the rows of a collection's initial snapshot were not all of its rows; empty if they were."""
    snapshot, name = settings.snapshot, str(collection)
    if name in snapshot.select_overrides or name in snapshot.filters:
        return "its initial snapshot has a SELECT or a filter of its own"
    if snapshotter(snapshot).statement(collection) is not None:
        return "the snapshotter has a SELECT for it"
    if snapshot.include_tables and not matches(snapshot.include_tables, name):
        return "snapshot.include.collection.list leaves it out"
    return ""


def _excluded(settings: Settings, collection: CollectionId) -> bool:
    """Whether the filters exclude a collection: by schema and table, or database and collection."""
    return not settings.capture.captures(*collection.parts[-2:])


def observer(settings: Settings, onlookers: Onlookers, figures: FiguresFile) -> Callable[[Observation], None]:
    """Takes every turn's observation: for the onlookers or the log, and for the file of figures."""
    told = onlookers.observe or ProgressLog(settings.job.progress_interval_ms / 1000)

    def observe(seen: Observation) -> None:
        figures(seen)
        told(seen)

    return observe


def _pulse(settings: Settings, wired: Wired) -> Heartbeat:
    job = settings.job
    return Heartbeat(
        job.heartbeat_interval_ms / 1000,
        partial(heartbeat, settings.events),
        partial(wired.run_statement, job.heartbeat_query),
    )


def pace(settings: Settings, wired: Wired) -> Pace:
    """How fast the job goes, and how long it tries."""
    job, snapshot = settings.job, settings.snapshot
    return Pace(
        chunk_rows=snapshot.chunk_size,
        window_s=job.window_seconds,
        longest_window_s=wired.longest_window_s,
        window_bytes=job.window_max_bytes,
        max_chunks=job.window_max_chunks or None,
        max_lag_s=job.max_lag_ms / 1000,
        retries=None if job.max_retries < 0 else job.max_retries,
        first_retries=wired.first_retries,
        first_backoff_s=wired.first_backoff_s,
        isolates=job.table_errors is TableErrors.ISOLATE,
        letters_bytes=job.letters_max_bytes,
        most_queued=job.max_queued,
        blocking=job.blocking,
        limit=job.limit,
        moves=settings.sink.destination is Destination.MOVED,
        state_version=CURRENT if job.state_form is StateForm.CURRENT else PREVIOUS,
        recovers=settings.snapshot.recovery is Recovery.REPAIR,
        repeats_behind_sink=settings.sink.ahead is SinkAhead.REPEAT,
        longest_backoff_s=max(0.5, job.restart_wait_ms / 1000),
    )


@contextmanager
def _directories(settings: Settings) -> Iterator[tuple[str, str]]:
    """Checkpoint and staging directory of a job; temporary ones if the settings have no checkpoint."""
    with tempfile.TemporaryDirectory(prefix="tidemark-") as temporary:
        checkpoint = settings.job.checkpoint or f"{temporary}/checkpoint"
        yield checkpoint, staging_base(settings.job) or f"{temporary}/staging"

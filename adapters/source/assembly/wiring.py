"""What every job is built from, whatever its source: leases, directories, sink, state, pace.

Chooses the implementation behind each port except the source's, and the directories that they share.
`job_sink` makes the sink, and `job` puts the parts together.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from adapters.release import release
from adapters.source.assembly.job_sink import wiring_of
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.assembly.supplied import (
    LOCAL_ROWS,
    LeasedCheckpoint,
    Locations,
    Onlookers,
    Site,
    SuppliedSource,
)
from adapters.source.assembly.verifying import verification_of
from adapters.spark.cluster.slots import slots_of
from adapters.storage.certificate_files import DIRECTORY, CertificateDirectory
from adapters.storage.dead_letters import DeadLetterFiles
from adapters.storage.directory import storage
from adapters.storage.state import FileStateStore
from adapters.storage.workspace import VERIFIED, workspace_of
from adapters.verify.kept_events import CopyTools
from engine.config.settings import WINDOW_BYTES, NewCollections, Recovery, StateForm, TableErrors
from engine.config.sinks.settings import Destination, SinkAhead
from engine.config.sources.selection import is_included, select_for
from engine.errors import ConfigError
from engine.events.names import topic_of
from engine.events.record.heartbeat import heartbeat
from engine.job.heartbeat import Heartbeat
from engine.job.parts import JobParts, Pace
from engine.job.reports.progress_log import ProgressLog
from engine.job.saved.forms import PREVIOUS
from engine.job.saved.state_document import CURRENT
from engine.job.verify.certificates import Certificates
from engine.ports.sink import KnowsTurns, ShowsLater
from engine.snapshot.initial import StartSituation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from adapters.source.assembly.staging import Staging
    from adapters.storage.figures import FiguresFile
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.job.reports.observation import Observation
    from engine.job.saved.state import State
    from engine.model import CollectionId, Position
    from engine.ports.sink import Sink
    from signals.desk import Desk


@contextmanager
def opened(
    settings: Settings,
    spark: SparkSession,
    leased: LeasedCheckpoint,
    clock: Clock,
    stages: Staging,
    make_sink: Callable[..., Sink],
) -> Iterator[Site]:
    """The sink, as `job_sink.make_sink` makes it, and the staging areas, which are cleared at the end."""
    with ExitStack() as held:
        held.callback(stages.spans.clear)
        made = make_sink(settings, stages, leased, clock, spark=spark)
        held.callback(made.close)
        sink = stages.sink(made, stores=wiring_of(settings.sink).stores)
        certificates = _certificates(settings, spark, leased.checkpoint)
        seed = certificates.seed() if certificates is not None else None
        windows = replace(stages.windows(made), seed=seed)
        held.callback(windows.clear)
        locations = Locations(
            leased.checkpoint,
            leased.staging,
            windows,
            stages.spans,
            stages.encoders,
            clock,
            leased.owner,
            leased.previous,
            sink.form,
            partial(_admit, settings, made),
            leased.leases.confirm,
        )
        yield Site(leased, sink, stages.emitters, locations, made, certificates, stages.shared_disk)


def _certificates(settings: Settings, spark: SparkSession, checkpoint: str) -> CertificateDirectory | None:
    if not settings.job.certificates:
        return None
    return CertificateDirectory(storage(spark, f"{checkpoint}/{DIRECTORY}"))


def job_parts(
    settings: Settings, spark: SparkSession, site: Site, wired: SuppliedSource, desk: Desk
) -> JobParts:
    """What the job's loop works with."""
    leased, clock = site.checkpoint, site.locations.clock
    verified = str(Path(leased.staging).parent / VERIFIED)
    tools = CopyTools(
        site.locations.encoders,
        leased.staging,
        verified,
        clock,
        site.shared_disk,
        database=wired.database,
    )
    verification = verification_of(settings, site.made, tools, wired.verifiable)
    if settings.snapshot.recovery is Recovery.REPAIR and verification.copies.own is None:
        raise ConfigError(
            f"'tidemark.recovery' is 'repair', but nothing can be repaired here: {verification.copies.why}",
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
        take_appeared=tuple if settings.snapshot.new is NewCollections.OFF else wired.take_appeared,
        take_added=wired.take_added,
        reads_new=snapshotter(settings.snapshot).should_snapshot(StartSituation()),
        marks=wired.marks,
        lease=leased.leases,
        letters=DeadLetterFiles(storage(spark, _letters(settings, leased.checkpoint)), leased.epoch),
        topic=partial(topic_of, settings=settings.events),
        destination=partial(_destination, settings, site.sink),
        copied_in_part=partial(copied_in_part, settings, within=wired.within),
        excluded=partial(_excluded, settings),
        certificates=_issuer(site, wired.show),
        verification=verification,
    )


def _issuer(site: Site, show: Callable[[Position], str]) -> Certificates | None:
    """What issues the certificates of a job's snapshots."""
    seed = site.locations.windows.seed
    if site.certificates is None or seed is None:
        return None
    return Certificates(seed, f"tidemark {release()}", site.certificates, site.locations.clock.now, show)


def all_done(wired: SuppliedSource, sink: Sink, state: State) -> bool:
    """Whether nothing is left to do, and everything shows."""
    return wired.done(state) and (not isinstance(sink, ShowsLater) or sink.await_shown())


def _letters(settings: Settings, checkpoint: str) -> str:
    """The directory of the dead letters; within a directory that jobs share, one of this job's own."""
    if settings.job.letters is None:
        return f"{checkpoint}/dead-letters"
    return f"{settings.job.letters}/{workspace_of('/', settings.name, checkpoint).name}"


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


def copied_in_part(
    settings: Settings, collection: CollectionId, within: Callable[[], str] = lambda: ""
) -> str:
    """Why the rows of a collection's initial snapshot were not all of its rows; empty if they were.

    `within` is what lists may name before it, as in `SuppliedSource`.
    """
    snapshot = settings.snapshot
    if select_for(snapshot.select_overrides, collection) or str(collection) in snapshot.filters:
        return "its initial snapshot has a SELECT or a filter of its own"
    if snapshotter(snapshot).statement(collection) is not None:
        return "the snapshotter has a SELECT for it"
    if not is_included(snapshot.include_tables, collection, within()):
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


def _pulse(settings: Settings, wired: SuppliedSource) -> Heartbeat:
    job = settings.job
    return Heartbeat(
        job.heartbeat_interval_ms / 1000,
        partial(heartbeat, settings.events),
        partial(wired.run_statement, job.heartbeat_query),
    )


_ON_EXECUTORS: Final = Pace(
    task_bytes=64 << 20,
    slice_s=0.4,
    slice_bytes=32 << 20,
    spreads=True,
    pieces=4,
    piece_rows=100_000,
    piece_bytes=48 << 20,
)
"""The pace where rows wait on executors. Emitting any of them takes a Spark job, which decrypts and unpacks
all that the same task has read: as few runs as fit into a worker's memory, and slices that last longer than
a job and leave no executor idle. Each executor stages the rows of its own tasks, so windows grow with them:
a task costs the driver about the same, however little it reads."""


def pace(settings: Settings, wired: SuppliedSource, *, shared_disk: bool) -> Pace:
    """The job's pace, and how long it retries."""
    job, snapshot = settings.job, settings.snapshot
    usual = Pace() if shared_disk else _ON_EXECUTORS
    return replace(
        usual,
        window_bytes=job.window_max_bytes or WINDOW_BYTES,
        task_bytes=0 if job.window_max_bytes else usual.task_bytes,
        chunk_rows=snapshot.chunk_size,
        window_s=job.window_seconds,
        longest_window_s=wired.longest_window_s,
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

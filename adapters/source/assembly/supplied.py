"""What a job is put together from: its source, who looks on, and where things are kept. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.events.batch import EventForm
from engine.snapshot.markers import Marker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from adapters.http.monitor import Monitor
    from adapters.source.assembly.verifying import Verifiable
    from adapters.storage.certificate_files import CertificateDirectory
    from adapters.storage.directory import Storage
    from adapters.storage.lease import Leases
    from engine.clock import Clock
    from engine.job.reports.observation import Observation
    from engine.job.saved.state import State
    from engine.model import Arrival, CollectionId, Position
    from engine.ports.executors import Executors
    from engine.ports.sink import Sink
    from engine.ports.source import Source
    from engine.staging.port import BlockStore
    from engine.staging.rows import StagingArea
    from signals.actions import SignalAction
    from signals.answers import Answer

LOCAL_ROWS = 20_000
"""Up to so many rows and entries are encoded in the driver, where a Spark job would take longer."""


@dataclass(frozen=True, slots=True)
class Locations:
    """Where things are kept: a URI for the state, and a directory for what the driver stages.

    `windows` is for the rows of windows, `spans` for the entries of spans, which `encoders` decode. `clock`
    is what the source knows of time. `owner` and `previous` are the current and the previous holder of the
    checkpoint's lease; empty if there is none. `form` is the sink's. `admit` asks the sink whether it accepts
    these collections' events, before the source is made to keep a log for them; it raises SinkError.
    `confirm` looks at the lease, and raises LeaseLost if another job has taken it.
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
    confirm: Callable[[], None] = lambda: None


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
class SuppliedSource:
    """What a source supplies: itself, how to close it, how to show its positions.

    `run_statement` runs the user's statement with every heartbeat. `first_retries` are the attempts to open a
    log that has never been open. `longest_window_s` is `Pace`'s. `done` says that nothing is left to do.
    `marks` are the markers that the READ events of an initial snapshot can carry. `kept` is how much log the
    server keeps for the job, in bytes, as last looked at. `take_appeared` is `JobParts`'. `numbers` gives
    a position as numbers by name, for metrics. `figures` are metrics of this source alone, by the names that
    Debezium's have in snake case. `database` has all collections, if their names don't have it.
    `verifiable` is what verifications need; None: this source's collections can't be verified. `actions` are
    the signals that only this source knows, by type, and `take_added` the events that they asked for.
    `within` is what `snapshot.include.collection.list` may name before a collection, once the log is open.
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
    take_appeared: Callable[[], Sequence[Arrival]] = tuple
    numbers: Callable[[Position], Mapping[str, int]] = lambda _position: {}
    figures: Callable[[], Mapping[str, float]] = dict
    database: str = ""
    verifiable: Verifiable | None = None
    actions: Mapping[str, SignalAction] = field(default_factory=dict)
    take_added: Callable[[], Sequence[pa.RecordBatch]] = tuple
    within: Callable[[], str] = lambda: ""


@dataclass(frozen=True, slots=True)
class LeasedCheckpoint:
    """What a job has while it holds its leases: the checkpoint, and a directory for staging.

    `job` is the job's name. `name` distinguishes the job from others, also from those of the same name.
    `epoch` is that of the lease on the checkpoint, `sink_epoch` of the one on the sink, 0 if it needs none.
    `owner` and `previous` are as in `Locations`.
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


@dataclass(frozen=True, slots=True)
class Site:
    """The checkpoint of a job, its sink, who passes staged rows to it, and where things are kept.

    `made` is the sink without what passes rows to it. `certificates` is where those of snapshots are; None if
    they get none. `shared_disk`: executors read and write the driver's files.
    """

    checkpoint: LeasedCheckpoint
    sink: Sink
    emitters: Executors
    locations: Locations
    made: Sink
    certificates: CertificateDirectory | None = None
    shared_disk: bool = True

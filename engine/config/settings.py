"""The settings as values: frozen, complete and checked.

`engine.config.parse` creates them. Secrets, and mappings that may hold one, are left out of every repr.
Expressions use Java's syntax. Times are in ms unless the name says seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from engine.config.web_settings import HttpSettings, LineageSettings
from engine.errors import InvariantError
from engine.model import NO_LIMIT, Channel, Limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.config.sinks.against import Against
    from engine.config.sinks.settings import SinkSettings
    from engine.config.sources.selection import CaptureSettings
    from engine.events.batch import EventForm
    from engine.events.settings import EventSettings
    from engine.model import CollectionId

S = TypeVar("S")

WINDOW_BYTES: Final = 256 << 20
"""How large a window may be unless `JobSettings.window_max_bytes` is set."""


class SnapshotMode(StrEnum):
    """`snapshot.mode`, including later versions' names."""

    INITIAL = "initial"
    ALWAYS = "always"
    INITIAL_ONLY = "initial_only"
    NEVER = "never"
    NO_DATA = "no_data"
    WHEN_NEEDED = "when_needed"
    EXPORTED = "exported"
    CUSTOM = "custom"


class SnapshotRestart(StrEnum):
    """`tidemark.snapshot.restart`: what happens to an interrupted initial snapshot."""

    RESUME = "resume"
    REDO = "redo"


class Conditions(StrEnum):
    """`tidemark.snapshot.conditions`: which conditions signals may have."""

    EXPRESSIONS = "expressions"
    SQL = "sql"
    OFF = "off"


class NewCollections(StrEnum):
    """`tidemark.snapshot.new`: what becomes of collections that are captured only since the job runs.

    `columns`: also of tables with new columns whose values in existing rows the log does not have.
    """

    TABLES = "tables"
    COLUMNS = "columns"
    OFF = "off"


class Watermarking(StrEnum):
    """How a window relates to the log: by transaction visibility, or by rows of the signal table."""

    VISIBILITY = "visibility"
    INSERT_INSERT = "insert_insert"
    INSERT_DELETE = "insert_delete"


class Recovery(StrEnum):
    """`tidemark.recovery`: what to do once the log is lost."""

    STOP = "stop"
    REPAIR = "repair"
    """Begin a new log, and repair every captured collection in the sink."""


class StateForm(StrEnum):
    """`tidemark.state.form`: which form of the state is saved. Both forms are read."""

    PREVIOUS = "previous"
    CURRENT = "current"


class Certificate(StrEnum):
    """`tidemark.certificate`: whether a snapshot that ends gets a certificate."""

    ON = "on"
    OFF = "off"


class StagingKind(StrEnum):
    """`tidemark.staging`: where rows wait that are read and not yet emitted."""

    AUTO = "auto"
    FILES = "files"
    EXECUTORS = "executors"


class TableErrors(StrEnum):
    """`tidemark.table.errors`: what happens to a table that can't be streamed."""

    ISOLATE = "isolate"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Snapshots, initial and incremental. `select_overrides`: a table's name to a SELECT.

    `max_threads` 0: as many as there are tasks. `custom_name` names the snapshotter of `mode` custom.
    `filters`: `database.collection` to the filter of its initial snapshot. `conditions`: which conditions
    signals may have. `new`: what becomes of collections that are captured only since the job runs.
    `recovery` rules over `mode` where the log is lost.
    """

    mode: SnapshotMode = SnapshotMode.INITIAL
    restart: SnapshotRestart = SnapshotRestart.RESUME
    chunk_size: int = 1024
    fetch_size: int = 10_240
    watermarking: Watermarking = Watermarking.VISIBILITY
    max_threads: int = 0
    include_tables: tuple[str, ...] = ()
    select_overrides: dict[str, str] = field(default_factory=dict)
    delay_ms: int = 0
    lock_timeout_ms: int = 10_000
    custom_name: str = ""
    conditions: Conditions = Conditions.EXPRESSIONS
    new: NewCollections = NewCollections.TABLES
    filters: dict[str, str] = field(default_factory=dict)
    recovery: Recovery = Recovery.STOP


@dataclass(frozen=True, slots=True)
class SignalTopic:
    """The topic of signals; `client` has librdkafka's names.

    A new job takes signals from a minute before its first start, or with `from_beginning` all in the topic.
    """

    name: str = ""
    client: dict[str, str] = field(default_factory=dict, repr=False)
    from_beginning: bool = False
    poll_timeout_ms: int = 100


@dataclass(frozen=True, slots=True)
class CustomChannel:
    """The settings of another package's signal channel, and what makes the channel of them."""

    settings: object = field(repr=False)
    make: Callable[[Any, str], Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """Where signals come from. `custom` are the channels of other packages, by name."""

    channels: frozenset[Channel] = frozenset({Channel.SOURCE})
    collection: CollectionId | None = None
    topic: SignalTopic = SignalTopic()
    file: str = "file-signals.txt"
    custom: Mapping[str, CustomChannel] = field(default_factory=dict)

    @property
    def table(self) -> CollectionId | None:
        """The signal table, if signals are taken from it."""
        return self.collection if Channel.SOURCE in self.channels else None


class NotificationChannel(StrEnum):
    """`notification.enabled.channels`, without `jmx`."""

    SINK = "sink"
    LOG = "log"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Where notifications go. `topic` is that of the sink's; `webhook` is an address, maybe with a secret."""

    channels: frozenset[NotificationChannel] = frozenset()
    topic: str = ""
    webhook: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The job itself.

    - `checkpoint` None: a new temporary directory, so nothing outlives the run
    - `staging` None: beside the checkpoint or the sink's directory
    - `letters` None: beside the checkpoint
    - `spark_master` None: the one of spark-submit or the session, else `local[*]`
    - `spark_archive` None: it is made when a session on a cluster starts; `none`: executors have it installed
    - `spark_stalled_ms`: how long tasks on a cluster may run while nothing comes of them; 0: for ever
    - `certificates`: whether snapshots get certificates
    - `blocking`: whether signals may ask for blocking snapshots
    - `window_max_chunks` 0 and `max_retries` -1: no bound
    - `limit`: what all snapshots together may read per second
    - `against`: databases with tables that somebody else keeps, by name
    - `verify_settle_ms`: how far these may lag
    """

    checkpoint: str | None = None
    state_form: StateForm = StateForm.PREVIOUS
    certificates: bool = True
    staging: str | None = None
    staging_kind: StagingKind = StagingKind.AUTO
    lease_wait: bool = True
    lease_ttl_ms: int = 6_000
    table_errors: TableErrors = TableErrors.ISOLATE
    letters: str | None = None
    letters_max_bytes: int = 1 << 30
    spark_master: str | None = None
    spark_archive: str | None = None
    spark_stalled_ms: int = 600_000
    spark_conf: dict[str, str] = field(default_factory=dict, repr=False)
    window_seconds: float = 2.0
    window_max_bytes: int | None = None
    window_max_chunks: int = 0
    span_max_rows: int = 200_000
    span_max_bytes: int = 64 << 20
    max_queued: int = 10_000
    blocking: bool = True
    limit: Limit = NO_LIMIT
    max_lag_ms: int = 5_000
    progress_interval_ms: int = 5_000
    heartbeat_interval_ms: int = 0
    heartbeat_query: str = ""
    restart_wait_ms: int = 10_000
    max_retries: int = -1
    against: Mapping[str, Against] = field(default_factory=dict)
    verify_settle_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that `tidemark run` needs. `warnings` holds one line each, to be logged once.

    `source` is the connector's own. `runs` is the module whose `run` runs the job.
    """

    name: str
    events: EventSettings
    source: object
    capture: CaptureSettings
    snapshot: SnapshotSettings
    signals: SignalSettings
    sink: SinkSettings
    job: JobSettings
    notifications: NotificationSettings = NotificationSettings()
    http: HttpSettings = field(default_factory=HttpSettings)
    lineage: LineageSettings = field(default_factory=LineageSettings)
    warnings: tuple[str, ...] = ()
    runs: str = ""

    def in_form(self, form: EventForm) -> Settings:
        """The settings of a job whose sink takes events in this form."""
        return self if form is self.events.form else replace(self, events=replace(self.events, form=form))

    def source_as(self, kind: type[S]) -> S:
        """The source's own settings, which are of this class. Raises InvariantError if they are not."""
        if not isinstance(self.source, kind):
            raise InvariantError(f"{kind.__name__} were asked for of another source")
        return self.source

    def sink_as(self, kind: type[S]) -> S:
        """The sink's own settings, which are of this class. Raises InvariantError if they are not."""
        if not isinstance(self.sink.own, kind):
            raise InvariantError(f"{kind.__name__} were asked for of another sink")
        return self.sink.own

"""The settings as values: frozen, complete and checked.

`engine.config.parse` creates them. Secrets, and mappings that may hold one, are left out of every repr.
Expressions use Java's syntax and are matched with `engine.expressions.matches`. Times are in ms unless the
name says seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.config.sources import MongoSettings, PostgresSettings, SqlServerSettings
from engine.errors import InvariantError
from engine.expressions import matches
from engine.model import Channel

if TYPE_CHECKING:
    from engine.config.plugins import MakeSink
    from engine.events.batch import EventForm
    from engine.events.settings import EventSettings
    from engine.model import CollectionId


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


class Watermarking(StrEnum):
    """How a window relates to the log: by transaction visibility, or by rows of the signal table."""

    VISIBILITY = "visibility"
    INSERT_INSERT = "insert_insert"
    INSERT_DELETE = "insert_delete"


class SinkKind(StrEnum):
    """`tidemark.sink`."""

    FILES = "files"
    CONSOLE = "console"
    NULL = "null"
    KAFKA = "kafka"


class SinkAhead(StrEnum):
    """`tidemark.sink.ahead`: what to do if the sink holds turns that the checkpoint does not know."""

    REFUSE = "refuse"
    REPEAT = "repeat"


class StateForm(StrEnum):
    """`tidemark.state.form`: which form of the state is saved. Both forms are read."""

    PREVIOUS = "previous"
    CURRENT = "current"


class Destination(StrEnum):
    """`tidemark.destination`: whether events go to the same destination as before, or it was moved."""

    SAME = "same"
    MOVED = "moved"


class TopicRecreated(StrEnum):
    """`tidemark.sink.topic.recreated`: what to do if a topic was recreated."""

    WARN = "warn"
    STOP = "stop"
    SNAPSHOT = "snapshot"


class Fencing(StrEnum):
    """`tidemark.sink.kafka.fencing`: what stops a replaced job from sending more events."""

    NONE = "none"
    """Only its lease. Records that its producers hold may still arrive."""
    TRANSACTIONS = "transactions"
    """Each producer has a transactional id, which the successor takes away first."""


class TableErrors(StrEnum):
    """`tidemark.table.errors`: what happens to a table that can't be streamed."""

    ISOLATE = "isolate"
    STOP = "stop"


class GeneratedColumns(StrEnum):
    """`tidemark.snapshot.generated.columns`: which generated columns rows read have."""

    PUBLISHED = "published"
    """Those that the log has as well."""
    STORED = "stored"
    """All that the table stores."""


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Which tables' changes become events. An empty include list includes everything."""

    include_schemas: tuple[str, ...] = ()
    exclude_schemas: tuple[str, ...] = ()
    include_tables: tuple[str, ...] = ()
    exclude_tables: tuple[str, ...] = ()

    def captures(self, schema: str, table: str) -> bool:
        """Apply the schema lists to `schema` and the table lists to `schema.table`.

        The caller handles system schemas and the exception for the signal table.
        """
        return _selected(schema, self.include_schemas, self.exclude_schemas) and _selected(
            f"{schema}.{table}", self.include_tables, self.exclude_tables
        )


def _selected(name: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> bool:
    return matches(include, name) if include else not matches(exclude, name)


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """Snapshots, initial and incremental. `select_overrides`: `schema.table` to a SELECT.

    `accept_risk` are tables that are snapshotted although their log may lack changes. `max_threads` 0: as
    many as there are tasks. `custom_name` names the snapshotter of `mode` custom. `filters`:
    `database.collection` to the filter of its initial snapshot. `conditions`: which conditions signals may
    have.
    """

    mode: SnapshotMode = SnapshotMode.INITIAL
    restart: SnapshotRestart = SnapshotRestart.RESUME
    chunk_size: int = 1024
    fetch_size: int = 10_240
    watermarking: Watermarking = Watermarking.VISIBILITY
    allow_schema_changes: bool = False
    max_threads: int = 0
    include_tables: tuple[str, ...] = ()
    select_overrides: dict[str, str] = field(default_factory=dict)
    delay_ms: int = 0
    lock_timeout_ms: int = 10_000
    custom_name: str = ""
    accept_risk: tuple[str, ...] = ()
    generated_columns: GeneratedColumns = GeneratedColumns.PUBLISHED
    conditions: Conditions = Conditions.EXPRESSIONS
    filters: dict[str, str] = field(default_factory=dict)


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
class SignalSettings:
    """Where signals come from."""

    channels: frozenset[Channel] = frozenset({Channel.SOURCE})
    collection: CollectionId | None = None
    topic: SignalTopic = SignalTopic()
    file: str = "file-signals.txt"


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """How topics that match `include` and not `exclude` are created. -1: the broker's default."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] = field(default_factory=dict)

    def takes(self, topic: str) -> bool:
        """Whether the group applies to this topic. Unlike table names, topic names are case-sensitive."""
        return _fits(self.include, topic) and not _fits(self.exclude, topic)


def _fits(expressions: tuple[str, ...], topic: str) -> bool:
    return matches(expressions, topic, ignore_case=False)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The Kafka sink. `client` has librdkafka's names. Of `topics` the first group that fits counts.

    `dead_letter_topic` takes records that are too large for their topic. Empty: their table is set aside.
    """

    client: dict[str, str] = field(default_factory=dict, repr=False)
    create_topics: bool = True
    topics: tuple[TopicGroup, ...] = (TopicGroup(),)
    dead_letter_topic: str = ""
    recreated: TopicRecreated = TopicRecreated.WARN
    fencing: Fencing = Fencing.NONE


@dataclass(frozen=True, slots=True)
class CustomSink:
    """The settings of another package's sink, and what makes the sink of them."""

    settings: object = field(repr=False)
    make: MakeSink = field(repr=False)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Where events go. `kind` is one of SinkKind, or the name of another package's sink.

    `directory` and `mode` are for the sink `files`, `kafka` for the sink `kafka`, `custom` for another
    package's. `mode` is the mode of committed files; None leaves it to the umask.
    """

    kind: str = SinkKind.FILES
    directory: str = ""
    mode: int | None = None
    ahead: SinkAhead = SinkAhead.REFUSE
    destination: Destination = Destination.SAME
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    custom: CustomSink | None = None


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The job itself.

    - `checkpoint` None: a new temporary directory, so nothing outlives the run
    - `staging` None: beside the checkpoint or the sink's directory
    - `letters` None: beside the checkpoint
    - `spark_master` None: the one of spark-submit or the session, else `local[*]`
    - `window_max_chunks` 0 and `max_retries` -1: no bound
    """

    checkpoint: str | None = None
    state_form: StateForm = StateForm.PREVIOUS
    staging: str | None = None
    lease_wait: bool = True
    lease_ttl_ms: int = 6_000
    table_errors: TableErrors = TableErrors.ISOLATE
    letters: str | None = None
    letters_max_bytes: int = 1 << 30
    spark_master: str | None = None
    spark_conf: dict[str, str] = field(default_factory=dict, repr=False)
    window_seconds: float = 2.0
    window_max_bytes: int = 256 << 20
    window_max_chunks: int = 0
    window_local_rows: int = 10_000
    span_max_rows: int = 200_000
    span_max_bytes: int = 64 << 20
    max_queued: int = 10_000
    max_lag_ms: int = 5_000
    progress_interval_ms: int = 5_000
    heartbeat_interval_ms: int = 0
    heartbeat_query: str = ""
    restart_wait_ms: int = 10_000
    max_retries: int = -1


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
    warnings: tuple[str, ...] = ()
    runs: str = ""

    def in_form(self, form: EventForm) -> Settings:
        """The settings of a job whose sink takes events in this form."""
        return self if form is self.events.form else replace(self, events=replace(self.events, form=form))

    @property
    def postgres(self) -> PostgresSettings:
        """The source's settings, if it is PostgreSQL."""
        if not isinstance(self.source, PostgresSettings):
            raise InvariantError("PostgreSQL's settings were asked for of another source")
        return self.source

    @property
    def mongodb(self) -> MongoSettings:
        """The source's settings, if it is MongoDB."""
        if not isinstance(self.source, MongoSettings):
            raise InvariantError("MongoDB's settings were asked for of another source")
        return self.source

    @property
    def sqlserver(self) -> SqlServerSettings:
        """The source's settings, if it is SQL Server."""
        if not isinstance(self.source, SqlServerSettings):
            raise InvariantError("SQL Server's settings were asked for of another source")
        return self.source

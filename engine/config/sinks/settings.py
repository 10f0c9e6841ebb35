"""The settings of sinks: which one, where it writes, and what it does if others have changed its target."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.ports.executors import Executors
    from engine.ports.sink import Sink


class SinkKind(StrEnum):
    """`tidemark.sink`."""

    FILES = "files"
    CONSOLE = "console"
    NULL = "null"
    KAFKA = "kafka"
    JDBC = "jdbc"
    DELTA = "delta"
    ICEBERG = "iceberg"


LAKES: Final = frozenset({SinkKind.DELTA, SinkKind.ICEBERG})
"""The sinks of lake tables."""


class TableMode(StrEnum):
    """`tidemark.sink.lake.mode`: whether a table has the source's rows, or each change as a row."""

    REPLICA = "replica"
    APPEND = "append"


class TypeChange(StrEnum):
    """`tidemark.sink.lake.type.change`: where the values of a column go that its type can't hold any more."""

    REFUSE = "refuse"
    COLUMN = "column"


class SchemaEvolution(StrEnum):
    """Whether the sinks `jdbc`, `delta` and `iceberg` create what their tables lack."""

    BASIC = "basic"
    NONE = "none"


class SinkAhead(StrEnum):
    """`tidemark.sink.ahead`: what to do if the sink holds turns that the checkpoint does not know."""

    REFUSE = "refuse"
    REPEAT = "repeat"


class Destination(StrEnum):
    """`tidemark.destination`: whether events go to the same destination as before, or it was moved."""

    SAME = "same"
    MOVED = "moved"


class TopicRecreated(StrEnum):
    """`tidemark.sink.topic.recreated`: what to do if a topic, or a table of the sink, was recreated."""

    WARN = "warn"
    STOP = "stop"
    SNAPSHOT = "snapshot"


class Fencing(StrEnum):
    """`tidemark.sink.kafka.fencing`: what stops a replaced job from sending more events."""

    NONE = "none"
    """Only its lease. Records that its producers hold may still arrive."""
    TRANSACTIONS = "transactions"
    """Each producer has a transactional id, which the successor takes away first."""


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """How topics that match `include` and not `exclude` are created. -1: the broker's default.

    `engine.config.sources.selection` matches them.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] = field(default_factory=dict)


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


class MakeSink(Protocol):
    """Makes a sink of another package when a job starts."""

    def __call__(self, settings: Any, *, executors: Executors, staging: str, tasks: int, name: str) -> Sink:
        """The sink of these settings.

        `executors` run its tasks, `tasks` at once. `staging` is a directory that driver and executors share;
        it is removed when the job ends. `name` distinguishes the job from others.
        """


@dataclass(frozen=True, slots=True)
class CustomSink:
    """The settings of another package's sink, and what makes the sink of them."""

    settings: object = field(repr=False)
    make: MakeSink = field(repr=False)


@dataclass(frozen=True, slots=True)
class JdbcSettings:
    """The sink `jdbc`.

    - `parameters` of the connection have libpq's names, and may contain secrets
    - `table_format` gives the name of a collection's table; a dot separates its schema
    - `unavailable_text` and `unavailable_value` stand in events for values that the log left out
    """

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    table_format: str = ""
    evolution: SchemaEvolution = SchemaEvolution.BASIC
    recreated: TopicRecreated = TopicRecreated.WARN
    unavailable_text: str = ""
    unavailable_value: bytes = b""

    @property
    def address(self) -> str:
        """The server and its database, for people."""
        return "{host}:{port}/{dbname}".format_map(self.parameters) if self.parameters else ""


@dataclass(frozen=True, slots=True)
class LakeSettings:
    """The sinks `delta` and `iceberg`.

    - `warehouse` is a directory or URI, `catalog` a catalog of the session; one of them may be empty
    - `table_format` gives the name of a collection's table; a dot separates its namespace
    - `journal` is the directory of turns that are to be merged; empty: within the checkpoint
    - `properties` are those of new tables; `partitions` and `clusters` have columns or transforms by table
    - `upkeep_s` and `retention_s`: how often tables are tended, and how long old snapshots are kept; 0: not
    - `unavailable_text` and `unavailable_value` are as for the sink `jdbc`
    """

    warehouse: str = ""
    catalog: str = ""
    table_format: str = ""
    mode: TableMode = TableMode.REPLICA
    evolution: SchemaEvolution = SchemaEvolution.BASIC
    type_change: TypeChange = TypeChange.REFUSE
    recreated: TopicRecreated = TopicRecreated.WARN
    journal: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)
    upkeep_s: float = 0.0
    retention_s: float = 0.0
    unavailable_text: str = ""
    unavailable_value: bytes = b""

    @property
    def location(self) -> str:
        """Where the tables are, for people."""
        return self.warehouse or f"the catalog {self.catalog}"


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """Where events go. `kind` is one of SinkKind, or the name of another package's sink.

    `directory` and `mode` are for the sink `files`, `kafka` and `jdbc` for the sinks of these names, `lake`
    for `delta` and `iceberg`, `custom` for another package's. `mode` is the mode of committed
    files; None leaves it to the umask.
    """

    kind: str = SinkKind.FILES
    directory: str = ""
    mode: int | None = None
    ahead: SinkAhead = SinkAhead.REFUSE
    destination: Destination = Destination.SAME
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    jdbc: JdbcSettings = field(default_factory=JdbcSettings)
    lake: LakeSettings = field(default_factory=LakeSettings)
    custom: CustomSink | None = None

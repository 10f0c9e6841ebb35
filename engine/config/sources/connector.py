"""The properties that Debezium's connectors have in common, with shapes and defaults.

Names, defaults and texts are those of the PostgreSQL connector of Debezium 2.1.4, or of the later version
that introduced a property. Other connectors take theirs from here by name. `connect` has Kafka Connect's
properties and those without effect, `own` has ours.
"""

from __future__ import annotations

from engine.config.plugins import BUILT_IN_CHANNELS
from engine.config.properties.expression_shapes import EXPRESSIONS, MESSAGE_KEYS
from engine.config.properties.row import APPLIED, IGNORED, LATER, Property
from engine.config.properties.shapes import (
    FLAG,
    NAMES,
    TABLE_NAME,
    TEXT,
    VERBATIM,
    choice,
    java_class,
    subset,
    text,
    whole,
)
from engine.config.settings import SnapshotMode, Watermarking
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    HeaderConverter,
    NameAdjustment,
    TimeMode,
)

P = Property
_TOPIC = text(r"[a-zA-Z0-9_.\-]+", "letters, digits, hyphens, dots and underscores")
_MS_32 = whole(0, 2**31 - 1)

HOST = P(
    "database.hostname",
    APPLIED,
    "the server's host name or address",
    text(r"[\w.:%\[\]-]+", "a host name"),
    required=True,
)
CAPTURE = (
    P("schema.include.list", APPLIED, "schemas to capture", EXPRESSIONS),
    P("schema.exclude.list", APPLIED, "schemas not to capture", EXPRESSIONS),
    P("table.include.list", APPLIED, "tables to capture, as schema.table", EXPRESSIONS),
    P("table.exclude.list", APPLIED, "tables not to capture", EXPRESSIONS),
    P("column.include.list", APPLIED, "columns to keep, as schema.table.column", EXPRESSIONS),
    P("column.exclude.list", APPLIED, "columns to leave out", EXPRESSIONS),
    P(
        "skipped.operations",
        APPLIED,
        "operations of the stream for which no event is emitted; a snapshot's rows (r) are sent all the same",
        subset(("c", "u", "d", "t", "r"), nothing="none"),
        "t",
    ),
)

EVENTS = (
    P("topic.prefix", APPLIED, "the first part of every topic's name", _TOPIC, required=True),
    P("topic.delimiter", APPLIED, "between the parts of a topic's name", _TOPIC, "."),
    P("topic.transaction", APPLIED, "the transaction topic, behind the prefix", _TOPIC, "transaction"),
    P(
        "topic.heartbeat.prefix",
        APPLIED,
        "the heartbeat topic, before the prefix",
        _TOPIC,
        "__debezium-heartbeat",
    ),
    P("key.converter.schemas.enable", APPLIED, "put the schema into every key", FLAG, "true"),
    P("value.converter.schemas.enable", APPLIED, "put the schema into every value", FLAG, "true"),
    P(
        "header.converter",
        APPLIED,
        "how the headers of events for key changes are written",
        java_class(HeaderConverter),
        HeaderConverter.SIMPLE,
    ),
    P(
        "header.converter.schemas.enable",
        APPLIED,
        "put the schema into these headers, as JsonConverter does",
        FLAG,
        "true",
    ),
    P(
        "value.converter.replace.null.with.default",
        APPLIED,
        "write a null as its column's default",
        FLAG,
        "true",
    ),
    P(
        "tombstones.on.delete",
        APPLIED,
        "follow each delete event by a tombstone, a record with a null value",
        FLAG,
        "true",
    ),
    P(
        "provide.transaction.metadata",
        APPLIED,
        "emit an event when a transaction begins and when it ends",
        FLAG,
        "false",
    ),
    P("decimal.handling.mode", APPLIED, "how numeric is written", choice(DecimalMode), "precise"),
    P("binary.handling.mode", APPLIED, "how bytea is written", choice(BinaryMode), "bytes"),
    P("time.precision.mode", APPLIED, "how dates and times are written", choice(TimeMode), "adaptive"),
    P("schema.name.adjustment.mode", APPLIED, "adjust schema names for Avro", choice(NameAdjustment), "none"),
    P("field.name.adjustment.mode", IGNORED, "Debezium 2.1.4 does not know it; sanitize.field.names does it"),
    P("sanitize.field.names", APPLIED, "adjust field names for Avro", FLAG, "false"),
    P("message.key.columns", APPLIED, "columns that make a table's key", MESSAGE_KEYS),
    P("column.truncate.to.<length>.chars", APPLIED, "columns to truncate to a length", EXPRESSIONS),
    P("column.mask.with.<length>.chars", APPLIED, "columns to replace with this many asterisks", EXPRESSIONS),
    P(
        "column.mask.hash.v2.<algorithm>.with.salt.<salt>",
        APPLIED,
        "columns replaced by a hash",
        EXPRESSIONS,
    ),
    P("column.mask.hash.<algorithm>.with.salt.<salt>", APPLIED, "columns replaced by a hash", EXPRESSIONS),
    P("column.propagate.source.type", APPLIED, "columns whose source type goes into the schema", EXPRESSIONS),
    P("datatype.propagate.source.type", APPLIED, "source types that go into the schema", EXPRESSIONS),
    P("heartbeat.interval.ms", APPLIED, "how often a heartbeat is emitted; 0: never", _MS_32, "0"),
    P("heartbeat.action.query", APPLIED, "SQL to run with every heartbeat", VERBATIM),
)

SNAPSHOT = (
    P("snapshot.mode", APPLIED, "when the tables are read as a whole", choice(SnapshotMode), "initial"),
    P(
        "snapshot.custom.class",
        APPLIED,
        "class that decides for snapshot.mode=custom, as package.module:Name",
        TEXT,
    ),
    P("snapshot.mode.custom.name", APPLIED, "the newer name of snapshot.custom.class", TEXT),
    P("snapshot.include.collection.list", APPLIED, "tables of the initial snapshot", EXPRESSIONS),
    P(
        "snapshot.select.statement.overrides",
        APPLIED,
        "tables that an initial snapshot reads with a SELECT of your own",
        NAMES,
    ),
    P("snapshot.select.statement.overrides.<table>", APPLIED, "the SELECT of such a table", VERBATIM),
    P("snapshot.delay.ms", APPLIED, "wait before the initial snapshot", whole(), "0"),
    P("snapshot.lock.timeout.ms", APPLIED, "how long to wait for a table's lock", whole(), "10000"),
    P(
        "snapshot.max.threads",
        APPLIED,
        "how many tasks may read an initial snapshot at once; 0: as many as Spark can run",
        whole(0, 2**31 - 1),
        "0",
    ),
    P("snapshot.fetch.size", APPLIED, "rows fetched at a time", whole(1, 2**31 - 1), "10240"),
    P(
        "incremental.snapshot.chunk.size",
        APPLIED,
        "rows in a chunk, the unit of progress",
        whole(1, 2**31 - 1),
        "1024",
    ),
    P(
        "incremental.snapshot.watermarking.strategy",
        APPLIED,
        "visibility, or rows of the signal table",
        choice(Watermarking),
        "visibility",
    ),
    P(
        "incremental.snapshot.allow.schema.changes",
        LATER,
        "continue when a table's schema changes",
        FLAG,
        "false",
    ),
    P("read.only", APPLIED, "true: write no row, whatever the watermarking strategy says", FLAG, "false"),
)

SIGNALS = (
    P("signal.data.collection", APPLIED, "the signal table", TABLE_NAME),
    P(
        "signal.enabled.channels",
        APPLIED,
        "channels that take signals; by default, every channel that is configured",
        subset(BUILT_IN_CHANNELS),
        "",
    ),
    P("signal.poll.interval.ms", IGNORED, "channels are polled in every turn"),
    P("signal.kafka.topic", APPLIED, "the topic that signals are read from", TEXT),
    P("signal.kafka.bootstrap.servers", APPLIED, "the brokers that have it", TEXT),
    P("signal.kafka.groupId", APPLIED, "a name for its consumer; no group is joined", TEXT, "kafka-signal"),
    P("signal.kafka.poll.timeout.ms", APPLIED, "how long one poll waits", whole(1, 10_000), "100"),
    P("signal.consumer.<option>", APPLIED, "option of the topic's consumer, as Java names it", VERBATIM),
    P("signal.file", APPLIED, "the file that signals are read from", TEXT, "file-signals.txt"),
)

NOTIFICATIONS = (
    P(
        "notification.enabled.channels",
        APPLIED,
        "where notifications about snapshots go; by default nowhere",
        subset(("sink", "log", "webhook", "jmx")),
        "",
    ),
    P(
        "notification.sink.topic.name",
        APPLIED,
        "the topic of the notifications that go to the sink",
        text(r"[a-zA-Z0-9_.\-]*", "letters, digits, hyphens, dots and underscores"),
    ),
)

ROWS = (*CAPTURE, *EVENTS, *SNAPSHOT, *SIGNALS, *NOTIFICATIONS)

RELATIONAL = frozenset(
    (
        *("schema.include.list", "schema.exclude.list", "table.include.list", "table.exclude.list"),
        *("column.include.list", "column.exclude.list", "skipped.operations", "topic.prefix"),
        *("topic.delimiter", "topic.transaction", "topic.heartbeat.prefix"),
        *("key.converter.schemas.enable", "value.converter.schemas.enable"),
        *("header.converter", "header.converter.schemas.enable"),
        *("value.converter.replace.null.with.default", "tombstones.on.delete"),
        *("provide.transaction.metadata", "decimal.handling.mode", "binary.handling.mode"),
        *("time.precision.mode", "schema.name.adjustment.mode", "field.name.adjustment.mode"),
        *("sanitize.field.names", "message.key.columns", "column.truncate.to.<length>.chars"),
        *("column.mask.with.<length>.chars", "column.mask.hash.v2.<algorithm>.with.salt.<salt>"),
        *("column.mask.hash.<algorithm>.with.salt.<salt>", "column.propagate.source.type"),
        *("datatype.propagate.source.type", "heartbeat.interval.ms", "heartbeat.action.query"),
        *("snapshot.custom.class", "snapshot.mode.custom.name", "snapshot.include.collection.list"),
        *("snapshot.select.statement.overrides", "snapshot.select.statement.overrides.<table>"),
        *("snapshot.delay.ms", "snapshot.lock.timeout.ms", "snapshot.max.threads", "snapshot.fetch.size"),
        *("incremental.snapshot.chunk.size", "incremental.snapshot.allow.schema.changes", "read.only"),
    )
)
"""Those that every relational source has."""

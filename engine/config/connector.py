"""The properties of Debezium's PostgreSQL connector, with shapes and defaults.

Names and defaults are those of Debezium 2.1.4, or of the later version that introduced a property. `connect`
has Kafka Connect's properties and those without effect, `own` has ours.
"""

from __future__ import annotations

from engine.config.row import APPLIED, IGNORED, LATER, LATER_REFUSED, Property
from engine.config.settings import SnapshotMode, Watermarking
from engine.config.shapes import (
    EXPRESSIONS,
    FLAG,
    MESSAGE_KEYS,
    NAMES,
    PLACEHOLDER,
    STATEMENTS,
    TABLE_NAME,
    TEXT,
    VERBATIM,
    choice,
    java_class,
    stream_options,
    subset,
    text,
    whole,
)
from engine.config.sources import Autocreate, SchemaRefresh, SslMode
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    HeaderConverter,
    HstoreMode,
    IntervalMode,
    NameAdjustment,
    TimeMode,
)

P = Property
_TOPIC = text(r"[a-zA-Z0-9_.\-]+", "letters, digits, hyphens, dots and underscores")
_IDENTIFIER = text(r"[^\0]{1,63}", "a name of 1 to 63 characters")
_PLUGIN = text("pgoutput", "'pgoutput'; no other plug-in is supported")
_MS_32 = whole(0, 2**31 - 1)
_ROLE = text(r"[^\0]+", "a name")

DATABASE = (
    P(
        "database.hostname",
        APPLIED,
        "the server's host name or address",
        text(r"[\w.:%\[\]-]+", "a host name"),
        required=True,
    ),
    P("database.port", APPLIED, "the server's port", whole(1, 65535), "5432"),
    P("database.user", APPLIED, "the role to connect as", _ROLE, required=True),
    P("database.password", APPLIED, "its password; may be empty where the server asks for none"),
    P("database.dbname", APPLIED, "the database whose changes are read", _IDENTIFIER, required=True),
    P("database.sslmode", APPLIED, "whether TLS is used and verified", choice(SslMode), "disable"),
    P("database.sslcert", APPLIED, "file of the client's certificate", TEXT),
    P("database.sslkey", APPLIED, "file of the client's private key", TEXT),
    P("database.sslpassword", APPLIED, "password of the private key"),
    P(
        "database.sslrootcert",
        APPLIED,
        "file of the certificates that the server's is checked against",
        TEXT,
    ),
    P("database.tcpKeepAlive", APPLIED, "probe idle connections", FLAG, "true"),
    P(
        "database.query.timeout.ms",
        APPLIED,
        "longest time of a query, and of waiting for an answer; 0: no bound",
        _MS_32,
        "600000",
    ),
    P("database.initial.statements", APPLIED, "run at the start of every ordinary connection", STATEMENTS),
)

REPLICATION = (
    P("plugin.name", APPLIED, "the decoding plug-in", _PLUGIN, "pgoutput"),
    P(
        "slot.name",
        APPLIED,
        "the replication slot",
        text(r"[a-z0-9_]{1,63}", "1 to 63 lower-case letters, digits and underscores"),
        "debezium",
    ),
    P("slot.drop.on.stop", APPLIED, "drop the slot at a clean stop", FLAG, "false"),
    P("slot.failover", LATER, "create the slot for failover", FLAG, "false"),
    P("slot.max.retries", APPLIED, "attempts to take a busy slot", whole(0, 2**31 - 1), "6"),
    P("slot.retry.delay.ms", APPLIED, "longest wait between these attempts", _MS_32, "10000"),
    P(
        "slot.stream.params",
        APPLIED,
        "further options of the decoding plug-in",
        stream_options("proto_version", "publication_names", "messages", "streaming", "two_phase", "binary"),
    ),
    P("publication.name", APPLIED, "the publication", _IDENTIFIER, "dbz_publication"),
    P(
        "publication.autocreate.mode",
        APPLIED,
        "what to do when the publication is missing",
        choice(Autocreate),
        "all_tables",
    ),
    P(
        "publish.via.partition.root",
        LATER_REFUSED,
        "create the publication with its partitions under their root",
        FLAG,
        "false",
    ),
    P(
        "status.update.interval.ms",
        APPLIED,
        "how often the server hears what was received",
        whole(1, 2**31 - 1),
        "10000",
    ),
    P("flush.lsn.source", LATER_REFUSED, "acknowledge the log to the server", FLAG, "true"),
    P("xmin.fetch.interval.ms", APPLIED, "how often the slot's xmin is read; 0: never", _MS_32, "0"),
    P(
        "schema.refresh.mode",
        LATER,
        "when a table's columns are read again",
        choice(SchemaRefresh),
        "columns_diff",
    ),
)

CAPTURE = (
    P("schema.include.list", APPLIED, "schemas to capture", EXPRESSIONS),
    P("schema.exclude.list", APPLIED, "schemas not to capture", EXPRESSIONS),
    P("table.include.list", APPLIED, "tables to capture, as schema.table", EXPRESSIONS),
    P("table.exclude.list", APPLIED, "tables not to capture", EXPRESSIONS),
    P("column.include.list", APPLIED, "columns to keep, as schema.table.column", EXPRESSIONS),
    P("column.exclude.list", APPLIED, "columns to leave out", EXPRESSIONS),
    P("message.prefix.include.list", APPLIED, "logical messages to emit, by prefix", EXPRESSIONS),
    P("message.prefix.exclude.list", APPLIED, "logical messages not to emit", EXPRESSIONS),
    P(
        "skipped.operations",
        APPLIED,
        "operations that give no event",
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
        "how the headers of a key change are written",
        java_class(HeaderConverter),
        HeaderConverter.SIMPLE,
    ),
    P(
        "header.converter.schemas.enable",
        APPLIED,
        "put the schema there, as JsonConverter does",
        FLAG,
        "true",
    ),
    P("value.converter.replace.null.with.default", APPLIED, "write a null as its default", FLAG, "true"),
    P("tombstones.on.delete", APPLIED, "follow a delete by a null value", FLAG, "true"),
    P("provide.transaction.metadata", APPLIED, "emit transactions' begins and ends", FLAG, "false"),
    P("decimal.handling.mode", APPLIED, "how numeric is written", choice(DecimalMode), "precise"),
    P("binary.handling.mode", APPLIED, "how bytea is written", choice(BinaryMode), "bytes"),
    P("time.precision.mode", APPLIED, "how dates and times are written", choice(TimeMode), "adaptive"),
    P("interval.handling.mode", APPLIED, "how intervals are written", choice(IntervalMode), "numeric"),
    P("hstore.handling.mode", APPLIED, "how hstore is written", choice(HstoreMode), "json"),
    P("money.fraction.digits", APPLIED, "decimals of money", whole(0, 32767), "2"),
    P(
        "unavailable.value.placeholder",
        APPLIED,
        "stands for a value that the log left out",
        PLACEHOLDER,
        "__debezium_unavailable_value",
    ),
    P("include.unknown.datatypes", APPLIED, "write types nobody knows as bytes", FLAG, "false"),
    P("schema.name.adjustment.mode", APPLIED, "fit schemas' names to Avro", choice(NameAdjustment), "none"),
    P("field.name.adjustment.mode", IGNORED, "Debezium 2.1.4 does not know it; sanitize.field.names does it"),
    P("sanitize.field.names", APPLIED, "fit fields' names to Avro", FLAG, "false"),
    P("message.key.columns", APPLIED, "columns that make a table's key", MESSAGE_KEYS),
    P("column.truncate.to.<length>.chars", APPLIED, "columns cut to a length", EXPRESSIONS),
    P("column.mask.with.<length>.chars", APPLIED, "columns replaced by so many asterisks", EXPRESSIONS),
    P(
        "column.mask.hash.v2.<algorithm>.with.salt.<salt>",
        APPLIED,
        "columns replaced by a hash",
        EXPRESSIONS,
    ),
    P("column.mask.hash.<algorithm>.with.salt.<salt>", APPLIED, "columns replaced by a hash", EXPRESSIONS),
    P("column.propagate.source.type", APPLIED, "columns whose type goes into the schema", EXPRESSIONS),
    P("datatype.propagate.source.type", APPLIED, "types that go into the schema", EXPRESSIONS),
    P("heartbeat.interval.ms", APPLIED, "how often a heartbeat is emitted; 0: never", _MS_32, "0"),
    P("heartbeat.action.query", APPLIED, "SQL to run with every heartbeat", VERBATIM),
)

SNAPSHOT = (
    P("snapshot.mode", APPLIED, "when the tables are read as a whole", choice(SnapshotMode), "initial"),
    P("snapshot.custom.class", APPLIED, "what decides for snapshot.mode=custom: package.module:Name", TEXT),
    P("snapshot.mode.custom.name", APPLIED, "the same, by its later name", TEXT),
    P("snapshot.include.collection.list", APPLIED, "tables of the initial snapshot", EXPRESSIONS),
    P(
        "snapshot.select.statement.overrides",
        APPLIED,
        "tables that an initial snapshot reads by a SELECT",
        NAMES,
    ),
    P("snapshot.select.statement.overrides.<table>", APPLIED, "the SELECT of such a table", VERBATIM),
    P("snapshot.delay.ms", APPLIED, "wait before the initial snapshot", whole(), "0"),
    P("snapshot.lock.timeout.ms", APPLIED, "how long to wait for a table's lock", whole(), "10000"),
    P(
        "snapshot.max.threads",
        APPLIED,
        "tasks that read an initial snapshot, at most; 0: as many as there are",
        whole(0, 2**31 - 1),
        "0",
    ),
    P("snapshot.fetch.size", APPLIED, "rows fetched at a time", whole(1, 2**31 - 1), "10240"),
    P(
        "incremental.snapshot.chunk.size",
        APPLIED,
        "rows of a chunk, the unit of progress",
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
        "go on when a table changes shape",
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
        "where signals come from; by default wherever settings are present",
        subset(("source", "kafka", "file", "jmx")),
        "",
    ),
    P("signal.poll.interval.ms", IGNORED, "channels are looked at in every turn"),
    P("signal.kafka.topic", APPLIED, "the topic of signals", TEXT),
    P("signal.kafka.bootstrap.servers", APPLIED, "the brokers that have it", TEXT),
    P("signal.kafka.groupId", APPLIED, "a name for its consumer; no group is joined", TEXT, "kafka-signal"),
    P("signal.kafka.poll.timeout.ms", APPLIED, "wait of one poll", whole(1, 10_000), "100"),
    P("signal.consumer.<option>", APPLIED, "option of the topic's consumer, as Java names it", VERBATIM),
    P("signal.file", APPLIED, "the file of signals", TEXT, "file-signals.txt"),
)

ROWS = (*DATABASE, *REPLICATION, *CAPTURE, *EVENTS, *SNAPSHOT, *SIGNALS)

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

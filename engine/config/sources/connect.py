"""Kafka Connect's properties: those without effect here, and those that are refused.

A property is refused if ignoring it would change events. It has no effect if Tidemark does the same in
another way, or has nothing that it could apply to. Older names are known too.
"""

from __future__ import annotations

from engine.config.properties.row import APPLIED, IGNORED, LATER, REFUSED, RENAMED, Property
from engine.config.properties.shapes import TEXT, harmless, whole

P = Property
_JSON = harmless("org.apache.kafka.connect.json.JsonConverter", "JsonConverter")
_PLAIN_NULLS = harmless("true")
_NONE = harmless()

FRAME = (
    P("name", APPLIED, "the job's name in logs and in Spark", TEXT),
    P("connector.class", APPLIED, "the connector; by default, PostgreSQL's", TEXT),
)

REFUSALS = (
    P(
        "transforms",
        REFUSED,
        "single message transforms are not run; transform the events downstream of the sink",
        _NONE,
    ),
    P("predicates", REFUSED, "predicates belong to transforms, which are not run", _NONE),
    P("converters", REFUSED, "custom converters are Java classes, which are not run", _NONE),
    P("post.processors", REFUSED, "post processors are Java classes, which are not run", _NONE),
    P("key.converter", REFUSED, "keys are written as Kafka Connect's JsonConverter writes them", _JSON),
    P("value.converter", REFUSED, "values are written as Kafka Connect's JsonConverter writes them", _JSON),
    P(
        "key.converter.decimal.format",
        REFUSED,
        "decimals in keys are written as BASE64",
        harmless("BASE64"),
    ),
    P(
        "value.converter.decimal.format",
        REFUSED,
        "decimals are written as BASE64; see decimal.handling.mode",
        harmless("BASE64"),
    ),
    P(
        "header.converter.decimal.format",
        REFUSED,
        "decimals in headers are written as BASE64",
        harmless("BASE64"),
    ),
    P(
        "key.converter.replace.null.with.default",
        REFUSED,
        "a null key field is written as its default",
        _PLAIN_NULLS,
    ),
    P(
        "header.converter.replace.null.with.default",
        REFUSED,
        "a null key field is written as its default in headers, too",
        _PLAIN_NULLS,
    ),
    P(
        "topic.naming.strategy",
        REFUSED,
        "topics are named prefix, schema and table; see topic.delimiter",
        harmless("io.debezium.schema.SchemaTopicNamingStrategy"),
    ),
    P("topic.heartbeat.name", REFUSED, "the heartbeat topic is named by topic.heartbeat.prefix", _NONE),
    P("lsn.flush.mode", REFUSED, "the log is acknowledged by the job itself", harmless("connector")),
    P(
        "replica.identity.autoset.values",
        REFUSED,
        "tables are never altered; run ALTER TABLE … REPLICA IDENTITY",
        _NONE,
    ),
    P("skip.messages.without.change", REFUSED, "every update gives an event", harmless("false")),
    P(
        "sourceinfo.struct.maker",
        REFUSED,
        "the source block is PostgreSQL's own",
        harmless("io.debezium.connector.postgresql.PostgresSourceInfoStructMaker"),
    ),
    P(
        "transaction.metadata.factory",
        REFUSED,
        "transaction blocks are PostgreSQL's own",
        harmless("io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory"),
    ),
    P(
        "exactly.once.support",
        REFUSED,
        "no sink here takes part in Kafka's transactions",
        harmless("requested"),
    ),
    P("extended.headers.enabled", REFUSED, "headers are those of Debezium 2.1", harmless("false")),
)

_WHY = {
    "one job is one task": ("tasks.max", "tasks.max.enforce"),
    "there is no Connect worker": (
        *("config.action.reload", "transaction.boundary", "transaction.boundary.interval.ms"),
        *("offsets.storage.topic", "group.id", "client.id", "plugin.path"),
        *(
            "plugin.discovery",
            "listeners",
            "rest.<option>",
            "config.storage.<option>",
            "status.storage.<option>",
        ),
        *(
            "internal.key.converter",
            "internal.value.converter",
            "config.providers",
            "config.providers.<option>",
        ),
        *("consumer.<option>", "consumer.override.<option>", "admin.override.<option>"),
        *("task.shutdown.graceful.timeout.ms", "connector.client.config.override.policy"),
    ),
    "positions are saved under tidemark.checkpoint": (
        *("offset.storage", "offset.storage.<option>", "offset.flush.interval.ms", "offset.flush.timeout.ms"),
        *("offset.commit.policy", "offset.mismatch.strategy", "slot.seek.to.known.offset.on.start"),
    ),
    "an event is never skipped; the job stops or tries again": (
        *("errors.tolerance", "errors.log.enable", "errors.log.include.messages", "errors.retry.timeout"),
        *("errors.deadletterqueue.<option>",),
    ),
    "an event is never skipped; its table is set aside, or the job stops: see tidemark.table.errors": (
        *("event.processing.failure.handling.mode", "event.converting.failure.handling.mode"),
    ),
    "a turn is bounded by tidemark.span.max.rows and tidemark.span.max.bytes": (
        *(
            "max.batch.size",
            "max.queue.size",
            "max.queue.size.in.bytes",
            "poll.interval.ms",
            "query.fetch.size",
        ),
        *("queue.provider.type", "record.processing.<option>", "executor.shutdown.timeout.ms"),
        *("task.management.timeout.ms",),
    ),
    "PostgreSQL needs no schema history": (
        *("schema.history.internal", "schema.history.internal.<option>", "include.schema.changes"),
        *("include.schema.comments", "database.history", "database.history.<option>"),
        *("schema.change.event.exclude.list",),
    ),
    "snapshots take no lock that writers notice and read tables in parallel": (
        *("snapshot.locking.mode", "snapshot.locking.mode.custom.name", "snapshot.isolation.mode"),
        *("snapshot.tables.order.by.row.count", "snapshot.query.mode", "snapshot.query.mode.custom.name"),
        *("snapshot.max.threads.multiplier", "legacy.snapshot.max.threads", "streaming.delay.ms"),
        *("snapshot.scan.all.columns.force", "snapshot.mode.configuration.based.<option>"),
    ),
    "progress is logged, not published": (
        *(
            "custom.metric.tags",
            "advanced.metrics.enable",
            "statistics.metrics.enabled",
            "openlineage.integration.<option>",
        ),
        *("openlineage.<option>", "custom.sanitize.pattern"),
    ),
    "it belongs to a property that is refused": ("transforms.<option>", "predicates.<option>"),
    "it has no meaning here": (
        *("topic.cache.size", "table.ignore.builtin", "converted.timezone"),
        *("custom.retriable.exception", "guardrail.collections.max", "guardrail.collections.limit.action"),
        *("create.slot.command.timeout", "connection.validation.timeout.ms", "lsn.flush.timeout.ms"),
        *("lsn.flush.timeout.action", "key.converter.<option>", "value.converter.<option>"),
        *("header.converter.<option>", "internal.<option>", "signal.kafka.consumer.offset.commit.enabled"),
        *("signal.kafka.buffer.batch.size",),
    ),
}

RETRIES = (
    P(
        "retriable.restart.connector.wait.ms",
        APPLIED,
        "longest wait before the job tries again",
        whole(1),
        "10000",
    ),
    P(
        "errors.max.retries",
        APPLIED,
        "how often the job retries after a failure; -1: no limit",
        whole(-1, 2**31 - 1),
        "-1",
    ),
    P("errors.retry.delay.initial.ms", LATER, "first wait after a failure", whole(1), "300"),
    P("errors.retry.delay.max.ms", LATER, "longest wait after a failure", whole(1), "10000"),
)

_OLD = {
    "database.server.name": "topic.prefix",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "schema.whitelist": "schema.include.list",
    "schema.blacklist": "schema.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
    "heartbeat.topics.prefix": "topic.heartbeat.prefix",
    "transaction.topic": "topic.transaction",
}

CONNECT = (
    *FRAME,
    *REFUSALS,
    *RETRIES,
    *(P(name, IGNORED, why) for why, names in _WHY.items() for name in names),
    *(P(old, RENAMED, new) for old, new in _OLD.items()),
)

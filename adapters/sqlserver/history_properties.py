"""The durable schema history: the properties under `schema.history.internal.`, and their settings.

Debezium requires it and keeps it in Kafka by default. Here the tables' schemas are part of the job's own
state, and a history is kept only if a file or a topic is named for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sqlserver.settings import HistoryKind, HistorySettings
from engine.config.properties.row import APPLIED, IGNORED, RENAMED, Property
from engine.config.properties.shapes import TEXT, Shape, whole
from engine.config.sinks.kafka import CONSUMER, PRODUCER, Given, Table, translate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

P = Property
_PREFIX = "schema.history.internal."
_TOPIC, _SERVERS = f"{_PREFIX}kafka.topic", f"{_PREFIX}kafka.bootstrap.servers"
_FILE = f"{_PREFIX}file.filename"
_CLASSES = {
    "io.debezium.storage.file.history.FileSchemaHistory": HistoryKind.FILE,
    "io.debezium.storage.kafka.history.KafkaSchemaHistory": HistoryKind.KAFKA,
    "io.debezium.relational.history.MemorySchemaHistory": HistoryKind.NONE,
}
_CLASS = Shape(
    "one of " + ", ".join(_CLASSES),
    lambda raw: "" if not raw.strip() else (raw.strip() if raw.strip() in _CLASSES else None),
)
_MS = whole(1, 2**31 - 1)

HISTORY = (
    P("schema.history.internal", APPLIED, "where earlier schemas of the tables are kept", _CLASS),
    P(_FILE, APPLIED, "the file of the schema history", TEXT),
    P(_TOPIC, APPLIED, "the topic of the schema history", TEXT),
    P(_SERVERS, APPLIED, "the brokers that have it", TEXT),
    P(
        f"{_PREFIX}kafka.recovery.poll.interval.ms",
        APPLIED,
        "how long one poll waits while the history is read",
        _MS,
        "100",
    ),
    P(f"{_PREFIX}kafka.recovery.attempts", APPLIED, "polls without a record, at most", _MS, "100"),
    P(f"{_PREFIX}kafka.create.timeout.ms", APPLIED, "wait for the topic's creation", _MS, "30000"),
    P(f"{_PREFIX}producer.<option>", APPLIED, "option of its producer, as Java names it"),
    P(f"{_PREFIX}consumer.<option>", APPLIED, "option of its consumer, as Java names it"),
    *(
        P(_PREFIX + name, IGNORED, why)
        for why, names in {
            "table schemas are read from the server, not parsed from DDL": (
                "skip.unparseable.ddl",
                "ddl.filter",
            ),
            "captured tables are recorded, those of all named databases": (
                *("store.only.captured.tables.ddl", "store.only.captured.databases.ddl"),
                "store.only.monitored.tables.ddl",
            ),
            "see schema.history.internal.kafka.recovery.poll.interval.ms": ("kafka.query.timeout.ms",),
        }.items()
        for name in names
    ),
    P("include.schema.comments", IGNORED, "SQL Server's tables have no comments"),
    P("schema.change.event.exclude.list", IGNORED, "there is no DDL to leave out"),
    P("database.history", RENAMED, "schema.history.internal"),
    P("database.history.<option>", RENAMED, "schema.history.internal.<option>"),
)


def history_settings(values: Values) -> HistorySettings:
    """Compose the settings. If no class is named, the property of a file or topic decides which."""
    kind, problems = _kind(values), list[str]()
    producer: dict[str, str] = {}
    consumer: dict[str, str] = {}
    if kind is HistoryKind.KAFKA:
        producer = _client(values, "producer", PRODUCER, problems)
        consumer = _client(values, "consumer", CONSUMER, problems)
    values.problems.extend((*problems, *_missing(values, kind)))
    return HistorySettings(
        kind=kind,
        file=values.get(_FILE, str),
        topic=values.get(_TOPIC, str),
        producer=producer,
        consumer=consumer,
        poll_timeout_ms=values.get(f"{_PREFIX}kafka.recovery.poll.interval.ms", int),
        recovery_attempts=values.get(f"{_PREFIX}kafka.recovery.attempts", int),
        create_timeout_ms=values.get(f"{_PREFIX}kafka.create.timeout.ms", int),
    )


def _kind(values: Values) -> HistoryKind:
    named = values.get("schema.history.internal", str)
    if named:
        return _CLASSES[named]
    if values.get(_TOPIC, str):
        return HistoryKind.KAFKA
    return HistoryKind.FILE if values.get(_FILE, str) else HistoryKind.NONE


def _missing(values: Values, kind: HistoryKind) -> Iterator[str]:
    needed = {
        HistoryKind.FILE: {_FILE: "the file of the schema history"},
        HistoryKind.KAFKA: {_TOPIC: "the topic of the schema history", _SERVERS: "the brokers that have it"},
        HistoryKind.NONE: {},
    }
    for name, meaning in needed[kind].items():
        if values.sure(name) and not values.get(name, str):
            yield f"missing {name!r}: {meaning}"


def _client(values: Values, role: str, table: Table, problems: list[str]) -> dict[str, str]:
    prefix = f"{_PREFIX}{role}."
    options = {
        name: Given(prefix + name, values.given[prefix + name])
        for (name, *_), _value in values.group(f"{prefix}<option>")
    }
    if _SERVERS in values.given:
        options["bootstrap.servers"] = Given(_SERVERS, values.given[_SERVERS])
    client = translate(options, table)
    problems += client.problems
    return client.config

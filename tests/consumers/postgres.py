"""PostgreSQL's events of every type, by both roads, in Kafka: what the consumers' suite reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.consumers import postgres_types
from tests.consumers.postgres_types import COLUMNS, ROWS, SETUP
from tests.consumers.records import consumed
from tests.consumers.rows import Produced
from tests.driven import driven

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

TABLE, OUTBOX = "types", "outbox"
_BEFORE, _MOVED, _DELETED, _LATER = 0, 100, 200, 300
"""Each value is in four rows: read and left alone, read and moved, read and deleted, and written later."""
_KEYS_OF_A_TABLE = 8
_WHOLE_ROWS = f"ALTER TABLE {TABLE} REPLICA IDENTITY FULL"
"""Flink takes no update without the row before it."""
_OUTBOX = (
    f"CREATE TABLE {OUTBOX} (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text,"
    " payload jsonb)"
)
_SENT = (
    f"INSERT INTO {OUTBOX} VALUES (gen_random_uuid(), 'order', 'o-1', 'created', '{{\"total\": 12.50}}'),"
    " (gen_random_uuid(), 'customer', 'c 😀', 'renamed', '{\"name\": \"é😀\"}')"
)


def produce(
    database: Database, broker: KafkaBroker, prefix: str, directory: Path, spark: SparkSession
) -> Produced:
    """Run a job over an initial snapshot and every kind of change, with schemas, into Kafka."""
    database.execute(*SETUP, postgres_types.create(TABLE), _WHOLE_ROWS, *_keyed_tables(), _OUTBOX)
    database.execute(*_rows(_BEFORE), *_rows(_MOVED), *_rows(_DELETED))
    with driven(database, directory, spark, **_properties(broker, prefix)) as job:
        job.until(lambda: not job.job.state.snapshot.tables)
        database.execute(*_changes())
        job.until_drained(database)
    topics = [topic for topic in broker.topics() if topic.startswith(f"{prefix}.")]
    with database.connect() as connection:
        rows = connection.execute(postgres_types.select(TABLE).encode()).fetchall()
    return Produced(consumed(broker, topics), rows)


def _properties(broker: KafkaBroker, prefix: str) -> dict[str, str]:
    return {
        "topic__prefix": prefix,
        "snapshot__mode": "initial",
        "signal__data__collection": "",
        "key__converter__schemas__enable": "true",
        "value__converter__schemas__enable": "true",
        "tidemark__sink": "kafka",
        "producer__bootstrap__servers": broker.bootstrap,
        "topic__creation__default__partitions": "1",
        "topic__creation__default__replication__factor": "1",
    }


def _rows(first: int) -> list[str]:
    return [postgres_types.insert(TABLE, first + row, row) for row in range(ROWS + 1)]


def _changes() -> list[str]:
    """Inserts, and updates, changes of the key and deletes of rows that were read."""
    columns = [column for column in COLUMNS if column.name in {"c_float4", "c_text", "a_float4"}]
    changed = ", ".join(f"{column.name} = {column.values[0]}" for column in columns)
    return [
        *_rows(_LATER),
        f"UPDATE {TABLE} SET {changed} WHERE id >= {_MOVED} AND id % 2 = 0",
        f"UPDATE {TABLE} SET id = id + 1000 WHERE id >= {_MOVED} AND id < {_DELETED}",
        f"DELETE FROM {TABLE} WHERE id >= {_DELETED} AND id < {_LATER}",
        *_key_changes(),
        _SENT,
    ]


def _keyed_tables() -> list[str]:
    """Tables whose keys have every type that has an order."""
    statements = []
    for number, columns in enumerate(_keys()):
        described = ", ".join(f"{column.name} {column.type}" for column in columns)
        names = ", ".join(column.name for column in columns)
        values = ", ".join(column.values[0] for column in columns)
        statements.append(f"CREATE TABLE keys_{number} ({described}, v int, PRIMARY KEY ({names}))")
        statements.append(f"INSERT INTO keys_{number} VALUES ({values}, 1)")
    return statements


def _key_changes() -> list[str]:
    """Each key becomes each of its other values, one after the other."""
    statements = []
    for number, columns in enumerate(_keys()):
        for at in range(1, max(len(column.values) for column in columns)):
            chosen = [column for column in columns if at < len(column.values)]
            changed = ", ".join(f"{column.name} = {column.values[at]}" for column in chosen)
            statements.append(f"UPDATE keys_{number} SET {changed}")
    return statements


def _keys() -> list[tuple[postgres_types.Column, ...]]:
    keyed = [column for column in COLUMNS if column.key and column.agrees]
    return [tuple(keyed[at : at + _KEYS_OF_A_TABLE]) for at in range(0, len(keyed), _KEYS_OF_A_TABLE)]

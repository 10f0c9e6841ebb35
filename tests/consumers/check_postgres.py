"""PostgreSQL's events as Java consumers read them: `make consumers`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.consumers import libraries
from tests.consumers.connect import sink_into
from tests.consumers.postgres import OUTBOX, TABLE, produce
from tests.consumers.postgres_types import COLUMNS, SETUP
from tests.consumers.readers import of_table
from tests.consumers.records import CONSUMER, answers
from tests.consumers.rows import Produced, differences
from tests.consumers.tables import TableReaders
from tests.java.debezium import postgres_properties, running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database, PostgresServer


@pytest.fixture(scope="module")
def source(postgres15: PostgresServer) -> Database:
    """A database on PostgreSQL 15, whose binaries know XML."""
    return postgres15.create_database("consumers")


@pytest.fixture(scope="module")
def produced(
    source: Database, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Produced:
    return produce(source, kafka, "pg", tmp_path_factory.mktemp("postgres"), spark)


class TestPostgreSQL(TableReaders):
    table = TABLE
    columns = COLUMNS


@pytest.mark.parametrize("version", libraries.TRANSFORMS)
def test_events_of_an_outbox_are_routed(produced: Produced, version: str) -> None:
    name = "io.debezium.transforms.outbox.EventRouter"
    read = answers(CONSUMER, [libraries.transforms(version)], of_table(produced.records, OUTBOX), name)

    assert [(event["topic"], event["key"], event["value"]) for event in read] == [
        ("outbox.event.order", "o-1", '{"total": 12.50}'),
        ("outbox.event.customer", "c 😀", '{"name": "é😀"}'),
    ]


def test_a_jdbc_sink_with_default_settings_has_the_table_s_rows(
    produced: Produced, source: Database, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = next(record.topic for record in of_table(produced.records, TABLE))
    target = source.server.create_database("consumers_target")
    target.execute(*SETUP)
    left_out = [f"{topic}:{column.name}" for column in COLUMNS if column.sink is None]

    sink_into(target, kafka, [topic], tmp_path, field__exclude__list=",".join(left_out))

    kept = [column for column in COLUMNS if column.sink is not None]
    expressions = ", ".join((column.sink or "").format(column.name) for column in kept)
    shown = []
    for database, table in ((source, TABLE), (target, topic.replace(".", "_"))):
        with database.connect() as connection:
            query = f"SELECT id::text, {expressions} FROM {table} ORDER BY id"
            shown.append(connection.execute(query.encode()).fetchall())
    names = [column.name for column in kept]
    rows = {key: dict(zip(names, values, strict=True)) for key, *values in shown[1]}
    assert differences(rows, shown[0], kept) == []


def test_keys_and_rows_are_those_that_debezium_sends(
    produced: Produced, source: Database, tmp_path: Path
) -> None:
    """The real one, asked for the rows as they are now: the same key goes to the same partition."""
    ours = {(record.topic, record.key): record.value for record in produced.records}
    ours = {name: value for name, value in ours.items() if value and not name[0].endswith(OUTBOX)}
    properties = postgres_properties(source, topic__prefix="pg", snapshot__mode="initial_only")
    with running({**properties, "table.exclude.list": f"public.{OUTBOX}"}, tmp_path) as engine:
        engine.until(lambda sent: len(sent) >= len(ours))

    theirs = {(event.topic, event.key and event.key.encode()): event.value for event in engine.sent}
    assert sorted(theirs, key=str) == sorted(ours, key=str)
    assert [name for name in ours if agreed(ours[name]) != agreed(theirs[name])] == []


def agreed(value: str | bytes | None) -> list[tuple[Any, Any]]:
    """The schema and the value of each field of a row, numbers as text; DEBEZIUM.md tells of the others."""
    left_out = {column.name for column in COLUMNS if not column.agrees}
    event = json.loads(value or b"", parse_int=str, parse_float=str)
    fields = next(field for field in event["schema"]["fields"] if field["field"] == "after")["fields"]
    after = event["payload"]["after"]
    return [(field, after[field["field"]]) for field in fields if field["field"] not in left_out]

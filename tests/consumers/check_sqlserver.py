"""SQL Server's events as Java consumers read them, from the stand-in: `make consumers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.consumers import sqlserver_types
from tests.consumers.connect import sink_into
from tests.consumers.readers import of_table
from tests.consumers.records import consumed
from tests.consumers.rows import Produced, differences
from tests.consumers.sqlserver_types import COLUMNS, ROWS
from tests.consumers.tables import TableReaders
from tests.driven_sqlserver import driven_sqlserver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import PostgresServer
    from tests.servers.sqlserver import SqlServer, StandInDatabase

TABLE = "types"
_BEFORE, _MOVED, _DELETED, _LATER = 0, 100, 200, 300
"""Each value is in four rows: read and left alone, read and moved, read and deleted, and written later."""


@pytest.fixture(scope="module")
def server(sqlserver_session: SqlServer) -> Iterator[SqlServer]:
    sqlserver_session.reset()
    yield sqlserver_session
    sqlserver_session.reset()


@pytest.fixture(scope="module")
def produced(
    server: SqlServer, kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> Produced:
    shop = server.create_database("shop")
    shop.execute(sqlserver_types.create(f"dbo.{TABLE}"))
    shop.enable_cdc(f"dbo.{TABLE}")
    for first in (_BEFORE, _MOVED, _DELETED):
        _insert(shop, first)
    shop.capture()
    properties = {
        "topic__prefix": "ms",
        "snapshot__mode": "initial",
        "snapshot__isolation__mode": "exclusive",
        "tombstones__on__delete": "true",
        "key__converter__schemas__enable": "true",
        "value__converter__schemas__enable": "true",
        "tidemark__sink": "kafka",
        "producer__bootstrap__servers": kafka.bootstrap,
        "topic__creation__default__partitions": "1",
        "topic__creation__default__replication__factor": "1",
    }
    with driven_sqlserver(server, tmp_path_factory.mktemp("sqlserver"), spark, **properties) as job:
        job.until(lambda: not job.job.state.snapshot.initial)
        job.job.turn()  # which lets go of locks
        _insert(shop, _LATER)
        shop.execute(f"UPDATE dbo.{TABLE} SET re = 9999999, nv = N'😀' WHERE id >= {_MOVED} AND id % 2 = 0")
        shop.execute(f"UPDATE dbo.{TABLE} SET id = id + 1000 WHERE id >= {_MOVED} AND id < {_DELETED}")
        shop.execute(f"DELETE FROM dbo.{TABLE} WHERE id >= {_DELETED} AND id < {_LATER}")
        shop.capture()
        job.until_streamed(shop)
    rows = [sqlserver_types.meant(row) for row in shop.query(sqlserver_types.select(f"dbo.{TABLE}"))]
    topics = [topic for topic in kafka.topics() if topic.startswith("ms.")]
    return Produced(consumed(kafka, topics), rows)


def _insert(shop: StandInDatabase, first: int) -> None:
    for row in range(ROWS + 1):
        shop.execute(sqlserver_types.insert(f"dbo.{TABLE}", first + row, row))


class TestSqlServer(TableReaders):
    table = TABLE
    columns = COLUMNS


def test_a_jdbc_sink_with_default_settings_has_the_table_s_rows(
    produced: Produced, postgres15: PostgresServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    topic = next(record.topic for record in of_table(produced.records, TABLE))
    target = postgres15.create_database("consumers_of_sqlserver")

    sink_into(target, kafka, [topic], tmp_path)

    kept = [column for column in COLUMNS if column.sink]
    names = [column.name for column in kept]
    query = f"SELECT id::text, {', '.join(f'{name}::text' for name in names)} FROM {topic.replace('.', '_')}"
    with target.connect() as connection:
        found = connection.execute(query.encode()).fetchall()
    rows = {key: dict(zip(names, values, strict=True)) for key, *values in found}
    shown = [
        (row[0], *(value for value, column in zip(row[1:], COLUMNS, strict=True) if column.sink))
        for row in produced.rows
    ]
    assert differences(rows, shown, kept) == []

"""A sink that takes columns, end to end: typed changes of the stream give the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pyarrow as pa
import pytest
from psycopg.rows import dict_row

from engine.events.batch import EVENTS
from tests.column_sink import ColumnSink, merged
from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
TABLE = """CREATE TABLE t (
    id int PRIMARY KEY, price numeric(12, 2), at timestamp, day date, ok boolean, bytes bytea, note text)"""
ROWS = """INSERT INTO t
    SELECT n, n / 4.0, timestamp '2024-02-29 12:00' + n * interval '1 ms', date '1999-12-31' + n, n % 2 = 0,
        decode(to_hex(1000 + n), 'escape'), nullif('note ' || n, 'note 7')
    FROM generate_series({}, {}) n"""
TOPIC = "tm.public.t"


def rows_of(connection: psycopg.Connection[Any]) -> dict[Any, dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return {row["id"]: row for row in cursor.execute("SELECT * FROM t").fetchall()}


def change(connection: psycopg.Connection[Any]) -> None:
    """Inserts, updates, deletes and a changed key."""
    connection.execute("UPDATE t SET price = -price, note = 'new' WHERE id % 5 = 0")
    connection.execute("DELETE FROM t WHERE id % 7 = 0")
    connection.execute("UPDATE t SET id = id + 100000 WHERE id = 11")


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ColumnSink:
    made = ColumnSink(tmp_path / "columns")
    monkeypatch.setattr("adapters.source.wiring.make_sink", lambda *_given, **_named: made)
    return made


def test_typed_changes_give_the_table(
    database: Database, tmp_path: Path, spark: SparkSession, sink: ColumnSink
):
    """45,000 entries at once are encoded on the executors, the others in the driver."""
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute(TABLE)
        with driven(database, tmp_path, spark, skipped__operations="none") as job:
            connection.execute(ROWS.format(1, 10))
            connection.execute("TRUNCATE t")
            connection.execute(ROWS.format(1, 45_000))
            job.until_drained(database)
            change(connection)
            job.until_drained(database)
        assert merged(sink.batches(), TOPIC) == rows_of(connection)
    tables = [batch for batch in sink.batches() if batch.schema != EVENTS]
    (member,) = orjson.loads(tables[0].schema.field("key").metadata[b"schema"])["fields"]

    assert (member["field"], member["type"]) == ("id", "int32")
    assert tables[0].schema.field("after").type.field("price").type == pa.decimal128(12, 2)
    assert {"t", "c", "u", "d", None} == {op for batch in tables for op in batch.column("op").to_pylist()}

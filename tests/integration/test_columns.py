"""A sink that takes columns, end to end: typed rows of snapshots and of the stream give the table."""

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
SNAPSHOT = b"""INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
SETTINGS = {
    "snapshot__mode": "initial",
    "incremental__snapshot__chunk__size": "10",
    "tidemark__window__max__chunks": "4",
    "provide__transaction__metadata": "true",
    "skipped__operations": "none",
    "sanitize__field__names": "false",
}
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
    monkeypatch.setattr("adapters.source.assembly.job.make_sink", lambda *_given, **_named: made)
    return made


def test_the_columns_of_snapshots_and_of_the_stream_give_the_table(
    database: Database, tmp_path: Path, spark: SparkSession, sink: ColumnSink
):
    with database.connect() as connection:
        for statement in (SIGNAL_TABLE, TABLE):
            connection.execute(statement)
        connection.execute(ROWS.format(1, 95))
        with driven(database, tmp_path, spark, **SETTINGS) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            change(connection)
            connection.execute(ROWS.format(96, 120))
            connection.execute(SNAPSHOT)
            change(connection)
            job.until(lambda: any(answer.id == "s" for answer in job.answered("finished")))
            job.until_drained(database)
        batches = sink.batches()
        assert merged(batches, TOPIC) == rows_of(connection)
        connection.execute("DROP TABLE signals")

    tables = [
        batch
        for batch in batches
        if batch.schema != EVENTS and batch.schema.metadata[b"topic"] == TOPIC.encode()
    ]
    (schema,) = {batch.schema.serialize().to_pybytes(): batch.schema for batch in tables}.values()
    assert schema.field("after").type.field("price").type == pa.decimal128(12, 2)
    assert [field["field"] for field in orjson.loads(schema.field("key").metadata[b"schema"])["fields"]] == [
        "id"
    ]
    events = [event for batch in tables for event in batch.to_pylist()]
    assert {event["op"] for event in events} == {"r", "c", "u", "d", None}
    reads = [event["source"]["snapshot"] for event in events if event["op"] == "r"]
    assert (reads[0], reads[94]) == ("first_in_data_collection", "last")
    assert {*reads[1:94]} == {"true"}
    assert {*reads[95:]} == {"incremental"}
    assert any(batch.schema == EVENTS and batch.num_rows for batch in batches)


def test_a_large_span_is_typed_on_the_executors_and_a_truncate_is_a_row(
    database: Database, tmp_path: Path, spark: SparkSession, sink: ColumnSink
):
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute(TABLE)
        with driven(database, tmp_path, spark, skipped__operations="none") as job:
            connection.execute(ROWS.format(1, 10))
            connection.execute("TRUNCATE t")
            connection.execute(ROWS.format(1, 45_000))
            job.until_drained(database)
        assert merged(sink.batches(), TOPIC) == rows_of(connection)
    assert "t" in {
        op for batch in sink.batches() if batch.schema != EVENTS for op in batch.column("op").to_pylist()
    }

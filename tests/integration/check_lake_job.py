"""A job with the sinks `delta` and `iceberg` on a real server: tables equal their sources. `make lake`."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from adapters.lake.table_name import TableName
from adapters.lakehouse.formats import dialect_of
from adapters.lakehouse.settings import LakeFormat, LakeSettings
from engine.config import parse
from tests.driven import SIGNAL_TABLE, driven, properties

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

TABLE = """CREATE TABLE items (
    id bigint PRIMARY KEY, name text, price numeric(12, 2), huge numeric, small smallint, at timestamp,
    zoned timestamptz, day date, data bytea, tags text[], doc jsonb, kind uuid, big text,
    real4 real, real8 double precision, flag boolean, clock time)"""
ROWS = """INSERT INTO items SELECT n, 'name ' || n, n / 4.0, n * 1e20, n % 100,
        timestamp '2024-02-29 12:00' + n * interval '1 microsecond', timestamptz '2024-02-29 12:00+02',
        date '2024-01-01' + n::int, decode(lpad(to_hex(n), 8, '0'), 'hex'), ARRAY['a', NULL, n::text],
        jsonb_build_object('n', n), md5(n::text)::uuid, repeat(md5(n::text), 200), n / 3.0, n / 3.0,
        n % 2 = 0, time '12:34:56.789012'
    FROM generate_series({}, {}) n"""
SHOWN = """SELECT id, name, price, huge::text, small, at::text, day::text, encode(data, 'hex'), tags::text,
    doc::jsonb::text, kind::text, big, real4::float8, real8, flag FROM items ORDER BY id"""


def lake_settings(kind: LakeFormat, directory: Path, **more: str) -> dict[str, str]:
    return {
        "tidemark__sink": str(kind),
        "tidemark__sink__lake__warehouse": str(directory / "lake"),
        "skipped__operations": "none",
        "snapshot__mode": "initial",
        **more,
    }


class Tables:
    """What the tables hold."""

    def __init__(self, spark: SparkSession, properties: Mapping[str, str]) -> None:
        made = parse(properties).sink_as(LakeSettings)
        self._dialect: Any = dialect_of(made.format, made, "reader")
        self._spark = spark.newSession()
        for option, value in {**self._dialect.conf, "spark.sql.session.timeZone": "UTC"}.items():
            self._spark.conf.set(option, value)

    def read(self, name: str) -> DataFrame:
        return self._spark.table(self._dialect.target(TableName("", name)))

    def has_rows(self, name: str) -> bool:
        """Whether there is the table, with a row."""
        try:
            return not self.read(name).isEmpty()
        except AnalysisException:
            return False


def drained(job: Any, directory: Path) -> None:
    """Wait until all turns are merged."""
    deadline = time.monotonic() + 300
    while any((directory / "state" / "lake").glob("turn-*")):
        assert time.monotonic() < deadline
        job.job.turn()


@pytest.mark.parametrize("kind", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_a_table_equals_its_source_through_snapshot_changes_evolution_and_odd_values(
    database: Database, tmp_path: Path, lake_spark: SparkSession, kind: LakeFormat
):
    settings = lake_settings(kind, tmp_path)
    tables = Tables(lake_spark, properties(database, tmp_path, **settings))
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute(TABLE)
        connection.execute(ROWS.format(1, 500))
        with driven(database, tmp_path, lake_spark, **settings) as job:
            job.until(lambda: not job.job.state.snapshot.tables, 300)
            drained(job, tmp_path)
            assert shown(tables) == connection.execute(SHOWN).fetchall()
            connection.execute("UPDATE items SET price = -price WHERE id % 3 = 0")
            connection.execute("DELETE FROM items WHERE id % 5 = 0")
            connection.execute("UPDATE items SET id = id + 10000 WHERE id < 20")
            job.until_drained(database)
            drained(job, tmp_path)
            assert shown(tables) == connection.execute(SHOWN).fetchall()
            connection.execute("ALTER TABLE items ADD COLUMN more text")
            connection.execute("ALTER TABLE items ALTER COLUMN small TYPE int")
            connection.execute("UPDATE items SET more = 'x' || id, small = 100000 WHERE id < 100")
            connection.execute(
                "UPDATE items SET day = 'infinity', at = '-infinity', real8 = 'NaN',"
                " real4 = '-Infinity', price = 'NaN', huge = '-Infinity' WHERE id = 101"
            )
            connection.execute("UPDATE items SET day = '0044-03-15 BC', at = '10001-01-01' WHERE id = 102")
            job.until_drained(database)
            drained(job, tmp_path)

    rows = {row["id"]: row for row in tables.read("tm_public_items").collect()}
    assert (rows[101]["day"], rows[101]["day__text"]) == (None, "infinity")
    assert (rows[101]["at"], rows[101]["at__text"]) == (None, "-infinity")
    assert (rows[102]["day"], rows[102]["day__text"]) == (None, "-0043-03-15")
    assert (str(rows[101]["real8"]), rows[101]["real4"]) == ("nan", float("-inf"))
    assert (rows[101]["price"], rows[101]["price__text"], rows[101]["huge"]) == (None, "NaN", "-Infinity")
    assert (rows[102]["price__text"], "huge__text" in rows[102]) == (None, False)
    assert (rows[51]["more"], rows[51]["small"], rows[201]["more"]) == ("x51", 100000, None)
    assert rows[51]["price"] == Decimal("-12.75")
    assert tables.read("tm_public_items").count() == len(rows)


def shown(tables: Tables) -> list[tuple[Any, ...]]:
    """The rows as PostgreSQL shows them."""
    frame = tables.read("tm_public_items").selectExpr(
        *("id", "name", "price", "huge", "small", "date_format(at, 'yyyy-MM-dd HH:mm:ss.SSSSSS') at"),
        *("string(day)", "lower(hex(data))", "tags", "doc", "kind", "big", "double(real4)", "real8", "flag"),
    )
    found = []
    for row in sorted(tuple(row) for row in frame.collect()):
        made = list(row)
        made[5] = made[5].rstrip("0").rstrip(".")
        made[8] = "{" + ",".join("NULL" if item is None else item for item in made[8]) + "}"
        found.append(tuple(made))
    return found


@pytest.mark.parametrize("kind", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_a_history_has_each_change_and_tables_may_come_later(
    database: Database, tmp_path: Path, lake_spark: SparkSession, kind: LakeFormat
):
    settings = lake_settings(kind, tmp_path, tidemark__sink__lake__mode="append")
    tables = Tables(lake_spark, properties(database, tmp_path, **settings))
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE items (id int PRIMARY KEY, note text)")
        connection.execute("ALTER TABLE items REPLICA IDENTITY FULL")
        connection.execute("INSERT INTO items VALUES (1, 'a'), (2, 'b')")
        with driven(database, tmp_path, lake_spark, **settings) as job:
            job.until(lambda: not job.job.state.snapshot.tables, 300)
            connection.execute("UPDATE items SET note = 'c' WHERE id = 1")
            connection.execute("DELETE FROM items WHERE id = 2")
            connection.execute("TRUNCATE items")
            connection.execute("CREATE TABLE later (id int PRIMARY KEY)")
            connection.execute("INSERT INTO later VALUES (7)")
            job.until_drained(database)
            drained(job, tmp_path)

    rows = tables.read("tm_public_items").orderBy("_sequence").collect()
    assert [(row["id"], row["note"], row["_operation"]) for row in rows] == [
        (1, "a", "r"),
        (2, "b", "r"),
        (1, "c", "u"),
        (2, "b", "d"),
        (None, None, "t"),
    ]
    assert all(row["_committed_at"] is not None for row in rows)
    assert rows[2]["_source"]["txId"] != rows[3]["_source"]["txId"]
    assert rows[2]["_source"]["lsn"] < rows[3]["_source"]["lsn"]
    assert [row["id"] for row in tables.read("tm_public_later").collect()] == [7]

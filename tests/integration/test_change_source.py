"""Spark reads the changes of a real job: typed rows that give the table, each exactly once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import tidemark
from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
TOPIC = "tm.public.t"
CHANGE_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "_sequence")
TYPES: dict[str, tuple[str, str, tuple[str, ...], str, str]] = {
    # column: type in PostgreSQL, type in Spark, values, what both sides show: PostgreSQL's SQL, Spark's SQL
    "flag": ("boolean", "boolean", ("true", "false"), "{}::text", "string({})"),
    "small": ("smallint", "smallint", ("-32768", "32767"), "{}::text", "string({})"),
    "whole": ("int", "int", ("-2147483648", "2147483647"), "{}::text", "string({})"),
    "long": (
        *("bigint", "bigint", ("-9223372036854775808", "9223372036854775807")),
        *("{}::text", "string({})"),
    ),
    "single": ("real", "float", ("0.1", "'NaN'", "'-Infinity'"), "{}::text", "string({})"),
    "precise": ("float8", "double", ("0.1", "'NaN'", "'Infinity'"), "{}::text", "string({})"),
    "price": ("numeric(12, 2)", "decimal(12,2)", ("-1234567890.12", "0.01"), "{}::text", "string({})"),
    "most": (
        *("numeric(38, 4)", "decimal(38,4)", ("-9999999999999999999999999999999999.9999",)),
        *("{}::text", "string({})"),
    ),
    "longer": (
        *(
            "numeric(50, 9)",
            "string",
            ("12345678901234567890123456789012345678901.123456789", "-0.000000001"),
        ),
        *("{}::text", "{}"),
    ),
    "any_scale": (
        *("numeric", "string", ("-0.0000000123", "98765432109876543210987654321098765432109876.5", "100")),
        *("trim_scale({})::text", "{}"),
    ),
    "word": ("text", "string", ("'é😀 \"quoted\" \\ ' || chr(10) || chr(31)", "''"), "{}", "{}"),
    "short": ("varchar(20)", "string", ("'short'",), "{}", "{}"),
    "bytes": ("bytea", "binary", (r"'\x00ff'", r"'\x'"), "encode({}, 'hex')", "lower(hex({}))"),
    "document": ("jsonb", "string", ("""'{"a": [1, null]}'""",), "{}::text", "{}"),
    "plain": ("json", "string", ("""'{"b": 1}'""",), "{}::text", "{}"),
    "mood": ("mood", "string", ("'sad'", "'it''s'"), "{}::text", "{}"),
    "clock": (
        *("time", "bigint", ("'00:00:00.000001'", "'24:00:00'")),
        *("(extract(epoch FROM {}) * 1000000)::bigint::text", "string({})"),
    ),
    "ident": ("uuid", "string", ("'01234567-89ab-cdef-0123-456789abcdef'",), "{}::text", "{}"),
    "day": (
        *("date", "date", ("'0001-01-01'", "'9999-12-31'", "'infinity'", "'-infinity'", "'10000-01-01'")),
        *("{}::text", "coalesce(string({0}), {0}__text)"),
    ),
    "at": (
        *("timestamp", "timestamp_ntz"),
        ("'0001-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'", "'infinity'", "'-infinity'"),
        *("{}::text", "coalesce(string({0}), {0}__text)"),
    ),
    "at_millis": (
        *("timestamp(3)", "timestamp_ntz", ("'2024-02-29 12:00:00.123'", "'infinity'")),
        *("{}::text", "coalesce(string({0}), {0}__text)"),
    ),
    "zoned": (
        *("timestamptz", "string", ("'2024-02-29 12:00:00.123456+02'",)),
        """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
        "{}",
    ),
    "numbers": ("int[]", "array<int>", ("'{1,NULL,3}'", "'{}'"), "to_json({})::text", "to_json({})"),
    "words": ("text[]", "array<string>", ("""'{"a","b c"}'""",), "to_json({})::text", "to_json({})"),
}


@pytest.fixture(autouse=True)
def reading(spark: SparkSession) -> Iterator[None]:
    """The format is known, and small results are not spread over hundreds of tasks."""
    tidemark.register_format(spark)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.unset("spark.sql.shuffle.partitions")


def shown(value: str | None) -> str | None:
    """Numbers as text have many forms: floats of Java, decimals with fewer zeros."""
    names = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}
    if value is None or value in names:
        return value and names[value]
    try:
        return str(float(value)) if "." in value or "E" in value else value
    except ValueError:
        return value


def create(connection: psycopg.Connection[Any]) -> int:
    """The table, with a row of nulls and one for each of a type's values; returns the number of rows."""
    columns = ", ".join(f"{name} {kind[0]}" for name, kind in TYPES.items())
    connection.execute(SIGNAL_TABLE)
    connection.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s')")
    connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    connection.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    rows = max(len(kind[2]) for kind in TYPES.values())
    connection.execute("INSERT INTO t (id) VALUES (0)")
    for row in range(rows):
        values = ", ".join(kind[2][row % len(kind[2])] for kind in TYPES.values())
        connection.execute(f"INSERT INTO t (id, {', '.join(TYPES)}) VALUES ({row + 1}, {values})")
    return rows + 1


def latest(changes: DataFrame) -> DataFrame:
    """The rows that a table's changes leave: the last change of each key, unless it is a delete."""
    images = changes.filter("_change_type <> 'update_preimage'")
    columns = [name for name in changes.columns if name not in CHANGE_COLUMNS]
    return (
        images.groupBy("id")
        .agg({"_sequence": "max"})
        .withColumnsRenamed({"max(_sequence)": "_sequence", "id": "_id"})
        .join(images, "_sequence")
        .filter("_change_type <> 'delete'")
        .select(*columns)
    )


def changes_in(spark: SparkSession, job: Driven) -> DataFrame:
    return spark.read.format("tidemark").option("topic", TOPIC).load(str(job.directory / "events"))


def as_records(spark: SparkSession, events: Path) -> DataFrame:
    """The events of a directory as Spark's Kafka source gives records."""
    values = [
        line[line.index(b',"value":') + len(b',"value":') : line.rindex(b',"headers":')]
        for part in sorted(events.glob("turn-*/part-*.jsonl"))
        for line in part.read_bytes().splitlines()
        if line.lstrip().startswith(b'{"topic":"' + TOPIC.encode() + b'",')
    ]
    now = datetime.now(UTC)
    rows = [(TOPIC, 0, at, now, None if text == b"null" else text) for at, text in enumerate(values)]
    columns = "topic string, partition int, offset bigint, timestamp timestamp, value binary"
    return spark.createDataFrame(rows, columns)


def settings(**more: str) -> dict[str, str]:
    return {"value__converter__schemas__enable": "true", "snapshot__mode": "initial", **more}


def test_every_type_is_read_as_the_source_has_it_from_a_snapshot_and_from_the_stream(
    database: Database, tmp_path: Path, spark: SparkSession
):
    with database.connect() as connection:
        rows = create(connection)
        with driven(database, tmp_path, spark, **settings()) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            connection.execute("INSERT INTO signals VALUES ('s')")
            connection.execute(
                f"INSERT INTO t SELECT id + 100, {', '.join(TYPES)} FROM t ORDER BY id"  # the same, streamed
            )
            connection.execute("DELETE FROM t WHERE id = 1")
            connection.execute("UPDATE t SET word = 'new' WHERE id = 2")
            connection.execute("UPDATE t SET id = 1000 WHERE id = 3")
            job.until_drained(database)
        in_source = [f"{kind[3].format(name)} AS {name}" for name, kind in TYPES.items()]
        cursor = connection.execute(f"SELECT id, {', '.join(in_source)} FROM t ORDER BY id")
        wanted = [(row[0], *map(shown, row[1:])) for row in cursor.fetchall()]

    changes = changes_in(spark, job)
    types = {field.name: field.dataType.simpleString() for field in changes.schema}
    assert {name: types[name] for name in TYPES} == {name: kind[1] for name, kind in TYPES.items()}
    in_spark = [f"{kind[4].format(name)} AS {name}" for name, kind in TYPES.items()]
    found = latest(changes).selectExpr("id", *in_spark).orderBy("id").collect()
    assert [(row[0], *map(shown, row[1:])) for row in found] == wanted
    assert len(wanted) == 2 * rows - 1
    counts = {row[0]: row[1] for row in changes.groupBy("_change_type").count().collect()}
    assert counts == {
        "insert": 2 * rows + 1,
        "delete": 2,
        "update_preimage": 1,
        "update_postimage": 1,
    }
    records = as_records(spark, job.directory / "events")
    schema = tidemark.change_schema(records, TOPIC)
    assert schema == changes.schema
    from_records = tidemark.change_rows(records, TOPIC, schema).drop(*CHANGE_COLUMNS[1::2]).collect()
    assert sorted(map(str, from_records)) == sorted(map(str, changes.drop(*CHANGE_COLUMNS[1::2]).collect()))


@pytest.mark.thorough
def test_a_query_that_fails_and_is_started_again_has_each_change_exactly_once(
    database: Database, tmp_path: Path, spark: SparkSession
):
    seen: dict[int, list[Any]] = {}

    def run(*, crashes: bool = False) -> None:
        def batch(rows: DataFrame, number: int) -> None:
            found = sorted((tuple(row["_sequence"]), row["id"]) for row in rows.collect())
            # A batch that is taken again has the same rows.
            assert seen.setdefault(number, found) == found
            if crashes:
                raise RuntimeError("crash")

        stream = spark.readStream.format("tidemark").option("topic", TOPIC).load(str(tmp_path / "events"))
        query = (
            stream.writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(tmp_path / "query"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)

    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int)")
        connection.execute("INSERT INTO t SELECT n, n FROM generate_series(1, 5000) n")
        with driven(database, tmp_path, spark, **settings()) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            with pytest.raises(Exception, match="crash"):
                run(crashes=True)
            run()
            connection.execute("UPDATE t SET v = v + 1 WHERE id <= 100")
            job.until_drained(database)
            connection.execute("DELETE FROM t WHERE id <= 50")
            job.until_drained(database)
            run()

    streamed = [row for number in sorted(seen) for row in seen[number]]
    wanted = changes_in(spark, job).select("_sequence", "id").collect()
    assert streamed == sorted(streamed)
    assert sorted(streamed) == sorted((tuple(row[0]), row[1]) for row in wanted)
    assert len(streamed) == 5000 + 100 + 50
    assert len(seen) == 2

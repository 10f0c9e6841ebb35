"""Keys of every kind on real servers: whatever they are and change to, replay gives the source."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest

from tests.driven import SIGNAL_TABLE, Driven, driven
from tests.keys import ICU, KINDS, PREPARED, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]
Connection = psycopg.Connection[tuple[Any, ...]]
SMALL_WINDOWS = {
    "incremental__snapshot__chunk__size": "2",
    "tidemark__window__max__chunks": "8",
    "include__unknown__datatypes": "true",
    # As decimals NaN and the infinities are all null.
    "decimal__handling__mode": "string",
}
UNAVAILABLE = "__debezium_unavailable_value"


def snapshot(connection: Connection, *names: str, **more: str) -> None:
    data = orjson.dumps({"data-collections": [f"public.{name}" for name in names], **more}).decode()
    connection.execute("INSERT INTO signals VALUES ('s', 'execute-snapshot', %s)", [data])


def consumed(events: list[dict[str, Any]]) -> dict[bytes, dict[str, Any]]:
    """What a consumer holds of one table, by the event's key; no row may go back to an older version."""
    rows: dict[bytes, dict[str, Any]] = {}
    newest: dict[int, int] = defaultdict(int)
    for event in events:
        key, value = orjson.dumps(event["key"]), event["value"]
        if value is None or value["op"] == "d":
            rows.pop(key, None)
            continue
        row = value["after"]
        assert newest[row["n"]] <= row["v"], event
        newest[row["n"]] = row["v"]
        if row.get("body") == UNAVAILABLE:
            row = {**row, "body": rows.get(key, row)["body"]}
        rows[key] = row
    return rows


@dataclass(frozen=True)
class Keyed:
    """A table of rows that are told apart by `n` and whose version is `v`, under a key of one kind."""

    name: str
    kinds: tuple[Kind, ...]

    def make(self, connection: Connection) -> None:
        columns = [f'"k {at}" {kind.type}' for at, kind in enumerate(self.kinds)]
        connection.execute(
            f"CREATE TABLE {self.name} ({', '.join(columns)}, n serial UNIQUE, v int DEFAULT 1,"
            f" PRIMARY KEY ({self.columns}))".encode()
        )
        for value in self.kinds[-1].values:
            self.insert(connection, [kind.values[0] for kind in self.kinds[:-1]] + [value])

    @property
    def columns(self) -> str:
        return ", ".join(f'"k {at}"' for at in range(len(self.kinds)))

    def insert(self, connection: Connection, key: list[str]) -> None:
        values = ", ".join(["%s"] * len(key))
        connection.execute(
            f"INSERT INTO {self.name} ({self.columns}) VALUES ({values}) ON CONFLICT DO NOTHING".encode(), key
        )

    def change(self, connection: Connection, chance: random.Random) -> None:
        """Any change of one row: its version alone, its key to another or to another text of the same."""
        kind, column = self.kinds[-1], f'"k {len(self.kinds) - 1}"'
        number = f"(SELECT n FROM {self.name} ORDER BY hashint4(n + {chance.randrange(99)}) LIMIT 1)"
        match chance.randrange(8):
            case 0:
                connection.execute(f"DELETE FROM {self.name} WHERE n = {number}".encode())
            case 1 | 2:
                self.insert(connection, [chance.choice(kind.values) for kind in self.kinds])
            case 3 | 4:
                sets = f"SET {column} = %s, v = v + 1 WHERE n = {number}"
                connection.execute(f"UPDATE {self.name} {sets}".encode(), [chance.choice(kind.values)])
            case 5 | 6 if kind.alike:
                one, other = chance.sample(chance.choice(kind.alike), 2)
                sets = f"SET {column} = %s, v = v + 1 WHERE {column}::text = %s"
                connection.execute(f"UPDATE {self.name} {sets}".encode(), [other, one])
            case _:
                connection.execute(f"UPDATE {self.name} SET v = v + 1 WHERE n = {number}".encode())


@pytest.fixture
def prepared(each_database: Database) -> Iterator[tuple[Database, Connection]]:
    """A database with the types that keys may have."""
    with each_database.connect() as connection:
        connection.prepare_threshold = None
        connection.execute(SIGNAL_TABLE)
        connection.execute(PREPARED)
        if each_database.server.version < 18:
            connection.execute(ICU)
        yield each_database, connection


def keyed_tables(version: int) -> list[Keyed]:
    kinds = [kind for kind in KINDS if kind.on(version)]
    single = [Keyed(f"one_{at}", (kind,)) for at, kind in enumerate(kinds)]
    mixed = [Keyed(f"two_{at}", (kinds[at - 1], kind)) for at, kind in enumerate(kinds) if at % 3 == 0]
    wide = [Keyed(f"wide_{at}", tuple(kinds[at : at + 8])) for at in range(0, len(kinds) - 8, 8)]
    return [*single, *mixed, *wide]


def test_replay_gives_the_source_whatever_the_keys_are_and_change_to(
    prepared: tuple[Database, Connection], tmp_path: Path, spark: SparkSession
):
    database, connection = prepared
    tables, chance = keyed_tables(database.server.version), random.Random(4)
    for table in tables:
        table.make(connection)
    with driven(database, tmp_path, spark, **{**SMALL_WINDOWS, "tidemark__window__max__chunks": "16"}) as job:
        snapshot(connection, "one_.*", "two_.*", "wide_.*")

        def finished() -> bool:
            for table in chance.sample(tables, 6):
                try:
                    table.change(connection, chance)
                except psycopg.errors.UniqueViolation:
                    continue
            return len(job.answered("finished")) == len(tables)

        job.until(finished, timeout_s=240)
        job.until_drained(database)

    by_topic = defaultdict(list)
    for event in job.events():
        by_topic[event["topic"]].append(event)
    for table in tables:
        events = by_topic[f"tm.public.{table.name}"]
        held = sorted((row["n"], row["v"]) for row in consumed(events).values())
        there = connection.execute(f"SELECT n, v FROM {table.name} ORDER BY n".encode()).fetchall()

        assert held == there, table
    assert sum(event["value"] is not None and event["value"]["op"] == "r" for event in job.events()) > 100


def windowed(
    job: Driven, database: Database, connection: Connection, statement: str, **more: str
) -> dict[bytes, dict[str, Any]]:
    """What a consumer holds of `t` after a statement that ran in the window that reads it."""
    snapshot(connection, "t", **more)
    job.until(lambda: job.job.window is not None)
    connection.execute(statement.encode())
    job.until_answered("finished")
    job.until_drained(database)
    return consumed(job.events("t"))


@pytest.mark.parametrize(
    ("type_", "one", "same"),
    [
        ("numeric", "1.0", "1.00"),
        ("apart.citext", "a", "A"),
        ("float8", "0", "-0"),
        ("interval", "1 mon", "30 days"),
    ],
)
def test_a_large_value_follows_a_row_to_another_text_of_the_same_key(
    prepared, tmp_path, spark, type_, one, same
):
    database, connection = prepared
    connection.execute(f"CREATE TABLE t (k {type_} PRIMARY KEY, n int, v int DEFAULT 1, body text)".encode())
    connection.execute("ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
    connection.execute("INSERT INTO t VALUES (%s, 1, 1, repeat('large ', 2000))", [one])
    with driven(database, tmp_path, spark) as job:
        held = windowed(job, database, connection, f"UPDATE t SET k = '{same}', v = 2")

    assert [(row["v"], len(row["body"])) for row in held.values()] == [(2, 12000)]


class TestRenamed:
    """A label of an enum is renamed or added while a table is read by it."""

    @pytest.mark.parametrize(
        "statement",
        ["RENAME VALUE 'low' TO 'least'", "RENAME VALUE 'high' TO 'most'", "ADD VALUE 'more' BEFORE 'low'"],
    )
    def test_the_table_is_read_anew(self, prepared, tmp_path, spark, statement):
        database, connection = prepared
        connection.execute("CREATE TABLE t (k level, n int, v int DEFAULT 1, PRIMARY KEY (k, n))")
        connection.execute(
            "INSERT INTO t SELECT (ARRAY['low', 'mid', 'high'])[1 + g % 3]::level, g"
            " FROM generate_series(1, 60) g"
        )
        small = {**SMALL_WINDOWS, "tidemark__window__max__chunks": "4"}
        with driven(database, tmp_path, spark, **small) as job:
            snapshot(connection, "t")
            job.until(lambda: len(job.events("t")) >= 8)
            connection.execute(f"ALTER TYPE level {statement}".encode())
            job.until_answered("finished")

            reads = {
                (event["value"]["after"]["k"], event["value"]["after"]["n"]) for event in job.events("t")
            }
            assert reads.issuperset(connection.execute("SELECT k::text, n FROM t").fetchall())


class TestGenerated:
    def make(self, connection: Connection, identity: str) -> None:
        connection.execute(
            "CREATE TABLE t (n int, v int DEFAULT 1, k int GENERATED ALWAYS AS (n % 1000) STORED PRIMARY KEY)"
        )
        connection.execute(f"ALTER TABLE t REPLICA IDENTITY {identity}".encode())
        connection.execute("INSERT INTO t (n) SELECT generate_series(1, 20)")

    def test_a_key_that_the_log_leaves_out_is_refused(self, prepared, tmp_path, spark):
        database, connection = prepared
        self.make(connection, "DEFAULT")
        with driven(database, tmp_path, spark) as job:
            snapshot(connection, "t")
            job.until_answered("rejected")

            (refused,) = job.answered("rejected")
            assert "'k' is generated" in refused.text
            assert "REPLICA IDENTITY FULL" in refused.text

    def test_with_whole_rows_in_the_log_they_are_the_key(self, database15, tmp_path, spark):
        """A server of version 18 refuses to change such rows."""
        with database15.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            self.make(connection, "FULL")
            with driven(database15, tmp_path, spark, message__key__columns="public.t:n") as job:
                held = windowed(job, database15, connection, "UPDATE t SET v = 2 WHERE n < 5")

        assert sorted((row["n"], row["v"]) for row in held.values()) == [
            (n, 2 if n < 5 else 1) for n in range(1, 21)
        ]

    def test_identity_columns_are_as_others(self, prepared, tmp_path, spark):
        database, connection = prepared
        connection.execute(
            "CREATE TABLE t (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int, v int DEFAULT 1)"
        )
        connection.execute("INSERT INTO t (n) SELECT generate_series(1, 20)")
        with driven(database, tmp_path, spark) as job:
            held = windowed(job, database, connection, "UPDATE t SET v = 2 WHERE n < 5")

        assert sorted((row["n"], row["v"]) for row in held.values()) == [
            (n, 2 if n < 5 else 1) for n in range(1, 21)
        ]


def test_a_column_that_has_no_order_is_refused_for_a_surrogate_key(prepared, tmp_path, spark):
    database, connection = prepared
    connection.execute("CREATE TABLE t (n int, k json)")
    connection.execute("INSERT INTO t VALUES (1, '{}')")
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(connection, "t", **{"surrogate-key": "k"})
        job.until_answered("rejected")

        assert "ordering operator" in job.answered("rejected")[0].text


def test_a_nullable_surrogate_key_reads_its_nulls_once(prepared, tmp_path, spark):
    database, connection = prepared
    connection.execute("CREATE TABLE t (k text, l int, n int, v int DEFAULT 1)")
    connection.execute(
        "INSERT INTO t SELECT CASE WHEN g % 3 > 0 THEN g::text END, nullif(g % 4, 0), g"
        " FROM generate_series(1, 40) g"
    )
    connection.execute("CREATE INDEX ON t (k, l)")
    with driven(database, tmp_path, spark, **SMALL_WINDOWS, message__key__columns="public.t:n") as job:
        snapshot(connection, "t", **{"surrogate-key": "k,l"})
        job.until_answered("finished")

        assert sorted(event["value"]["after"]["n"] for event in job.events("t")) == list(range(1, 41))

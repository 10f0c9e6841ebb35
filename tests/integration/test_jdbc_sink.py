"""Tables that the sink `jdbc` keeps equal to those of their source, on one server, end to end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest

from adapters.source.assembly import job as source_job
from adapters.source.assembly import wiring
from tests.driven import TIMEOUT_S, Driven, driven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database, PostgresServer

pytestmark = pytest.mark.integration

Connection = psycopg.Connection[Any]
TABLE = """CREATE TABLE shop.items (
    id int, part text, price numeric(12, 2), at timestamp, note text, big text, PRIMARY KEY (id, part))"""
SIGNAL_TABLE = "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)"
TARGET = "tm_shop_items"
ROWS = """INSERT INTO shop.items
    SELECT n, 'p' || n % 3, n / 4.0, timestamp '2024-02-29 12:00' + n * interval '1 ms',
        nullif('note ' || n, 'note 7'), CASE WHEN n % 50 = 0 THEN repeat(md5(n::text), 400) END
    FROM generate_series({}, {}) n"""
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["shop.items"]}')"""


@pytest.fixture
def target(postgres18: PostgresServer) -> Iterator[Database]:
    made = postgres18.create_database("jdbc_target")
    yield made
    postgres18.drop_database(made.name)


def settings(target: Database, **more: str) -> dict[str, str]:
    server = target.server
    return {
        "tidemark__sink": "jdbc",
        "tidemark__sink__jdbc__connection__url": f"jdbc:postgresql://{server.host}:{server.port}/{target.name}",
        "tidemark__sink__jdbc__connection__username": server.user,
        "tidemark__sink__jdbc__connection__password": server.password,
        "skipped__operations": "none",
        "incremental__snapshot__chunk__size": "40",
        "tidemark__window__max__chunks": "4",
        **more,
    }


def everything(database: Database, table: str, order: LiteralString = "1, 2") -> list[Any]:
    with database.connect() as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY {order}".encode()).fetchall()


def change(connection: Connection) -> None:
    """Inserts, updates with and without their large values, deletes, and keys that change."""
    connection.execute("UPDATE shop.items SET price = -price WHERE id % 5 = 0")
    connection.execute("UPDATE shop.items SET big = repeat(md5(random()::text), 500) WHERE id % 25 = 0")
    connection.execute("UPDATE shop.items SET note = 'again' WHERE id % 25 = 0")
    connection.execute("DELETE FROM shop.items WHERE id % 7 = 0")
    connection.execute("UPDATE shop.items SET id = id + 100000 WHERE id % 50 = 11 OR id % 100 = 50")
    connection.execute("UPDATE shop.items SET part = part || 'x' WHERE id > 100000")


@pytest.fixture
def source(database: Database) -> Database:
    with database.connect() as connection:
        for statement in (SIGNAL_TABLE, "CREATE SCHEMA shop", TABLE, ROWS.format(1, 300)):
            connection.execute(statement.encode())
    return database


def turned(job: Driven, database: Database) -> None:
    job.until_drained(database)
    job.until(lambda: not job.job.state.snapshot.tables)


def test_a_table_is_kept_equal_through_snapshots_and_changes(
    source: Database, target: Database, tmp_path: Path, spark: SparkSession
):
    with source.connect() as connection:
        with driven(source, tmp_path, spark, **settings(target, snapshot__mode="initial")) as job:
            turned(job, source)
            assert everything(target, TARGET) == everything(source, "shop.items")
            change(connection)
            turned(job, source)
            assert everything(target, TARGET) == everything(source, "shop.items")
            connection.execute(SNAPSHOT.encode())
            for begin in (1000, 2000, 3000):
                connection.execute(ROWS.format(begin, begin + 60).encode())
                change(connection)
                job.job.turn()
            job.until_answered("finished")
            turned(job, source)
            assert everything(target, TARGET) == everything(source, "shop.items")
            connection.execute("TRUNCATE shop.items")
            connection.execute(ROWS.format(1, 5).encode())
            turned(job, source)
        assert everything(target, TARGET) == everything(source, "shop.items") != []
    with target.connect() as connection:
        types = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{TARGET}'::regclass AND attnum > 0".encode()
        ).fetchall()
    assert types == [
        ("id", "integer"),
        ("part", "text"),
        ("price", "numeric(12,2)"),
        ("at", "timestamp without time zone"),
        ("note", "text"),
        ("big", "text"),
    ]


class CrashError(BaseException):
    """The process dies here."""


def crash(job: Driven, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn until the process dies at a place, which a turn with events passes."""

    def dying(*_given: Any, **_named: Any) -> Any:
        raise CrashError

    parts = job.job._parts
    with monkeypatch.context() as patch:
        match place:
            case "before the commit":
                patch.setattr(parts.sink, "commit", dying)
            case "inside of the commit":
                patch.setattr("adapters.jdbc.turns.Turns.save", dying)
            case "after the commit":
                patch.setattr(parts.store, "promote", dying)
        with pytest.raises(CrashError):
            job.until(lambda: False)


def test_a_turn_is_there_once_wherever_the_job_dies(
    source: Database, target: Database, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    given = settings(target)
    with source.connect() as connection:
        connection.execute("CREATE TABLE shop.counts (id int PRIMARY KEY, n int)")
        with driven(source, tmp_path, spark, **given) as job:
            job.until_drained(source)
        for place in ("before the commit", "inside of the commit", "after the commit"):
            connection.execute("DELETE FROM shop.items WHERE part = 'p1'")
            connection.execute("INSERT INTO shop.counts SELECT n, n FROM generate_series(1, 9) n")
            connection.execute((ROWS.format(1, 90) + " ON CONFLICT DO NOTHING").encode())
            with driven(source, tmp_path, spark, **given) as job:
                crash(job, place, monkeypatch)
            with driven(source, tmp_path, spark, **given) as job:
                connection.execute("UPDATE shop.counts SET id = id + 10, n = n + 1")
                job.until_drained(source)
                turns = everything(target, "tidemark_turns", "1")
            assert everything(target, "tm_shop_counts", "1") == everything(source, "shop.counts", "1")
            assert turns[0][2] == job.job.state.turn
            connection.execute("DELETE FROM shop.counts")


def test_a_column_that_is_added_while_the_job_runs_is_added_to_the_target(
    source: Database, target: Database, tmp_path: Path, spark: SparkSession
):
    with source.connect() as connection:
        with driven(source, tmp_path, spark, **settings(target, snapshot__mode="initial")) as job:
            turned(job, source)
            connection.execute("UPDATE shop.items SET note = 'old' WHERE id = 1")
            connection.execute("ALTER TABLE shop.items ADD COLUMN state text NOT NULL DEFAULT 'it''s new'")
            connection.execute("UPDATE shop.items SET note = 'newer', state = 'changed' WHERE id = 2")
            turned(job, source)
        assert everything(target, TARGET) == everything(source, "shop.items")


def test_a_table_that_the_target_refuses_is_set_aside_and_comes_back(
    source: Database,
    target: Database,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    pace_of = wiring.pace
    monkeypatch.setattr(
        source_job, "pace", lambda *given, **more: replace(pace_of(*given, **more), probe_s=0.5)
    )
    with source.connect() as connection, target.connect() as there:
        connection.execute("CREATE TABLE shop.notes (id int PRIMARY KEY, note text)")
        connection.execute("CREATE TABLE shop.keyless (note text)")
        connection.execute("CREATE TABLE shop.untold (id int PRIMARY KEY, other int UNIQUE NOT NULL)")
        connection.execute("ALTER TABLE shop.untold REPLICA IDENTITY USING INDEX untold_other_key")
        there.execute("CREATE TABLE tm_shop_notes (id int PRIMARY KEY, note varchar(5))")
        there.execute("CREATE TABLE tm_shop_items (id int, part text, PRIMARY KEY (id, part))")
        with driven(source, tmp_path, spark, **settings(target)) as job:

            def run_until(condition: Callable[[], Any]) -> None:
                deadline = time.monotonic() + TIMEOUT_S
                job.job.run(lambda: bool(condition()) or time.monotonic() > deadline)

            connection.execute("INSERT INTO shop.notes VALUES (1, 'short')")
            run_until(lambda: everything(target, "tm_shop_notes", "1"))
            connection.execute("INSERT INTO shop.notes VALUES (2, 'much too long')")
            connection.execute("INSERT INTO shop.keyless VALUES ('a secret value')")
            connection.execute("INSERT INTO shop.untold VALUES (1, 1)")
            connection.execute("INSERT INTO shop.items VALUES (0, 'other tables go on')")
            run_until(lambda: everything(target, TARGET))
            rows = everything(target, "tm_shop_notes", "1")
            aside = {str(fault.collection): str(fault) for fault in job.job.state.incomplete}
            there.execute("ALTER TABLE tm_shop_notes ALTER COLUMN note TYPE text")
            connection.execute("INSERT INTO shop.notes VALUES (3, 'kept, too')")
            run_until(lambda: len(job.job.state.incomplete) == 2)
        assert rows == [(1, "short")]
        assert aside.keys() == {"shop.notes", "shop.keyless", "shop.untold"}
        assert "no key" in aside["shop.keyless"]
        assert "REPLICA IDENTITY FULL" in aside["shop.untold"]
        assert everything(target, "tm_shop_notes", "1") == everything(source, "shop.notes", "1")
        assert "much too long" not in caplog.text
        assert "a secret value" not in caplog.text


TYPES = {
    "boolean": ("boolean", ["true", "false"]),
    "smallint": ("smallint", ["-32768"]),
    "integer": ("integer", ["2147483647"]),
    "bigint": ("bigint", ["-9223372036854775808"]),
    "real": ("real", ["NaN", "-Infinity", "1.17549435e-38", "0.1"]),
    "double precision": ("double precision", ["NaN", "Infinity", "-0", "0.1", "1e300", "5e-324"]),
    "numeric(30,10)": ("numeric(30,10)", ["-12345678901234567890.0123456789", "0.0000000001", "0", "NaN"]),
    "numeric(50,20)": ("numeric(50,20)", ["-123456789012345678901234567890.01234567890123456789", "NaN"]),
    "numeric": (
        "numeric",
        [
            "1",
            "-0.000000000000000000001",
            "123456789012345678901234567890123456789012345",
            "NaN",
            "Infinity",
            "-Infinity",
        ],
    ),
    "text": ("text", ["", "a\tb\\N\nc\rd", "\\N", "ü€😀", "null", '"{}"']),
    "varchar(10)": ("text", ["it's"]),
    "char(5)": ("text", ["abcde"]),
    "bytea": ("bytea", ["", "\\x00ff5c0a09"]),
    "uuid": ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "json": ("json", ['{"b": 1, "a": [1.50, "x\\ty"],  "a": null}', '"\\u00e9"', "null"]),
    "jsonb": ("json", ['{"b": 1, "a": [1.50, "x\\ty"]}']),
    "date": (
        "date",
        ["2024-02-29", "infinity", "-infinity", "0044-03-15 BC", "12345-01-01", "0001-12-31 BC"],
    ),
    "time": ("time without time zone", ["00:00", "23:59:59.999999", "24:00"]),
    "time(3)": ("time without time zone", ["12:34:56.789", "24:00"]),
    "timestamp": (
        "timestamp without time zone",
        [
            "2024-02-29 12:34:56.789012",
            "infinity",
            "-infinity",
            "0044-03-15 12:00 BC",
            "12345-01-01 00:00:01",
        ],
    ),
    "timestamp(3)": ("timestamp without time zone", ["2024-02-29 12:34:56.789", "infinity", "0044-03-15 BC"]),
    "timestamptz": (
        "timestamp with time zone",
        [
            "2024-02-29 12:34:56.789012+05",
            "infinity",
            "-infinity",
            "0044-03-15 12:00+00 BC",
            "12345-01-01 0:0:1+00",
        ],
    ),
    "timetz": ("time with time zone", ["12:34:56.5+00", "00:00+00"]),
    "inet": ("text", ["192.168.0.1/24"]),
    "macaddr": ("text", ["08:00:2b:01:02:03"]),
    "int4range": ("text", ["[1,5)"]),
    "text[]": ("text[]", ["{}", '{"a,b","c\\"d\\\\",NULL,"NULL",""}', "{ü}"]),
    "integer[]": ("integer[]", ["{1,NULL,-3}"]),
    "numeric(10,2)[]": ("numeric(10,2)[]", ["{1.50,-2.00,NULL}"]),
    "timestamp[]": ("timestamp without time zone[]", ['{"2024-02-29 12:34:56.789012",NULL}']),
    "boolean[]": ("boolean[]", ["{t,NULL,f}"]),
    "uuid[]": ("uuid[]", ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"]),
    "mood": ("text", ['it\'s "fine"']),
}
"""By type of the source: that of the target, and values that come back as the same text."""
OTHERS = {
    "interval": ("bigint", "1 day 00:00:01.5", "86401500000"),
    "bit(3)": ("bytea", "101", "\\x05"),
    "point": ("json", "(1,2)", '"x":1.0,"y":2.0'),
}
"""By type of the source: that of the target, a value, and what its text there contains."""


def test_every_type_is_read_back_as_the_same_text(
    database: Database, target: Database, tmp_path: Path, spark: SparkSession
):
    columns = [f"c{number}" for number in range(len(TYPES))]
    longest = max(len(values) for _kind, values in TYPES.values())
    defined = ", ".join(f"{name} {kind}" for name, kind in zip(columns, TYPES, strict=True))
    texts = ", ".join(f"{name}::text" for name in columns)
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s \"fine\"')")
        connection.execute(f"CREATE TABLE kinds (id int PRIMARY KEY, {defined})".encode())
        others = ", ".join(f"o{number} {kind}" for number, kind in enumerate(OTHERS))
        values = ", ".join(f"'{value}'" for _kind, value, _expected in OTHERS.values())
        connection.execute(f"CREATE TABLE others (id int PRIMARY KEY, {others})".encode())
        rows: list[list[Any]] = [
            [number, *(values[number] if number < len(values) else None for _kind, values in TYPES.values())]
            for number in range(longest)
        ]
        insert = f"INSERT INTO kinds VALUES ({', '.join(['%s'] * (len(columns) + 1))})".encode()
        connection.cursor().executemany(insert, rows)
        with driven(database, tmp_path, spark, **settings(target, snapshot__mode="initial")) as job:
            turned(job, database)
            connection.cursor().executemany(insert, [[row[0] + 100, *row[1:]] for row in rows])
            connection.execute(f"INSERT INTO others VALUES (1, {values})".encode())
            turned(job, database)
        expected = connection.execute(f"SELECT id, {texts} FROM kinds ORDER BY id".encode()).fetchall()
    with target.connect() as there:
        found = there.execute(f"SELECT id, {texts} FROM tm_public_kinds ORDER BY id".encode()).fetchall()
        types = there.execute(
            b"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attnum > 1"
            b" AND attrelid IN ('tm_public_kinds'::regclass, 'tm_public_others'::regclass)"
            b" ORDER BY attrelid = 'tm_public_others'::regclass, attnum"
        ).fetchall()
        other = there.execute(
            "SELECT t.* FROM tm_public_others o, json_each_text(row_to_json(o)) t"
        ).fetchall()

    assert [kind for (kind,) in types] == [kinds[0] for kinds in (*TYPES.values(), *OTHERS.values())]
    for (_name, text), (_kind, _value, part) in zip(other[1:], OTHERS.values(), strict=True):
        assert part in text
    for number, kind in enumerate(TYPES, 1):
        assert [row[number] for row in found] == [row[number] for row in expected], kind
    assert len(found) == 2 * longest

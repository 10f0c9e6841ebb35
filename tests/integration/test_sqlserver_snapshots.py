"""Incremental snapshots of SQL Server on the stand-in: under writes, by any key, across instances."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
from pyspark.sql import SparkSession

from adapters.sqlserver.server.tsql import quote_ident
from engine.errors import ConfigError, SourceError
from tests.driven import replayed_rows
from tests.driven_sqlserver import SIGNALS, DrivenSqlServer, driven_sqlserver, writing
from tests.servers.sqlserver import SqlServer, StandInDatabase
from tests.unit.adapters.sqlserver.t_sql import PAGES, shape

pytestmark = pytest.mark.integration

WITH_SIGNALS = {"signal__data__collection": "shop.dbo.signals", "tidemark__window__max__chunks": "4"}
SMALL = {"incremental__snapshot__chunk__size": "100"}


@pytest.fixture
def signals(shop: StandInDatabase) -> StandInDatabase:
    """A database with a signal table."""
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    return shop


def ask(database: StandInDatabase, *tables: str, kind: str = "execute-snapshot", **more: Any) -> None:
    data = orjson.dumps({"data-collections": list(tables), "type": "incremental", **more}).decode()
    quoted = data.replace("'", "''")
    database.execute(f"INSERT INTO dbo.signals VALUES ('{uuid4()}', '{kind}', '{quoted}')")


def filled(database: StandInDatabase, rows: int, table: str = "dbo.t") -> None:
    database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v nvarchar(50) NULL)")
    for start in range(0, rows, 1000):
        values = ", ".join(f"({row}, N'{row}')" for row in range(start, min(start + 1000, rows)))
        database.execute(f"INSERT INTO {table} VALUES {values}")
    database.enable_cdc(table)


def reads(driven: DrivenSqlServer, table: str = "t") -> list[dict[str, Any]]:
    return [row for op, row in driven.ops(table) if op == "r"]


def turned(driven: DrivenSqlServer, turns: int) -> None:
    for _turn in range(turns):
        driven.job.turn()


def test_a_table_is_read_while_it_is_written(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(signals, 2000)
    sqlserver.start_capture(0.05)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        with writing(signals, "dbo.t", keys=2000) as writer:
            ask(signals, "shop.dbo.t")
            driven.until_answered("finished")
        sqlserver.stop_capture()
        signals.capture()
        driven.until_streamed(signals)

        assert writer.writes > 10
        assert len(reads(driven)) > 500
        held = replayed_rows(driven.events("t"))
        assert held == {key: {"id": key, "v": text} for key, text in signals.query("SELECT id, v FROM dbo.t")}


def test_a_read_only_window_waits_for_the_logs_end(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(signals, 500)
    sqlserver.start_capture(0.05)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL, read__only="true") as driven:
        with writing(signals, "dbo.t", keys=500, pause_s=0.01):
            ask(signals, "dbo.t")
            driven.until_answered("finished")
        sqlserver.stop_capture()
        signals.capture()
        driven.until_streamed(signals)

        held = replayed_rows(driven.events("t"))
        assert held == {key: {"id": key, "v": text} for key, text in signals.query("SELECT id, v FROM dbo.t")}
        assert signals.query("SELECT COUNT(*) FROM dbo.signals") == [(1,)]


def test_a_snapshot_is_stopped(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(signals, 3000)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        ask(signals, "shop.dbo.t")
        driven.until(lambda: reads(driven))
        ask(signals, "shop.dbo.t", kind="stop-snapshot")
        driven.until_answered("stopped")

        assert 0 < len(reads(driven)) < 3000


def test_old_closing_rows_are_passed_over(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(signals, 10)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
        ask(signals, "shop.dbo.t")
        signals.capture()
        driven.until(lambda: driven.job.window is not None)
        signals.execute(
            "INSERT INTO dbo.signals VALUES ('someone-else-close', 'snapshot-window-close', NULL)"
        )
        signals.capture()
        driven.until_streamed(signals)
        for _turn in range(20):
            driven.job.turn()
        assert not reads(driven)
        sqlserver.start_capture(0.02)  # the rows may not all be read yet
        driven.until_answered("finished")

        assert len(reads(driven)) == 10


KEYS = {
    "composite": ("a int, b nvarchar(20), PRIMARY KEY (a, b)", "({n} % 7, N'k{n}')"),
    "guid": ("a uniqueidentifier PRIMARY KEY", "(CONVERT(uniqueidentifier, N'{hex}'))"),
    "varchar": ("a varchar(20) PRIMARY KEY", "('{letter}{n}')"),
    "cased": ("a nvarchar(20) COLLATE Latin1_General_BIN2 PRIMARY KEY", "(N'{letter}{n}')"),
    "datetime2": (
        "a datetime2(7) PRIMARY KEY",
        "(CONVERT(datetime2(7), N'2024-01-0{day} 10:00:00.{n:07d}', 121))",
    ),
    "decimal": ("a decimal(12, 3) PRIMARY KEY", "({n}.125)"),
    "binary": ("a varbinary(8) PRIMARY KEY", "(0x{n:08x})"),
    "bigint": ("a bigint PRIMARY KEY", "({n}000000007)"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_rows_of_any_key_are_read_once_each(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession, kind: str
):
    columns, value = KEYS[kind]
    signals.execute(f"CREATE TABLE dbo.t ({columns})")
    rows = [
        value.format(
            n=n,
            day=n % 9 + 1,
            letter="aBcDeF"[n % 6],
            hex=f"{n * 7919 % 2**32:08x}-0000-4000-8000-{n * 104729:012x}",
        )
        for n in range(1, 601)
    ]
    signals.execute(f"INSERT INTO dbo.t VALUES {', '.join(rows)}")
    signals.enable_cdc("dbo.t")
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        ask(signals, "shop.dbo.t")
        driven.until_answered("finished")

        found = [orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for row in reads(driven)]
        assert len(found) == len(set(found)) == 600


def test_a_nullable_surrogate_key_orders_a_table_without_a_key(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    signals.execute("CREATE TABLE dbo.t (a int NULL, b int NOT NULL)")
    rows = ", ".join(f"({'NULL' if n < 150 else n}, {n})" for n in range(600))
    signals.execute(f"INSERT INTO dbo.t VALUES {rows}")
    signals.enable_cdc("dbo.t")
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        ask(signals, "shop.dbo.t")
        driven.until_answered("rejected")
        ask(signals, "shop.dbo.t", **{"surrogate-key": "a"})
        driven.until_answered("finished")

        assert sorted(row["b"] for row in reads(driven)) == list(range(600))


def test_two_surrogate_keys_of_one_table_in_a_window_are_superseded_alike(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    signals.execute("CREATE TABLE dbo.t (a int NOT NULL, b int NOT NULL, v nvarchar(50) NULL)")
    signals.execute("INSERT INTO dbo.t VALUES (1, 11, N'old'), (2, 12, N'old'), (3, 13, N'old')")
    signals.enable_cdc("dbo.t")
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
        ask(signals, "shop.dbo.t", **{"surrogate-key": "a"})
        ask(signals, "shop.dbo.t", **{"surrogate-key": "b"})
        signals.capture()
        driven.until(lambda: driven.job.window is not None)
        window = driven.job.window
        assert window is not None
        closed = f"SELECT COUNT(*) FROM dbo.signals WHERE id = '{window.id}-close'"
        driven.until(lambda: signals.query(closed) == [(1,)])
        signals.execute("UPDATE dbo.t SET v = N'new' WHERE a = 1")
        signals.execute("UPDATE dbo.t SET a = 5, b = 15 WHERE a = 2")
        signals.capture()
        driven.until_answered("finished", 2)

        assert len(window.runs) == 2
        told = [(op, row["a"], row["v"]) for op, row in driven.ops("t")]
        assert [notification for notification in told if notification[0] == "r"] == [("r", 3, "old")] * 2
        assert ("u", 1, "new") in told


class TestConditions:
    def test_a_condition_chooses_rows(
        self, sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
    ):
        filled(signals, 300)
        sqlserver.start_capture(0.02)
        with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
            ask(signals, "dbo.t", **{"additional-condition": "[id] % 3 = 0 AND [v] LIKE N'1%'"})
            driven.until_answered("finished")

            expected = [n for n in range(300) if n % 3 == 0 and str(n).startswith("1")]
            assert sorted(row["id"] for row in reads(driven)) == expected

    @pytest.mark.parametrize("condition", ["id = ", "1 = 1) DROP TABLE dbo.t --", "nowhere = 1"])
    def test_a_condition_that_is_none_is_refused(
        self,
        sqlserver: SqlServer,
        signals: StandInDatabase,
        tmp_path: Path,
        spark: SparkSession,
        condition: str,
    ):
        filled(signals, 10)
        sqlserver.start_capture(0.02)
        with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
            ask(signals, "shop.dbo.t", **{"additional-condition": condition})
            driven.until_answered("rejected")

            assert signals.query("SELECT COUNT(*) FROM dbo.t") == [(10,)]


def test_a_window_is_read_again_when_another_instance_takes_over(
    sqlserver: SqlServer,
    signals: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    filled(signals, 50)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
        ask(signals, "shop.dbo.t")
        signals.capture()
        driven.until(lambda: driven.job.window is not None)
        signals.execute("ALTER TABLE dbo.t ADD more int NULL")
        signals.enable_cdc("dbo.t", "dbo_t_2")
        signals.execute("UPDATE dbo.t SET more = 7 WHERE id = 3")
        sqlserver.start_capture(0.02)
        driven.until_answered("finished")

        held = replayed_rows(driven.events("t"))
        assert len(held) == 50
        assert all(set(row) == {"id", "v", "more"} for row in held.values())
        assert held[3]["more"] == 7
        assert "another capture instance took over" in caplog.text


class TestRefusals:
    def test_a_table_of_a_database_without_a_signal_table_is_refused(
        self, sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
    ):
        other = sqlserver.create_database("other")
        filled(other, 5)
        sqlserver.start_capture(0.02)
        with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
            ask(signals, "other.dbo.t")
            driven.until_answered("rejected")

            (answer,) = driven.answered("rejected")
            assert "has no signal table" in answer.text

    def test_a_signal_table_that_is_not_captured_stops_the_start(
        self, sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
    ):
        shop.execute(SIGNALS)

        with (
            pytest.raises(ConfigError, match="does not capture the signal table"),
            driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS),
        ):
            pass

    def test_what_became_a_secondary_is_not_read_until_it_is_a_primary_again(
        self, sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
    ):
        filled(signals, 5)
        sqlserver.start_capture(0.02)
        with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
            signals.set("updateability", "READ_ONLY")
            ask(signals, "shop.dbo.t")
            with pytest.raises(SourceError, match="readable secondary"):
                turned(driven, 1000)
            driven.job.close()
            driven.job.settle()
            with pytest.raises(SourceError, match="readable secondary"):
                driven.job.start()
            assert not reads(driven)
            signals.set("updateability", None)
            driven.until_answered("finished")

            assert len(reads(driven)) == 5


def test_tables_of_two_databases_are_read_in_windows_of_their_own_watermarks(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    other = sqlserver.create_database("other")
    other.execute(SIGNALS)
    other.enable_cdc("dbo.signals")
    filled(other, 20)
    filled(signals, 20)
    named = {**WITH_SIGNALS, "signal__data__collection": "shop.dbo.signals,other.dbo.signals"}
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **named) as driven:
        ask(signals, ".*\\.dbo\\.t")
        driven.until_answered("finished", 2)

        topics = [event["topic"] for event in driven.events("t")]
        assert sorted(set(topics)) == ["tm.other.dbo.t", "tm.shop.dbo.t"]
        assert len(topics) == 40


def test_no_window_is_read_without_locks(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(signals, 5)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS) as driven:
        ask(signals, "shop.dbo.t")
        driven.until_answered("finished")

        asked = [
            statement for statement in sqlserver.statements if re.search(r"FROM \[dbo\]\.\[t\]", statement)
        ]
        rows = [statement for statement in asked if "AS [r] FROM" in statement]
        ends = [statement for statement in asked if " DESC OFFSET" in statement]
        assert rows
        assert ends
        # keys that only cut may be of rows that are never committed
        assert [row for row in rows + ends if "WITH (READCOMMITTEDLOCK)" not in row] == []


LONGEST = "x" * 124 + "lang"
ODD = ("key1", "task", "run", "r", "select", "a]b", "it's", 'say "so"', "t", LONGEST)


@pytest.mark.parametrize(
    "keys",
    [
        ("key1", "key0"),
        *(
            pytest.param(keys, marks=pytest.mark.thorough)
            for keys in [("key0",), ("task", "key0"), ("a]b", "r")]
        ),
    ],
)
def test_columns_may_be_called_as_the_adapter_calls_its_own(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession, keys: tuple[str, ...]
):
    columns = ("key0", *ODD)
    quoted = [quote_ident(name) for name in columns]
    listed = ", ".join(f"{name} int NOT NULL" for name in quoted)
    primary = ", ".join(map(quote_ident, keys))
    signals.execute(f"CREATE TABLE dbo.[order ]]s] ({listed}, PRIMARY KEY ({primary}))")
    rows = [tuple((row * (place + 1)) % 307 for place in range(len(columns))) for row in range(1, 301)]
    signals.execute(f"INSERT INTO dbo.[order ]]s] VALUES {', '.join(map(str, rows))}")
    signals.enable_cdc("dbo.order ]s")
    sqlserver.start_capture(0.02)
    small = {"incremental__snapshot__chunk__size": "7"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **small) as driven:
        ask(signals, "shop.dbo.order ]s")
        driven.until_answered("finished")
        signals.execute(f"UPDATE dbo.[order ]]s] SET [t] = 1000 WHERE {quoted[0]} = 1")
        signals.capture()
        driven.until_streamed(signals)
        found = [
            event["value"] for event in driven.events() if event["value"]["source"]["table"] == "order ]s"
        ]

        assert sorted(tuple(event["after"].values()) for event in found if event["op"] == "r") == sorted(rows)
        assert [event["after"]["t"] for event in found if event["op"] == "u"] == [1000]


def test_what_a_job_says_to_the_server_is_documented_t_sql(
    sqlserver: SqlServer, signals: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(signals, 300)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **WITH_SIGNALS, **SMALL) as driven:
        sqlserver.statements.clear()
        ask(signals, "shop.dbo.t")
        driven.until_answered("finished")
    said = set(sqlserver.statements)

    assert len(said) > 20
    assert {text: shape(text) - PAGES.keys() for text in said if shape(text) - PAGES.keys()} == {}

"""Capture instances that come, take over and go while a SQL Server job runs, on the stand-in."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.driven import replayed_rows
from tests.driven_sqlserver import driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration


def made(database: StandInDatabase, *tables: str) -> None:
    """Tables of a key and a text, captured."""
    for table in tables or ("t",):
        database.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v nvarchar(50) NULL)")
        database.enable_cdc(f"dbo.{table}")


def test_a_second_instance_takes_over_with_its_columns(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    shown = {
        "include__schema__changes": "true",
        "notification__enabled__channels": "sink",
        "notification__sink__topic__name": "notices",
    }
    with driven_sqlserver(sqlserver, tmp_path, spark, **shown) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.execute("ALTER TABLE dbo.t ADD more int NULL")
        shop.execute("INSERT INTO dbo.t VALUES (2, N'b', 20)")
        shop.capture()
        shop.enable_cdc("dbo.t", "dbo_t_2")
        shop.execute("INSERT INTO dbo.t VALUES (3, N'c', 30)")
        shop.capture()
        driven.until_streamed(shop)
        shop.disable_cdc("dbo_t")
        shop.execute("INSERT INTO dbo.t VALUES (4, N'd', 40)")
        shop.capture()
        driven.until_streamed(shop)

        assert [row for _op, row in driven.ops("t")] == [
            {"id": 1, "v": "a"},
            {"id": 2, "v": "b"},
            {"id": 3, "v": "c", "more": 30},
            {"id": 4, "v": "d", "more": 40},
        ]
        changes = [event["value"]["tableChanges"][0] for event in driven.events() if event["topic"] == "tm"]
        assert [change["type"] for change in changes] == ["CREATE", "ALTER"]
        assert [column["name"] for column in changes[1]["table"]["columns"]] == ["id", "v", "more"]
        notices = [event["value"] for event in driven.events() if event["topic"] == "notices"]
        told = [notice for notice in notices if notice["aggregate_type"] == "Capture Instance"]
    assert [notification["type"] for notification in told] == ["COMPLETED"]
    data = told[0]["additional_data"]
    assert list(data) == [
        *("connector_name", "capture_instance", "start_lsn", "stop_lsn", "commit_lsn", "server", "database"),
    ]
    assert (data["capture_instance"], data["server"], data["database"]) == ("dbo_t", "tm", "shop")
    assert data["start_lsn"] < data["stop_lsn"] < data["commit_lsn"]


def test_a_table_is_enabled_while_the_job_runs(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop, "a")
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.a VALUES (1, N'a')")
        shop.capture()
        driven.until_streamed(shop)
        made(shop, "b")
        shop.execute("INSERT INTO dbo.b VALUES (1, N'b')")
        shop.capture()
        driven.until_streamed(shop)

        assert driven.ops("b") == [("c", {"id": 1, "v": "b"})]


def test_an_instance_that_is_gone_is_warned_of_once(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    made(shop, "a", "b", "c")
    with caplog.at_level(logging.WARNING, "adapters"):
        with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
            shop.execute("INSERT INTO dbo.a VALUES (1, N'a'); INSERT INTO dbo.c VALUES (1, N'c')")
            shop.capture()
            driven.until_streamed(shop)
            shop.disable_cdc("dbo_a")
            for row in range(3):
                shop.execute(f"INSERT INTO dbo.b VALUES ({row}, N'b')")
                shop.capture()
                driven.until_streamed(shop)
                driven.job.close()  # as after a fault
                driven.job.settle()
        shop.disable_cdc("dbo_c")
        for row in range(3, 5):
            with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
                shop.execute(f"INSERT INTO dbo.b VALUES ({row}, N'b')")
                shop.capture()
                driven.until_streamed(shop)

    gone = [message.split()[2] for message in caplog.messages if "is gone" in message]
    assert gone == ["dbo_a", "dbo_c"]


def test_a_table_is_disabled_while_the_job_runs(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop, "a", "b")
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.a VALUES (1, N'a')")
        shop.capture()
        driven.until_streamed(shop)
        shop.disable_cdc("dbo_a")
        shop.execute("INSERT INTO dbo.a VALUES (2, N'a'); INSERT INTO dbo.b VALUES (1, N'b')")
        shop.capture()
        driven.until_streamed(shop)

        assert len(driven.ops("a")) == len(driven.ops("b")) == 1


def test_a_listed_table_without_cdc_is_warned_about(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    made(shop)
    shop.execute("CREATE TABLE dbo.u (id int PRIMARY KEY)")
    with (
        caplog.at_level(logging.WARNING, "adapters"),
        driven_sqlserver(sqlserver, tmp_path, spark, table__include__list="dbo.t,dbo.u"),
    ):
        pass

    assert [message for message in caplog.messages if "shop.dbo.u is listed" in message]


def test_a_table_that_is_enabled_is_read_by_a_snapshot_of_its_own(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    """Its rows are older than its change table."""
    made(shop, "a")
    shop.execute("CREATE TABLE dbo.b (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute("INSERT INTO dbo.b VALUES (1, N'old'), (2, N'old')")
    sqlserver.start_capture(0.05)
    reading = {"snapshot__mode": "initial", "read__only": "true"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **reading) as driven:
        driven.until(lambda: not driven.job.state.snapshot.tables)
        shop.enable_cdc("dbo.b")
        shop.execute("UPDATE dbo.b SET v = N'new' WHERE id = 2")
        new = "tidemark-new-shop.dbo.b"
        driven.until(lambda: new in [answer.id for answer in driven.answered("finished")])

        assert replayed_rows(driven.events("b")) == {1: {"id": 1, "v": "old"}, 2: {"id": 2, "v": "new"}}
    shop.execute("CREATE TABLE dbo.c (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute("INSERT INTO dbo.c VALUES (1, N'old')")
    shop.enable_cdc("dbo.c")
    with driven_sqlserver(sqlserver, tmp_path, spark, **reading) as driven:
        new = "tidemark-new-shop.dbo.c"
        driven.until(lambda: new in [answer.id for answer in driven.answered("finished")])

        assert [op for op, _row in driven.ops("b")].count("r") <= 2, "it is read once"
        assert replayed_rows(driven.events("c")) == {1: {"id": 1, "v": "old"}}


def test_a_column_with_a_default_has_its_table_read_once_an_instance_has_it(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    """Its values in older rows are in no change table, neither of the old instance nor of the new one."""
    made(shop, "a")
    shop.execute("INSERT INTO dbo.a VALUES (1, N'old'), (2, N'old')")
    sqlserver.start_capture(0.05)
    reading = {"snapshot__mode": "initial", "read__only": "true", "tidemark__snapshot__new": "columns"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **reading) as driven:
        driven.until(lambda: not driven.job.state.snapshot.tables)
        shop.execute("ALTER TABLE dbo.a ADD bare int NULL")
        shop.execute("ALTER TABLE dbo.a ADD more int NOT NULL DEFAULT 7")
        shop.enable_cdc("dbo.a", "dbo_a_2")
        shop.execute("UPDATE dbo.a SET v = N'new' WHERE id = 2")
        new = "tidemark-new-shop.dbo.a-more"
        driven.until(lambda: new in [answer.id for answer in driven.answered("finished")])

        told = {"bare": None, "more": 7}
        assert replayed_rows(driven.events("a")) == {
            1: {"id": 1, "v": "old", **told},
            2: {"id": 2, "v": "new", **told},
        }
    shop.disable_cdc("dbo_a")
    shop.execute("ALTER TABLE dbo.a ADD later int NOT NULL DEFAULT 8")
    shop.enable_cdc("dbo.a", "dbo_a_3")
    with driven_sqlserver(sqlserver, tmp_path, spark, **reading) as driven:
        new = "tidemark-new-shop.dbo.a-later"
        driven.until(lambda: new in [answer.id for answer in driven.answered("finished")])

        assert replayed_rows(driven.events("a"))[1] == {"id": 1, "v": "old", **told, "later": 8}

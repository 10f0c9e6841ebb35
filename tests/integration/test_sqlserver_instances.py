"""Capture instances that come, take over and go while a SQL Server job runs, on the stand-in."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

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
    shown = {"include__schema__changes": "true"}
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
        changes = [one["value"]["tableChanges"][0] for one in driven.events() if one["topic"] == "tm"]
        assert [one["type"] for one in changes] == ["CREATE", "ALTER"]
        assert [column["name"] for column in changes[1]["table"]["columns"]] == ["id", "v", "more"]


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

    gone = [one.split()[2] for one in caplog.messages if "is gone" in one]
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

    assert [one for one in caplog.messages if "shop.dbo.u is listed" in one]

"""What comes and goes under a SQL Server job: columns under an instance, instances under a window."""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration


def test_a_column_that_is_dropped_under_its_instance_is_null_at_once(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NOT NULL)")
    shop.enable_cdc("dbo.t")
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.capture()
        driven.until_streamed(shop)
        shop.execute("ALTER TABLE dbo.t DROP COLUMN v")
        shop.execute("INSERT INTO dbo.t VALUES (2)")
        shop.capture()
        driven.until_streamed(shop)

        assert driven.ops("t") == [("c", {"id": 1, "v": "a"}), ("c", {"id": 2, "v": None})]


def test_a_window_is_read_again_when_its_table_is_captured_anew(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NOT NULL)")
    shop.execute("INSERT INTO dbo.t VALUES (1, N'read first'), (2, N'there')")
    shop.enable_cdc("dbo.t")
    named = {"signal__data__collection": "shop.dbo.signals"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **named) as driven:
        data = '{"data-collections": ["shop.dbo.t"], "type": "incremental"}'
        shop.execute(f"INSERT INTO dbo.signals VALUES ('{uuid4()}', 'execute-snapshot', '{data}')")
        shop.capture()
        driven.until(lambda: driven.job.window is not None)
        driven.until(lambda: shop.query("SELECT COUNT(*) FROM dbo.signals") == [(3,)])
        shop.disable_cdc("dbo_t")
        shop.execute("UPDATE dbo.t SET v = N'told by nobody' WHERE id = 1")
        shop.enable_cdc("dbo.t")
        sqlserver.start_capture(0.02)
        driven.until_answered("finished")

        found = {row["id"]: row["v"] for op, row in driven.ops("t") if op == "r"}
        assert found == {1: "told by nobody", 2: "there"}


def test_an_instance_without_commands_is_read_in_the_order_of_changes_with_a_warning(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.enable_cdc("dbo.t", commands=False)
    with (
        caplog.at_level(logging.WARNING, "adapters"),
        driven_sqlserver(sqlserver, tmp_path, spark, tidemark__span__max__rows="4") as driven,
    ):
        with shop.transaction() as session:
            for row in range(12):
                session.execute(f"INSERT INTO dbo.t VALUES ({row}, N'a')")
        shop.capture()
        driven.until_streamed(shop)

        assert [event["key"]["id"] for event in driven.events("t")] == list(range(12))
    assert len([message for message in caplog.messages if "without __$command_id" in message]) == 1


def test_a_snapshot_has_null_for_a_column_that_was_dropped_and_added_again_under_its_instance(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int NULL)")
    shop.enable_cdc("dbo.t")
    named = {"signal__data__collection": "shop.dbo.signals"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **named) as driven:
        shop.execute("ALTER TABLE dbo.t DROP COLUMN v")
        shop.execute("ALTER TABLE dbo.t ADD v nvarchar(50) NULL")
        shop.execute("INSERT INTO dbo.t VALUES (1, N'no number')")
        data = '{"data-collections": ["shop.dbo.t"], "type": "incremental"}'
        shop.execute(f"INSERT INTO dbo.signals VALUES ('{uuid4()}', 'execute-snapshot', '{data}')")
        sqlserver.start_capture(0.02)
        driven.until_answered("finished")

        assert driven.ops("t") == [("c", {"id": 1, "v": None}), ("r", {"id": 1, "v": None})]

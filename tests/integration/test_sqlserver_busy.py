"""Tables that other sessions hold: they wait for their turn alone, while the log is streamed."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from uuid import uuid4

import orjson
import pytest
from pyspark.sql import SparkSession

from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

GIVEN = {"signal__data__collection": "shop.dbo.signals", "snapshot__lock__timeout__ms": "200"}


def made(database: StandInDatabase, *tables: str) -> None:
    for table in tables:
        database.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v nvarchar(50) NULL)")
        database.execute(f"INSERT INTO dbo.{table} VALUES (1, N'a'), (2, N'b')")
        database.enable_cdc(f"dbo.{table}")


def test_a_table_that_is_being_altered_keeps_neither_the_log_nor_other_tables(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    made(shop, "held", "free")
    sqlserver.start_capture(0.02)
    told = orjson.dumps({"data-collections": ["shop.dbo.held", "shop.dbo.free"]}).decode()
    with driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN) as driven:
        with shop.transaction() as session:
            session.execute("ALTER TABLE dbo.held ADD more int NULL")
            shop.execute(f"INSERT INTO dbo.signals VALUES ('{uuid4()}', 'execute-snapshot', '{told}')")
            driven.until(lambda: [op for op, _row in driven.ops("free")] == ["r", "r"])
            shop.execute("INSERT INTO dbo.free VALUES (3, N'c')")
            driven.until(lambda: driven.ops("free")[2:] == [("c", {"id": 3, "v": "c"})])
            assert not driven.ops("held")
        driven.until(lambda: [op for op, _row in driven.ops("held")] == ["r", "r"])
    sqlserver.stop_capture()


def test_a_log_that_is_locked_keeps_no_other_databases_log(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("adapters.sqlserver.log.database_log._BUSY_TOLD_AFTER_S", 0.1)
    bank = sqlserver.create_database("bank")
    for database in (shop, bank):
        made(database, "t")
        database.capture()
    with (
        caplog.at_level(logging.WARNING),
        driven_sqlserver(sqlserver, tmp_path, spark, snapshot__lock__timeout__ms="200") as driven,
    ):
        driven.until_streamed(shop, bank)
        with sqlserver.postgres.connect("shop", autocommit=False) as held:
            held.execute("LOCK TABLE cdc.lsn_time_mapping IN ACCESS EXCLUSIVE MODE")
            time.sleep(0.5)
            bank.execute("INSERT INTO dbo.t VALUES (3, N'c')")
            bank.capture()
            driven.until(lambda: ("c", {"id": 3, "v": "c"}) in driven.ops("t"), 15)
            driven.until(lambda: "waits for a lock" in caplog.text, 15)
        shop.execute("INSERT INTO dbo.t VALUES (5, N'd')")
        shop.capture()
        driven.until(lambda: ("c", {"id": 5, "v": "d"}) in driven.ops("t"), 15)

    assert [message for message in caplog.messages if "lock" in message] == [
        message for message in caplog.messages if "the log of database shop waits for a lock" in message
    ][:1]

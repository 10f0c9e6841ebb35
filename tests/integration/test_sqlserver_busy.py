"""Tables that other sessions hold: they wait for their turn alone, while the log is streamed."""

from __future__ import annotations

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

"""What comes and goes under a SQL Server job: columns under an instance, instances under a window."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.driven_sqlserver import driven_sqlserver
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

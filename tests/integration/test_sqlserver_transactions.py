"""Transaction metadata of a SQL Server job on the stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.driven_sqlserver import driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration


def made(database: StandInDatabase) -> None:
    """A table of a key and a text, captured."""
    database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    database.enable_cdc("dbo.t")


def test_transactions_are_told_where_they_begin_and_end(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark, provide__transaction__metadata="true") as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b')")
        shop.execute("INSERT INTO dbo.t VALUES (3, N'c')")
        shop.capture()
        driven.until_streamed(shop)

        told = [event["value"]["status"] for event in driven.events("transaction")]
        assert told == ["BEGIN", "END", "BEGIN"]


def test_transactions_of_two_databases_are_counted_apart(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    other = sqlserver.create_database("other")
    made(shop)
    made(other)
    with driven_sqlserver(sqlserver, tmp_path, spark, provide__transaction__metadata="true") as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        other.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        for database in (shop, other):
            database.capture()
        driven.until_streamed(shop, other)

        told = [event["value"]["status"] for event in driven.events("transaction")]
        assert told == ["BEGIN", "BEGIN"]

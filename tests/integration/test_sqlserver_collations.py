"""Texts of several collations: in one table, and in several that are read by one statement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession
from sqlalchemy.exc import SQLAlchemyError

from adapters.sqlserver.server.table import Column
from adapters.sqlserver.server.tsql import row_text
from engine.events.values.row_form import RowMode
from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

CYRILLIC, EXACT = "COLLATE Cyrillic_General_CI_AS", "COLLATE Latin1_General_CS_AS"
TWO = f"CREATE TABLE dbo.two (id int PRIMARY KEY, a varchar(20) {CYRILLIC}, b nvarchar(20) {EXACT})"
OTHER = f"CREATE TABLE dbo.other (id int PRIMARY KEY, a varchar(20) {EXACT}, c nvarchar(20) {EXACT})"
VALUES: dict[str, Any] = {
    "two": {"id": 1, "a": "жёлтый", "b": "Žluťoučký"},
    "other": {"id": 1, "a": "plain", "c": "Ω"},
}


def filled(shop: StandInDatabase) -> None:
    for ddl, (name, row) in zip((TWO, OTHER), VALUES.items(), strict=True):
        shop.execute(ddl)
        shop.enable_cdc(f"dbo.{name}")
        texts = ", ".join(f"N'{value}'" for value in list(row.values())[1:])
        shop.execute(f"INSERT INTO dbo.{name} VALUES (1, {texts})")


@pytest.mark.parametrize("local_rows", ["10000", "0"])
def test_rows_and_changes_of_tables_of_different_collations_come_by_one_statement(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession, local_rows: str
):
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    settings = {"signal__data__collection": "shop.dbo.signals", "tidemark__window__local__rows": local_rows}
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **settings) as driven:
        filled(shop)
        driven.until(lambda: len(driven.ops("two")) == len(driven.ops("other")) == 1)
        told = orjson.dumps({"data-collections": ["shop.dbo.two", "shop.dbo.other"]}).decode()
        shop.execute(f"INSERT INTO dbo.signals VALUES ('s', 'execute-snapshot', '{told}')")
        driven.until(lambda: len(driven.ops("two")) == len(driven.ops("other")) == 2)

        for name, row in VALUES.items():
            assert driven.ops(name) == [("c", row), ("r", row)]
        both = [
            statement
            for statement in sqlserver.statements
            if "[dbo].[two]" in statement and "[dbo].[other]" in statement
        ]
        assert any("UNION ALL" in cost for cost in both)


@pytest.mark.parametrize("mode", [RowMode.FAST, RowMode.ESCAPED])
def test_a_row_of_two_collations_is_one_text(shop: StandInDatabase, mode: RowMode):
    filled(shop)
    columns = [Column("a", 2, "varchar", 20), Column("b", 3, "nvarchar", 20)]

    ((found,),) = shop.query(f"SELECT {row_text(columns, mode)} FROM [dbo].[two]")
    assert found.split("\x1f") == ["ff", VALUES["two"]["a"], VALUES["two"]["b"]]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT CONCAT([a], [b]) FROM [dbo].[two]",
        "SELECT CONCAT(N'', CONVERT(nvarchar(max), [a]), CONVERT(nvarchar(max), [b])) FROM [dbo].[two]",
        "SELECT [id] FROM [dbo].[two] WHERE [a] = [b]",
        "SELECT [b] FROM [dbo].[two] UNION ALL SELECT [z] FROM [dbo].[third]",
    ],
)
def test_texts_of_two_collations_do_not_meet_by_themselves(shop: StandInDatabase, statement: str):
    shop.execute(TWO)
    shop.execute("CREATE TABLE dbo.third (id int PRIMARY KEY, z nvarchar(20) COLLATE Greek_CI_AS)")

    with pytest.raises((ValueError, SQLAlchemyError), match="collation conflict"):
        shop.query(statement)
    shop.query(statement.replace("[a]", f"[a] {EXACT}").replace("[z]", f"[z] {EXACT}"))

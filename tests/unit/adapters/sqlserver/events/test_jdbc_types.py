"""Columns as Microsoft's JDBC driver describes them."""

from __future__ import annotations

import pytest

from adapters.sqlserver.events.jdbc_types import JdbcColumn, jdbc_column
from adapters.sqlserver.server.table import Column
from adapters.sqlserver.server.tsql import READABLE


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("c", 1, "int", identity=True), JdbcColumn(4, "int identity", 10, 0)),
        (Column("c", 1, "varchar", 255), JdbcColumn(12, "varchar", 255)),
        (Column("c", 1, "varchar", -1), JdbcColumn(12, "varchar", 2147483647)),
        (Column("c", 1, "nvarchar", -1), JdbcColumn(-9, "nvarchar", 1073741823)),
        (Column("c", 1, "nchar", 3), JdbcColumn(-15, "nchar", 3)),
        (Column("c", 1, "decimal", 0, 6, 3), JdbcColumn(3, "decimal", 6, 3)),
        (Column("c", 1, "numeric", 0, 9, 0, identity=True), JdbcColumn(2, "numeric() identity", 9, 0)),
        (Column("c", 1, "money"), JdbcColumn(3, "money", 19, 4)),
        (Column("c", 1, "time", scale=7), JdbcColumn(92, "time", 16, 7)),
        (Column("c", 1, "datetime2", scale=0), JdbcColumn(93, "datetime2", 19, 0)),
        (Column("c", 1, "datetimeoffset", scale=7), JdbcColumn(-155, "datetimeoffset", 34, 7)),
        (Column("c", 1, "sql_variant"), JdbcColumn(-150, "sql_variant", 8000)),
        (Column("c", 1, "my_type"), JdbcColumn(1111, "my_type", 0)),
    ],
)
def test_a_column_is_described(column, expected):
    assert jdbc_column(column) == expected


def test_every_type_that_is_read_is_known():
    assert {kind for kind in READABLE if jdbc_column(Column("c", 1, kind, 1, 1, 1)).type == 1111} == set()

"""What the server makes of a target's values, and whether it says so where something is lost."""

from __future__ import annotations

import pytest

from adapters.sqlserver.foreign.casts import cast_of
from adapters.sqlserver.foreign.statements import ForeignRead, page
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.tsql import declared
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.model import CollectionId

pytestmark = pytest.mark.integration

KEY = Column("id", 1, "int", nullable=False)
MONEY, BIT, DAY, INT = (Column("v", 2, kind) for kind in ("money", "bit", "date", "int"))
PRICE = Column("v", 2, "decimal", precision=10, scale=2)
FLOAT = Column("v", 2, "float")
DATETIME, GUID, XML = Column("v", 2, "datetime"), Column("v", 2, "uniqueidentifier"), Column("v", 2, "xml")
TEXT, SHORT = Column("v", 2, "nvarchar", 60), Column("v", 2, "varchar", 3)
FIXED = Column("v", 2, "char", 4)
BYTES = Column("v", 2, "varbinary", 20)
GIVEN_GUID = "6f9619ff-8b86-d011-b42d-00c04fc964ff"


def decimal(precision: int, scale: int) -> Column:
    return Column("v", 2, "decimal", precision=precision, scale=scale)


def stamp(scale: int, kind: str = "datetime2") -> Column:
    return Column("v", 2, kind, scale=scale)


@pytest.mark.parametrize(
    ("source", "target", "values"),
    [
        (INT, Column("v", 2, "bigint"), {"7": ("7", 1), "5000000000": ("", 0)}),
        (INT, FLOAT, {"7": ("7", 1), "7.5": (None, 0)}),
        (BIT, INT, {"1": ("1", 1), "2": ("1", 0), "0": ("0", 1)}),
        (PRICE, decimal(20, 6), {"1.25": ("1.25", 1), "1.254": ("1.25", 0)}),
        (PRICE, FLOAT, {"1.25": ("1.25", 1), "1.255": (None, 0), "1e300": ("", 0)}),
        (MONEY, decimal(20, 8), {"1.2345": ("1.2345", 1), "1.23456": ("1.2346", 0)}),
        (FLOAT, decimal(30, 20), {"1.5": (None, 1), "0.12345678901234567891": (None, 0)}),
        (
            PRICE,
            TEXT,
            {
                "'1.25'": ("1.25", 1),
                "'1.2500'": ("1.25", 1),
                "'1.254'": ("1.25", 0),
                "'1,25'": (None, 0),
                "''": ("", 0),
                "'x'": ("", 0),
                "'1.'": ("1.00", 1),
            },
        ),
        (INT, TEXT, {"'7'": ("7", 1), "''": (None, 0), "'-'": (None, 0), "'7.5'": ("", 0)}),
        (FLOAT, TEXT, {"'1e3'": (None, 1), "'one'": ("", 0)}),
        (BIT, TEXT, {"'1'": ("1", 1), "'2'": (None, 0)}),
        (
            DAY,
            TEXT,
            {"'2024-02-29'": ("2024-02-29", 1), "'2024-02-29 12:00:00'": (None, 0), "'2023-02-29'": ("", 0)},
        ),
        (DAY, stamp(7), {"'2024-02-29'": ("2024-02-29", 1), "'2024-02-29 12:00:00'": ("2024-02-29", 0)}),
        (
            DATETIME,
            stamp(7),
            {
                "'2024-02-29 12:00:00.997'": ("2024-02-29 12:00:00.997", 1),
                "'2024-02-29 12:00:00.998'": ("2024-02-29 12:00:00.997", 0),
            },
        ),
        (stamp(7), DATETIME, {"'2024-02-29 12:00:00.997'": ("2024-02-29 12:00:00.9970000", 1)}),
        (
            stamp(3),
            stamp(7),
            {
                "'2024-02-29 12:00:00.123'": ("2024-02-29 12:00:00.123", 1),
                "'2024-02-29 12:00:00.1234'": ("2024-02-29 12:00:00.123", 0),
            },
        ),
        (
            stamp(3, "time"),
            stamp(7, "time"),
            {"'12:00:00.5'": ("12:00:00.500", 1), "'12:00:00.1234'": (None, 0)},
        ),
        (GUID, TEXT, {f"'{GIVEN_GUID}'": (GIVEN_GUID.upper(), 1), "'x'": ("", 0)}),
        (SHORT, TEXT, {"'abcd'": ("abcd", 1), "N'ž'": ("ž", 1)}),
        (FIXED, TEXT, {"'ab'": ("ab  ", 1), "'abcde'": ("abcd", 0), "'ab        '": ("ab  ", 1)}),
        (XML, TEXT, {"'<a/>'": ("<a/>", 1)}),
        (Column("v", 2, "binary", 4), BYTES, {"0x00FF": ("00FF", 1)}),
        (BYTES, Column("v", 2, "binary", 4), {"0x00FF": ("00FF0000", 1)}),
    ],
)
def test_a_value_that_a_cast_changes_is_told(shop, source, target, values):
    """For each value its text, None for any, and whether it counts as unchanged. NULL always does."""
    shop.execute(f"CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v {declared(target)} NULL)")
    told = dict(enumerate([*values, "NULL"]))
    for number, value in told.items():
        shop.execute(f"INSERT INTO dbo.t VALUES ({number}, {value})")
    keyset = Keyset((KEY,))
    read = ReadTable(Table(CollectionId(("shop", "dbo", "t")), (KEY, target)), keyset, keyset, hint="")

    found = shop.query(page(ForeignRead(read, (cast_of(source, target),), ()), None, 100))

    for text, faithful, _named, key in found:
        expected, kept = values.get(told[int(key)], ("", 1))
        shown = text.split("\x1f")[1]
        assert (expected is None or shown == expected, faithful) == (True, kept), (told[int(key)], shown)

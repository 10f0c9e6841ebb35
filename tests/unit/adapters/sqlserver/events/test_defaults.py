"""Defaults of schemas, from the expressions that the server keeps."""

from __future__ import annotations

import pytest

from adapters.sqlserver.events.defaults import default_text
from adapters.sqlserver.server.table import Column


def default(kind: str, expression: str | None, scale: int = 0) -> str | None:
    return default_text(Column("c", 1, kind, 10, 10, scale, default=expression))


@pytest.mark.parametrize(
    ("kind", "expression", "scale", "text"),
    [
        ("bigint", "((3147483648.))", 0, "3147483648"),
        ("int", "((2147483647))", 0, "2147483647"),
        ("int", "(-1)", 0, "-1"),
        ("smallint", "((-5))", 0, "-5"),
        ("tinyint", "((255))", 0, "255"),
        ("bit", "((1))", 0, "1"),
        ("bit", "((0))", 0, "0"),
        ("bit", "('True')", 0, "1"),
        ("bit", "(2)", 0, "1"),
        ("decimal", "((100.12))", 5, "100.12000"),
        ("numeric", "((200.12345))", 3, "200.123"),
        ("decimal", "((1))", 28, "1." + "0" * 28),
        ("decimal", f"(({'8' * 37}.96))", 1, "8" * 36 + "9.0"),
        ("decimal", "((1e-500000000))", 2, "0.00"),
        ("money", "((922337203685477.58))", 4, "922337203685477.5800"),
        ("smallmoney", "(($1.5))", 4, "1.5000"),
        ("float", "((1.2345000000000000e+003))", 0, "1.2345000000000000e+003"),
        ("real", "((-.5))", 0, "-.5"),
        ("date", "('2019-02-03')", 0, "2019-02-03"),
        ("date", "('20190203')", 0, "2019-02-03"),
        ("datetime", "('2019-01-01 00:00:00.000')", 3, "2019-01-01 00:00:00.000"),
        ("datetime", "('2019-01-01 12:34:56.005')", 3, "2019-01-01 12:34:56.007"),
        ("datetime", "('2019-01-01T23:59:59.999')", 3, "2019-01-02 00:00:00.000"),
        ("smalldatetime", "('2019-01-01 12:34:31')", 0, "2019-01-01 12:35:00"),
        ("datetime2", "('2019-01-01 00:00:00.1234567')", 7, "2019-01-01 00:00:00.1234567"),
        ("datetime2", "('2019-01-01')", 2, "2019-01-01 00:00:00.00"),
        ("datetimeoffset", "('2019-01-01 00:00:00.1+02:00')", 3, "2019-01-01 00:00:00.100 +02:00"),
        ("time", "('12:30')", 3, "12:30:00.000"),
        ("time", "('2019-01-01 10:11:12')", 0, "10:11:12"),
        ("varchar", "('aaa')", 0, "aaa"),
        ("char", "('it''s (')", 0, "it's ("),
        ("nvarchar", "(N'ččč')", 0, "ččč"),
        ("text", "((1))", 0, "1"),
        ("ntext", "('')", 0, ""),
        ("binary", "(0x0102ff)", 0, "0102FF"),
        ("varbinary", "(0x)", 0, ""),
    ],
)
def test_a_literal_is_the_default(kind, expression, scale, text):
    assert default(kind, expression, scale) == text


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("int", None),
        ("int", "(NULL)"),
        ("int", "((1)+(2))"),
        ("int", "(NEXT VALUE FOR [dbo].[s])"),
        ("varchar", "(NULL)"),
        ("varchar", "(user_name())"),
        ("varchar", "('a'+'b')"),
        ("datetime", "(getdate())"),
        ("datetime", "('yesterday')"),
        ("datetime", "('')"),
        ("datetime2", "(sysutcdatetime())"),
        ("varbinary", "(newid())"),
        ("uniqueidentifier", "('6F9619FF-8B86-D011-B42D-00C04FC964FF')"),
        ("xml", "('<a/>')"),
        ("sql_variant", "((1))"),
        ("decimal", "((1e500000000))"),
        ("decimal", "((1e9999999999999999999))"),
        ("decimal", f"(({'9' * 39}))"),
        ("bit", "((1e9999999999999999999))"),
        ("datetime", "('9999-12-31 23:59:59.999')"),
        ("smalldatetime", "('9999-12-31 23:59:59.999')"),
    ],
)
def test_anything_else_is_none(kind, expression):
    assert default(kind, expression) is None

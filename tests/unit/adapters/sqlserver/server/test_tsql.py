"""T-SQL as text: quoting, values' texts, literals of keys, rows."""

from __future__ import annotations

import re

import orjson
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from adapters.sqlserver.events.types import conversion
from adapters.sqlserver.server.rows import readable
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.tsql import (
    READABLE,
    declared,
    key_literal,
    key_of,
    key_text,
    may_be_empty,
    quote_ident,
    quote_literal,
    quote_name,
    row_text,
    value_text,
)
from engine.errors import InvariantError
from engine.events.settings import EventSettings
from engine.events.values.row_form import RowMode
from engine.model import CollectionId

TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)


@given(TEXT)
def test_any_name_is_one_name_when_quoted(name):
    # as a column's: sqlglot takes a sign off a table's name that says it is a temporary one
    tree = sqlglot.parse_one(f"SELECT 1 AS {quote_ident(name)}", read="tsql")

    assert [alias.alias for alias in tree.find_all(exp.Alias)] == [name]


@given(TEXT)
def test_any_text_is_one_literal_when_quoted(text):
    found = sqlglot.parse_one(f"SELECT {quote_literal(text)} AS [one]", read="tsql").find(exp.National)

    assert found is not None
    assert found.name == text


def test_a_name_of_parts_is_quoted_part_by_part():
    assert quote_name("d.bo", "a]b") == "[d.bo].[a]]b]"


def test_no_literal_holds_nul():
    with pytest.raises(InvariantError, match="NUL"):
        quote_literal("a\0")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Column("c", 1, "nvarchar", 50), "nvarchar(50)"),
        (Column("c", 1, "varbinary", -1), "varbinary(max)"),
        (Column("c", 1, "decimal", 9, 18, 4), "decimal(18, 4)"),
        (Column("c", 1, "datetime2", 8, 27, 7), "datetime2(7)"),
        (Column("c", 1, "datetime", 8, 23, 3), "datetime"),
        (Column("c", 1, "int", 4, 10), "int"),
    ],
)
def test_a_type_is_declared_as_create_table_says_it(column, expected):
    assert declared(column) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bit", "CONVERT(varchar(20), [a])"),
        ("money", "CONVERT(varchar(30), [a], 2)"),
        ("real", "CONVERT(varchar(30), [a], 3)"),
        ("text", "CONVERT(nvarchar(max), CONVERT(varchar(max), [a]))"),
        ("image", "CONVERT(varchar(max), CONVERT(varbinary(max), [a]), 2)"),
        ("timestamp", "CONVERT(varchar(16), CONVERT(binary(8), [a]), 2)"),
        ("date", "CONVERT(varchar(10), [a], 23)"),
        ("datetimeoffset", "CONVERT(varchar(34), [a], 121)"),
    ],
)
def test_a_value_has_its_types_text(kind, expected):
    assert value_text(Column("a", 1, kind)) == expected


@pytest.mark.parametrize("kind", ["sql_variant", "my type"])
def test_types_without_a_text_are_refused(kind):
    assert kind not in READABLE
    with pytest.raises(InvariantError, match=kind):
        value_text(Column("a", 1, kind))


def test_what_has_a_text_is_what_events_are_made_of():
    settings = EventSettings("tm", "shop")

    assert all(conversion(Column("a", 1, kind, 8, 18, 4), settings) for kind in READABLE)
    assert conversion(Column("a", 1, "sql_variant"), settings) is None


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        (Column("a", 1, "int"), "-7", "CONVERT(int, '-7')"),
        (Column("a", 1, "decimal", 9, 18, 4), "1.2500", "CONVERT(decimal(18, 4), '1.2500')"),
        (Column("a", 1, "date"), "2024-02-29", "CONVERT(date, '2024-02-29', 23)"),
        (Column("a", 1, "time", 5, 16, 7), "12:00:00.0000000", "CONVERT(time(7), '12:00:00.0000000', 121)"),
        (Column("a", 1, "binary", 4), "0aFF", "CONVERT(binary(4), 0x0aff)"),
        (Column("a", 1, "hierarchyid"), "58", "CONVERT(hierarchyid, 0x58)"),
        (Column("a", 1, "timestamp"), "00000000000007D0", "CONVERT(binary(8), 0x00000000000007d0)"),
        (
            Column("a", 1, "nchar", 3, collation="Latin1_General_BIN2"),
            "a'b",
            "CONVERT(nchar(3), N'a''b' COLLATE Latin1_General_BIN2)",
        ),
        (Column("a", 1, "varchar", 3), "ж", "CONVERT(varchar(3), N'ж')"),
        (
            Column("a", 1, "varchar", 3, collation="Cyrillic_General_CI_AS"),
            "\0ж'",
            "CONVERT(varchar(3), CONVERT(nvarchar(4000), 0x000036042700) COLLATE Cyrillic_General_CI_AS)",
        ),
        (
            Column("a", 1, "nchar", 9),
            "\0\U0001f600",
            "CONVERT(nchar(9), CONVERT(nvarchar(4000), 0x00003dd800de))",
        ),
    ],
)
def test_a_key_is_a_literal_of_its_columns_own_type(column, text, expected):
    assert key_literal(column, text) == expected


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ("6100", "a"),
        ("", ""),
        ("3dd800de", "\U0001f600"),
        ("61003dd8", "\0" + "61003dd8"),
        ("00de6100", "\0" + "00de6100"),
        ("00006100", "\0" + "00006100"),
    ],
)
def test_a_bound_of_nvarchar_is_the_key_itself_though_no_utf_8_can_hold_it(units: str, text: str):
    column = Column("a", 1, "nvarchar", 9, collation="Latin1_General_BIN2")

    found = key_of(column, units.upper())

    assert key_text(column) == "CONVERT(varchar(max), CONVERT(varbinary(max), [a]), 2)"
    assert found == text
    assert orjson.loads(orjson.dumps(found)) == text
    plain = found if "\0" not in found else ""
    written = f"N'{plain}'" if plain or not units else f"CONVERT(nvarchar(4000), 0x{units})"
    assert key_literal(column, found) == f"CONVERT(nvarchar(9), {written} COLLATE Latin1_General_BIN2)"


def test_a_key_that_an_older_state_saved_stays_what_it_was():
    column = Column("a", 1, "nvarchar", 9)

    assert key_literal(column, "\0a'") == "CONVERT(nvarchar(9), CONVERT(nvarchar(4000), 0x000061002700))"
    assert key_of(column, None) is None
    assert key_of(Column("a", 1, "varchar", 9), "61") == "61"


@pytest.mark.parametrize("kind", ["text", "ntext", "image", "xml", "sql_variant"])
def test_types_that_no_index_takes_make_no_key(kind):
    with pytest.raises(InvariantError, match="key"):
        key_literal(Column("a", 1, kind), "x")


def test_a_rows_flags_stand_before_its_values():
    columns = [
        Column("i", 1, "int"),
        Column("s", 2, "varchar", 9),
        Column("n", 3, "nchar", 9, nullable=False),
    ]

    assert row_text(columns, alias="t") == (
        "CONCAT(CONVERT(nvarchar(max), N'') COLLATE Latin1_General_BIN2,"
        " CASE WHEN t.[s] IS NULL THEN N't' ELSE N'f' END,"
        " NCHAR(31), CONVERT(varchar(20), t.[i]), NCHAR(31), CONVERT(nvarchar(max), t.[s]),"
        " NCHAR(31), CONVERT(nvarchar(max), t.[n]))"
    )


def test_only_texts_are_escaped_and_by_their_bytes():
    found = row_text([Column("i", 1, "int"), Column("s", 2, "varchar", 9)], RowMode.ESCAPED)

    assert found.count("REPLACE(") == 2
    assert "REPLACE(REPLACE(CONVERT(nvarchar(max), [s]) COLLATE Latin1_General_BIN2, N'\\', N'\\b')" in found
    assert "NCHAR(31), N'\\s')" in found


def test_rows_are_not_read_by_lengths():
    with pytest.raises(InvariantError, match="UTF-8"):
        row_text([Column("i", 1, "int")], RowMode.EXACT)


@pytest.mark.parametrize("width", [0, 1, 83, 84, 125, 126, 400, 1024])
def test_concat_never_has_more_arguments_than_it_takes(width):
    columns = [Column(f"c{number}", number, "nvarchar", 10) for number in range(width)]

    text = row_text(columns)

    calls = list(sqlglot.parse_one(f"SELECT {text} AS [r]", read="tsql").find_all(exp.Concat))
    assert calls
    assert all(2 <= len(call.expressions) <= 254 for call in calls)
    assert [int(digits) for digits in re.findall(r"max\), \[c(\d+)\]", text)] == list(range(width))
    assert text.count("IS NULL") == width


def test_columns_without_a_text_are_left_out_of_rows():
    table = Table(CollectionId(("d", "s", "t")), (Column("a", 1, "int"), Column("v", 2, "sql_variant")))

    assert "[v]" not in row_text(readable(table), RowMode.FAST)


def test_empty_texts_are_possible_for_texts_and_bytes_alone():
    empty = {kind for kind in READABLE if may_be_empty(Column("a", 1, kind))}

    assert empty == {
        *("char", "varchar", "nchar", "nvarchar", "text", "ntext", "xml", "binary", "varbinary", "image"),
        "hierarchyid",
    }

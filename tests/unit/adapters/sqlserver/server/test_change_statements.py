"""Every statement that the adapter builds is T-SQL, as sqlglot's dialect reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
import sqlglot
from sqlglot import exp

from adapters.sqlserver.foreign import statements as foreign_statements
from adapters.sqlserver.foreign.casts import absent, cast_of
from adapters.sqlserver.log.span_planner import Share
from adapters.sqlserver.properties import AGENT_STATUS
from adapters.sqlserver.server import change_statements, metadata, table_statements, tsql
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.rows import readable
from adapters.sqlserver.server.table import Capture, Column, Table
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.events.values.row_form import RowMode
from engine.model import CollectionId

ID = CollectionId(("shop", "dbo", "odd ]'table"))
KINDS = (
    *("bit", "tinyint", "smallint", "int", "bigint", "real", "float", "money", "smallmoney", "date"),
    *("datetime", "smalldatetime", "uniqueidentifier", "timestamp", "text", "ntext", "image", "xml"),
)
COLUMNS = (
    *(Column(f"c {kind}", place, kind) for place, kind in enumerate(KINDS)),
    Column("d", 30, "decimal", precision=18, scale=4),
    Column("n", 31, "numeric", precision=38),
    Column("t", 32, "time", scale=3),
    Column("t2", 33, "datetime2", scale=7),
    Column("to", 34, "datetimeoffset", scale=0),
    *(
        Column(f"{kind}{length}", 40, kind, length, collation="Latin1_General_CI_AS")
        for kind in ("char", "varchar", "nchar", "nvarchar")
        for length in (10, -1)
        if length > 0 or "var" in kind
    ),
    Column("b", 50, "binary", 8),
    Column("vb", 51, "varbinary", -1),
)
WIDE = Table(ID, COLUMNS, primary_key=("c int",))
KEY = tuple(
    column
    for column in COLUMNS
    if column.type not in {"text", "ntext", "image", "xml"} and column.length != -1
)
TEXTS = {
    "date": "2024-02-29",
    "time": "12:34:56.789",
    "uniqueidentifier": "00112233-4455-6677-8899-AABBCCDDEEFF",
    **dict.fromkeys(("datetime", "smalldatetime", "datetime2"), "2024-02-29 12:34:56.789"),
    "datetimeoffset": "2024-02-29 12:34:56 +02:00",
    "real": "1.5000000000000000e+000",
    "money": "1.2500",
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), "O'Neill [é] % ? \\"),
    **dict.fromkeys(("binary", "varbinary", "timestamp"), "00FF"),
}
LSN, LATER = "00000025:00000d98:00a2", "00000025:00000d98:00b0"


def shares() -> Iterator[Share]:
    capture = Capture("dbo_odd ]'", ID, LSN, tuple(column.name for column in COLUMNS), 7, 8)
    yield Share(0, capture, LogPosition(LSN), LogPosition(LATER))
    yield Share(1, capture, LogPosition(LSN, 3, LSN, 4), LogPosition(LATER, 5, LATER, 4))
    yield Share(
        2, replace(capture, commands=False), LogPosition(LSN, 3, LSN, 4), LogPosition(LATER, 0, LATER, 4)
    )


NARROW = Table(ID, COLUMNS[3:5], primary_key=("c int",))

NONE = Keyset(())
TYPES_ELSEWHERE = (
    *((column, column) for column in COLUMNS),
    (Column("c", 1, "int", nullable=False), Column("c]", 1, "bigint")),
    (Column("c", 1, "decimal", precision=10, scale=2), Column("c", 1, "float")),
    (Column("c", 1, "char", 10), Column("c", 1, "nvarchar", 20)),
    (Column("c", 1, "varchar", 10), Column("c", 1, "xml")),
    (Column("c", 1, "datetime"), Column("c", 1, "datetime2", scale=7)),
    (Column("c", 1, "datetime2", scale=3), Column("c", 1, "datetime")),
    (Column("c", 1, "timestamp"), Column("c", 1, "binary", 8)),
    *(
        (Column("c", 1, kind, precision=10, scale=2), Column("c", 1, "nvarchar", 50))
        for kind in ("bit", "int", "real", "decimal", "money", "date", "datetime", "uniqueidentifier")
    ),
)
"""Columns of a source, each with the one that a target has for it."""


def read_tables() -> Iterator[ReadTable]:
    for at in range(0, len(KEY), 3):
        keyset = Keyset(KEY[at : at + 3])
        yield ReadTable(NARROW, keyset, keyset, object_id=8)
    yield ReadTable(WIDE, keyset, keyset, object_id=8)
    yield ReadTable(NARROW, keyset, keyset, missing=COLUMNS, object_id=8)
    yield ReadTable(NARROW, keyset, keyset, hint="", statement="SELECT * FROM dbo.t WHERE a > 1", object_id=8)


def built() -> Iterator[str]:
    yield from (metadata.SERVER, metadata.DATABASE, metadata.FORK, metadata.CAPTURES, metadata.TABLES)
    yield from (metadata.CAPTURED_COLUMNS, metadata.VIEWS, change_statements.MAX_LSN, change_statements.CLOCK)
    yield change_statements.LEAST_LSNS
    yield from (metadata.SWITCHING, metadata.OTHER_CODE_PAGES)
    yield from (table_statements.LOG_END, table_statements.OPEN_TRANSACTIONS, metadata.SNAPSHOTS)
    yield from (
        metadata.columns([8, 9]),
        metadata.columns([]),
        metadata.keys([8]),
    )
    yield metadata.agent_status(AGENT_STATUS, "odd ]'db")
    asked = list(shares())
    yield from (statement.text for statement in bound(asked))
    for mode in (RowMode.FAST, RowMode.ESCAPED):
        told = [change_statements.ShareRead(share, readable(WIDE), mode) for share in asked]
        yield change_statements.change_rows(told).text
        yield change_statements.change_query(told)
    for read in read_tables():
        yield from _of_a_table(read)
    name = tsql.quote_name(*ID.parts[1:])
    yield from (
        table_statements.lock(name),
        table_statements.signal_row(name, ("id", "ty]pe", "data"), "a'b", "snapshot-window-open"),
    )
    yield table_statements.signal_gone(name, "id", "a'b")
    yield from _of_a_target()


def _of_a_target() -> Iterator[str]:
    yield foreign_statements.marker(ID, "a'b")
    for read in (
        ReadTable(WIDE, Keyset(KEY[:2]), Keyset(KEY[:2]), hint=""),
        ReadTable(WIDE, NONE, NONE, hint=""),
    ):
        for source, target in TYPES_ELSEWHERE:
            foreign = foreign_statements.ForeignRead(
                read, (cast_of(source, target), absent(source)), (source,)
            )
            yield foreign_statements.first_row(foreign)
            yield foreign_statements.page(foreign, None, 10)
            yield foreign_statements.page(
                foreign, tuple(TEXTS.get(column.type, "7") for column in KEY[:2]), 10
            )


def bound(asked: list[Share]) -> Iterator[change_statements.BoundStatement]:
    yield change_statements.counts(asked, 100)
    yield change_statements.commits(asked, [5, 6, 7])
    yield change_statements.changes(asked, 10)


def _of_a_table(read: ReadTable) -> Iterator[str]:
    keyset = read.keyset
    low = tuple(TEXTS.get(column.type, "7") for column in keyset.columns)
    nothing = (None, *low[1:])
    conditions = [
        *(keyset.beyond(low), keyset.up_to(low), keyset.between(nothing, low), keyset.between(None, None)),
        keyset.among([low, nothing]),
    ]
    yield table_statements.size(read)
    for condition in conditions:
        yield table_statements.probe(read, condition)
        yield table_statements.edge(read, keyset.order, condition, 1024)
        yield table_statements.edge(read, keyset.reverse_order, condition)
    yield table_statements.run_rows(read, conditions[0], RowMode.FAST, (1, 2))
    yield table_statements.run_rows(read, conditions[1], RowMode.ESCAPED, (1, 2))


@cache
def parsed(text: str) -> tuple[exp.Expr | None, ...]:
    return tuple(sqlglot.parse(text, read="tsql", error_level=sqlglot.ErrorLevel.RAISE))


def faults(text: str) -> list[str]:
    """What keeps a text from being one statement of T-SQL that is understood to its end."""
    trees = parsed(text)
    if len(trees) != 1 or trees[0] is None:
        return [f"{len(trees)} statements"]
    return [f"not understood: {command.sql()}" for command in trees[0].find_all(exp.Command)]


ALL = list(built())


def test_every_statement_is_one_of_t_sql():
    assert {text: found for text in ALL if (found := faults(text))} == {}


def test_what_is_no_t_sql_is_found():
    assert faults("SELECT 1; SELECT 2") == ["2 statements"]
    with pytest.raises(sqlglot.ParseError):
        faults("SELECT TOP (1) [a] FROM t WHERE (")


def test_no_statement_takes_more_rights_than_reading_but_where_the_log_ends_and_whether_the_agent_runs():
    asking = [text for text in ALL if "sys.dm_" in text or "fn_hadr" in text]

    assert sorted(asking) == sorted(
        [table_statements.LOG_END, metadata.agent_status(AGENT_STATUS, "odd ]'db")]
    )


def test_lsns_are_parameters_in_the_order_of_the_text_and_literals_for_spark_alone():
    asked = list(shares())
    told = [change_statements.ShareRead(share, NARROW.columns, RowMode.FAST) for share in asked]
    found = [*bound(asked), change_statements.change_rows(told)]

    assert not [statement.text for statement in found if "0x" in statement.text]
    assert [statement.text.count("?") for statement in found] == [
        len(statement.parameters) for statement in found
    ]
    for statement in found:
        assert statement.parameters == found[-1].parameters
    text, *parameters = (
        change_statements.change_rows(told).text,
        *change_statements.change_rows(told).parameters,
    )
    for value in parameters:
        text = text.replace("?", f"0x{value.hex()}", 1)
    assert text == change_statements.change_query(told)


def test_offset_has_an_order_and_no_top_beside_it():
    offsets = 0
    for text in ALL:
        (tree,) = parsed(text)
        for query in tree.find_all(exp.Select) if tree else ():
            if query.args.get("offset"):
                offsets += 1
                assert query.args.get("order"), text
                assert not isinstance(query.args.get("limit"), exp.Limit), text
    assert offsets > 10


def test_values_are_compared_as_their_own_type():
    keyset = Keyset(
        (Column("a", 1, "varchar", 10, collation="Cyrillic_General_CI_AS"), Column("b", 2, "datetime"))
    )

    found = keyset.beyond(("\u044f'", "2024-02-29 12:34:56.790"))

    text = "CONVERT(varchar(10), N'\u044f''' COLLATE Cyrillic_General_CI_AS)"
    stamp = "CONVERT(datetime, '2024-02-29 12:34:56.790', 121)"
    for part in (f"[a] > {text}", f"[a] = {text}", f"[b] > {stamp}"):
        assert part in found


def test_what_is_ordered_by_is_a_column_and_never_an_alias():
    ordered = [
        ordering for text in ALL for tree in parsed(text) if tree for ordering in tree.find_all(exp.Ordered)
    ]

    assert len(ordered) > 10
    assert [
        ordering.sql()
        for ordering in ordered
        if isinstance(ordering.this, exp.Column) and not ordering.this.table
    ] == ["s.[name]"] * 0


def test_captured_columns_are_asked_for_without_a_join_on_either_of_two_conditions():
    (tree,) = parsed(metadata.CAPTURED_COLUMNS)

    joins = list(tree.find_all(exp.Join)) if tree else []
    assert len(joins) > 3
    assert not [join.sql() for join in joins if join.find(exp.Or)]


def test_no_alias_is_a_word_that_t_sql_reserves():
    reserved = {"PRIMARY", "KEY", "ORDER", "PLAN", "FILE", "USER", "TABLE", "COLUMN", "SCHEMA", "VIEW"}
    aliases = {
        alias.alias.upper()
        for text in ALL
        for tree in parsed(text)
        if tree
        for alias in tree.find_all(exp.Alias)
    }

    assert aliases & reserved <= {"SCHEMA", "TABLE", "COLUMN", "VIEW"}
    assert all("DB_ID()" not in text for text in (metadata.DATABASE, metadata.SNAPSHOTS))

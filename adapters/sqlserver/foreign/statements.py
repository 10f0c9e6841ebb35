"""The T-SQL that reads a target's table as rows of its source. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.sqlserver.server.tsql import joined, key_text, quote_literal, quote_name
from engine.events.values.row_form import RowMode

if TYPE_CHECKING:
    from adapters.sqlserver.foreign.casts import Cast
    from adapters.sqlserver.server.table import Column
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import CollectionId, Key

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
BEGIN = "BEGIN TRANSACTION"


@dataclass(frozen=True, slots=True)
class ForeignRead:
    """A target's table, and the casts of its columns. A table without a key has an empty keyset.

    `keys` are the source's columns that identify rows; they say whether they may be NULL there.
    """

    read: ReadTable
    casts: tuple[Cast, ...]
    keys: tuple[Column, ...]


def first_row(foreign: ForeignRead) -> str:
    """Access the table: only then does a snapshot begin."""
    return f"SELECT TOP (1) 1 AS [one] FROM {foreign.read.relation}"


def page(foreign: ForeignRead, after: Key | None, rows: int) -> str:
    """`rows` rows behind a key, in its order; all rows of a table without a key.

    Of each its text, whether it has lost nothing, whether the source can have its key, and its own key.
    """
    keyset, casts = foreign.read.keyset, foreign.casts
    text = joined([(cast.column, cast.value) for cast in casts], RowMode.ESCAPED)
    faithful = [f"({cast.faithful})" for cast in casts if cast.faithful]
    may_be_null = {column.name: column.nullable for column in foreign.keys}
    keys = [cast for cast in casts if cast.column.name in may_be_null]
    named = [f"{cast.value} IS NOT NULL" for cast in keys if not may_be_null[cast.column.name]]
    named += [f"({cast.faithful})" for cast in keys if cast.faithful]
    shown = [f"{text} AS [r]", f"{_flag(faithful)} AS [f]", f"{_flag(named)} AS [k]"]
    if not keyset.columns:
        return f"SELECT {', '.join(shown)} FROM {foreign.read.relation}"
    shown += [f"{key_text(column)} AS [key{place}]" for place, column in enumerate(keyset.columns)]
    where = "" if after is None else f" WHERE {keyset.beyond(after)}"
    return (
        f"SELECT TOP ({rows}) {', '.join(shown)} FROM {foreign.read.relation}{where} ORDER BY {keyset.order}"
    )


def _flag(conditions: list[str]) -> str:
    """1 if all conditions hold, 0 if one does not or is unknown."""
    return f"CASE WHEN {' AND '.join(conditions)} THEN 1 ELSE 0 END" if conditions else "1"


def marker(table: CollectionId, row_id: str) -> str:
    """A row if the table of markers has this one."""
    name = quote_name(*table.parts[1:])
    return f"SELECT TOP (1) 1 AS [one] FROM {name} WHERE [id] = {quote_literal(row_id)}"

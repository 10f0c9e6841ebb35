"""The T-SQL that reads a target's table as rows of its source. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.sqlserver.server.tsql import joined, key_text, quote_literal, quote_name
from engine.events.values.row_form import RowMode

if TYPE_CHECKING:
    from adapters.sqlserver.foreign.casts import Cast
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import CollectionId, Key

SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
BEGIN = "BEGIN TRANSACTION"


@dataclass(frozen=True, slots=True)
class ForeignRead:
    """A target's table, and the casts of its columns. A table without a key has an empty keyset."""

    read: ReadTable
    casts: tuple[Cast, ...]


def first_row(foreign: ForeignRead) -> str:
    """Access the table: only then does a snapshot begin."""
    return f"SELECT TOP (1) 1 AS [one] FROM {foreign.read.relation}"


def page(foreign: ForeignRead, after: Key | None, rows: int) -> str:
    """Rows as text, whether each is faithful, and its key's parts: `rows` of them behind a key, in its order.

    All rows of a table without a key.
    """
    keyset, casts = foreign.read.keyset, foreign.casts
    text = joined([(cast.column, cast.value) for cast in casts], RowMode.ESCAPED)
    lossless = [f"({cast.faithful})" for cast in casts if cast.faithful]
    faithful = f"CASE WHEN {' AND '.join(lossless)} THEN 1 ELSE 0 END" if lossless else "1"
    shown = [f"{text} AS [r]", f"{faithful} AS [f]"]
    if not keyset.columns:
        return f"SELECT {', '.join(shown)} FROM {foreign.read.relation}"
    shown += [f"{key_text(column)} AS [key{place}]" for place, column in enumerate(keyset.columns)]
    where = "" if after is None else f" WHERE {keyset.beyond(after)}"
    return (
        f"SELECT TOP ({rows}) {', '.join(shown)} FROM {foreign.read.relation}{where} ORDER BY {keyset.order}"
    )


def marker(table: CollectionId, row_id: str) -> str:
    """A row if the table of markers has this one."""
    name = quote_name(*table.parts[1:])
    return f"SELECT TOP (1) 1 AS [one] FROM {name} WHERE [id] = {quote_literal(row_id)}"

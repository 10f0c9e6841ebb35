"""The T-SQL statements that measure tables, find chunk bounds and read rows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.sqlserver.server.tsql import key_text, quote_ident, quote_literal, row_text, typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.events.values.row_form import RowMode
    from engine.model import Key


def size(read: ReadTable) -> str:
    """A table's rows and bytes from the server's own counters, which every reader of the table may see."""
    table = f"p.[object_id] = {read.object_id} AND p.[index_id] IN (0, 1)"
    return (
        f"SELECT COALESCE((SELECT SUM(p.[rows]) FROM sys.partitions AS p WHERE {table}), 0) AS [rows],"
        " COALESCE((SELECT SUM(a.[used_pages]) FROM sys.partitions AS p JOIN sys.allocation_units AS a"
        f" ON a.[container_id] IN (p.[hobt_id], p.[partition_id]) WHERE {table}), 0) * 8192 AS [bytes]"
    )


def edge(read: ReadTable, order: str, where: str = "", skipped: int = 0) -> str:
    """The key of one row, in the form of `tsql.key_of`: the first in an order after `skipped` rows."""
    texts = ", ".join(
        f"{key_text(column)} AS [key{place}]" for place, column in enumerate(read.keyset.columns)
    )
    condition = f" WHERE {where}" if where else ""
    return (
        f"SELECT {texts} FROM {read.relation}{condition}"
        f" ORDER BY {order} OFFSET {skipped} ROWS FETCH NEXT 1 ROWS ONLY"
    )


def ranked(read: ReadTable, keys: Sequence[Key]) -> str:
    """Keys that a signal gives, in order, with their ranks in the key's own order."""
    columns = read.keyset.columns
    names = [f"[k{place}]" for place in range(len(columns))]
    rows = ", ".join(
        f"({number}, {', '.join(typed(column, text) for column, text in zip(columns, key, strict=True))})"
        for number, key in enumerate(keys)
    )
    texts = ", ".join(
        f"{key_text(column, name)} AS [key{place}]"
        for place, (column, name) in enumerate(zip(columns, names, strict=True))
    )
    return (
        f"SELECT DENSE_RANK() OVER (ORDER BY {', '.join(names)}) AS [rank], {texts}"
        f" FROM (VALUES {rows}) AS k ([number], {', '.join(names)}) ORDER BY k.[number]"
    )


def probe(read: ReadTable, condition: str = "1 = 1") -> str:
    """Returns no rows: only checks that the rows may be read, and that the condition compiles."""
    return f"SELECT TOP (0) 1 AS [one] FROM {read.relation} WHERE ({condition}\n)"


def run_rows(read: ReadTable, where: str, mode: RowMode, numbers: tuple[int, int]) -> str:
    """The rows of a run as text. `numbers` are the run's and its task's."""
    run, task = numbers
    text = row_text(read.columns, mode, "t")
    return f"SELECT {run} AS [run], {task} AS [task], {text} AS [r] FROM {read.relation} WHERE {where}"


def signal_row(table: str, columns: Sequence[str], *row: str | None) -> str:
    """Insert a row into the signal table: an id, a type, and the data if it has any.

    `columns` are those of the id, the type and the data.
    """
    named = ", ".join(map(quote_ident, columns))
    values = ["NULL" if value is None else quote_literal(value) for value in (*row, None)[: len(columns)]]
    return f"INSERT INTO {table} ({named}) VALUES ({', '.join(values)})"


def signal_gone(table: str, column: str, row_id: str) -> str:
    """Delete a row of the signal table. `column` is the id's."""
    return f"DELETE FROM {table} WHERE {quote_ident(column)} = {quote_literal(row_id)}"


LOG_END = "SELECT CONVERT(nvarchar(30), s.[log_end_lsn]) AS [lsn] FROM sys.dm_db_log_stats(DB_ID()) AS s"
"""The end of the transaction log, as `00000025:00000d98:00a2`."""

OPEN_TRANSACTIONS = "SELECT @@TRANCOUNT AS [open]"
"""The number of transactions that the session has open."""


def lock(table: str) -> str:
    """Take an exclusive lock on a table until the transaction ends."""
    return f"SELECT TOP (1) 1 AS [one] FROM {table} WITH (TABLOCKX, HOLDLOCK)"

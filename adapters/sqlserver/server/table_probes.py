"""What is asked about the rows of one table: its size, and keys of its index. None scans the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from adapters.disclosure import condition_refused
from adapters.sqlserver.server import table_statements
from adapters.sqlserver.server.execution import rows
from adapters.sqlserver.server.failures import busy, native_number, table_errors
from adapters.sqlserver.server.tsql import key_of
from engine.snapshot.scope import RankedKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import Key, Range

_MEASURING = "measuring the table"


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table's rows and bytes, as the server counts them."""

    rows: int
    bytes: int


class TableProbes:
    """Questions about a table that is read as a `ReadTable` says.

    They raise SchemaChanged if the table was dropped or changed, TableBusy if a lock can't be had.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def size(self, read: ReadTable) -> TableSize:
        """The table's size."""
        with table_errors(_MEASURING, read.table.id):
            ((count, size),) = rows(self._connection, table_statements.size(read))
        return TableSize(int(count), int(size))

    def refusal(self, read: ReadTable, *, filtered: bool) -> str | None:
        """Why the server refuses to read rows by a signal's filter; None if it does not.

        The server only compiles the query. If it is not `filtered` every refusal is an error.
        """
        with table_errors(_MEASURING, read.table.id):
            if not filtered:
                rows(self._connection, table_statements.probe(read))
                return None
            try:
                rows(self._connection, table_statements.probe(read, read.condition or "1 = 1"))
            except SQLAlchemyError as error:
                if busy(error):
                    raise
                return condition_refused(native_number(error) or None)
        return None

    def greatest_key(self, read: ReadTable) -> Key | None:
        """The greatest key of the committed rows; None without rows."""
        with table_errors(_MEASURING, read.table.id):
            return self._key(read, read.keyset.reverse_order)

    def least_key(self, read: ReadTable) -> Key | None:
        """The least key, read without locks, so that of an uncommitted row may count; None without rows."""
        with table_errors(_MEASURING, read.table.id):
            return self._key(unlocked(read), read.keyset.order)

    def key_inside(self, read: ReadTable, part: Range, skipped: int) -> Key | None:
        """The key that follows `skipped` others in a range, read without locks; None past the end."""
        with table_errors("finding chunk boundaries", read.table.id):
            return self._key(unlocked(read), read.keyset.order, read.keyset.inside(part), skipped)

    def ranked(self, read: ReadTable, keys: Sequence[Key]) -> list[RankedKey] | str:
        """Keys that a signal gives, as the server writes and ranks them; or why it refuses them."""
        with table_errors(_MEASURING, read.table.id):
            try:
                found = rows(self._connection, table_statements.ranked(read, keys))
            except SQLAlchemyError as error:
                if busy(error):
                    raise
                return condition_refused(native_number(error) or None)
        return [
            RankedKey(
                tuple(key_of(column, value) for column, value in zip(read.keyset.columns, key, strict=True)),
                int(rank),
            )
            for rank, *key in found
        ]

    def _key(self, read: ReadTable, order: str, where: str = "", skipped: int = 0) -> Key | None:
        found = rows(self._connection, table_statements.edge(read, order, where, skipped))
        if not found:
            return None
        return tuple(
            key_of(column, value) for column, value in zip(read.keyset.columns, found[0], strict=True)
        )


def unlocked(read: ReadTable) -> ReadTable:
    """The table for finding keys to cut at: without locks, so uncommitted rows may count."""
    return replace(read, hint="NOLOCK")

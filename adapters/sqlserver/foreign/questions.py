"""What is asked of a SQL Server whose tables somebody else keeps: their columns, their rows, its markers."""

from __future__ import annotations

from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pyarrow as pa

from adapters.sqlserver.foreign import statements
from adapters.sqlserver.server.execution import portions, rows, run
from adapters.sqlserver.server.failures import source_errors, table_errors
from adapters.sqlserver.server.questions import Questions
from adapters.sqlserver.server.tsql import key_of

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from adapters.sqlserver.foreign.statements import ForeignRead
    from adapters.sqlserver.server.table import Column, Table
    from engine.model import CollectionId, Key

_NAMED, _OWN_KEY = 2, 3
"""Where a row of `statements.page` says whether it is named, and where its own key begins."""


class PageRows(NamedTuple):
    """Some rows of a page: their texts, whether each has lost nothing, and the key of the last one.

    `named` says whether the source can have a row's key; `others` are the keys that it can't have, as JSON.
    """

    texts: pa.Array
    faithful: pa.Array
    named: pa.Array
    others: pa.Array
    last: Key


class DescribedTable(NamedTuple):
    """A table with all its columns, and its number."""

    table: Table
    object_id: int


class ForeignQuestions(Questions):
    """One connection to a target. Used by one thread."""

    def described(self, name: CollectionId) -> DescribedTable | None:
        """The table of this name; None if there is none."""
        listed = [table for table in self.catalog.listed() if table.id == name and not table.view]
        return next(
            (DescribedTable(table, listed[0].object_id) for table in self.catalog.describe(listed[:1])), None
        )

    def has_marker(self, table: CollectionId, row_id: str) -> bool:
        """Whether a table of markers has this row."""
        with table_errors("looking for a marker", table):
            return bool(rows(self._connection, statements.marker(table, row_id)))

    def take_snapshot(self, foreign: ForeignRead) -> None:
        """Read everything as of now, from here on. Raises ConfigError if the database does not allow it."""
        with source_errors("taking a snapshot", self.database):
            run(self._connection, statements.SNAPSHOT)
            run(self._connection, statements.BEGIN)
        with table_errors("taking a snapshot", foreign.read.table.id):
            rows(self._connection, statements.first_row(foreign))

    def page(
        self, foreign: ForeignRead, after: Key | None, page_rows: int, fetched: int
    ) -> Generator[PageRows]:
        """The rows of `statements.page`, some `fetched` of them at a time."""
        with (
            table_errors("reading rows", foreign.read.table.id),
            closing(portions(self._connection, statements.page(foreign, after, page_rows), fetched)) as found,
        ):
            for some in found:
                yield _page_rows(foreign, some)


def _page_rows(foreign: ForeignRead, found: Sequence[Sequence[Any]]) -> PageRows:
    texts, faithful, named = list(zip(*found, strict=True))[:_OWN_KEY]
    columns = foreign.read.keyset.columns
    return PageRows(
        pa.array(texts, pa.large_string()),
        pa.array(faithful, pa.int8()).cast(pa.bool_()),
        pa.array(named, pa.int8()).cast(pa.bool_()),
        pa.array([_own_name(columns, row) for row in found if not row[_NAMED]], pa.large_string()),
        _own_key(columns, found[-1]),
    )


def _own_key(columns: Sequence[Column], row: Sequence[Any]) -> Key:
    return tuple(key_of(column, value) for column, value in zip(columns, row[_OWN_KEY:], strict=True))


def _own_name(columns: Sequence[Column], row: Sequence[Any]) -> str:
    """A row by the target's own key, as texts; by a digest without a key."""
    key = zip((column.name for column in columns), _own_key(columns, row), strict=True)
    return orjson.dumps(dict(key) or {"row": sha256(row[0].encode()).hexdigest()}).decode()

"""The port of tables in a lake: what a merge needs of Delta Lake or Iceberg.

Every write carries the number of the newest turn in it. A write whose number the table has already does
nothing, so a merge that is repeated after a crash takes effect once.

A replica gets a row for each key that has changed: with its columns, or only its key if the row is deleted.
Beside the table's columns the rows have these:

- `__tidemark_deleted`: the row with this key is to be deleted
- `__tidemark_keep_N`: the table's value of the Nth of `Batch.kept` is kept
- `__tidemark_base_N`: the key of another row, whose values are kept; null if it is the row's own
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.lake.table_name import TableName


DELETED: Final = "__tidemark_deleted"
KEEP: Final = "__tidemark_keep_{}"
BASE: Final = "__tidemark_base_{}"


@dataclass(frozen=True, slots=True)
class Batch:
    """What a table gets.

    - `rows` have the table's `columns` and those of above
    - `key` are the columns by which rows are found, texts of key columns included
    - `truncated`: all rows of before are gone
    - `only_reads`: all rows were read by a snapshot
    - `kept` are the columns of which some rows keep the table's value
    - `moved`: some of them are another row's
    - `texts` are the columns that have the text of what another can't hold
    """

    rows: pa.Table
    columns: pa.Schema
    key: tuple[str, ...]
    truncated: bool = False
    only_reads: bool = False
    kept: tuple[str, ...] = ()
    moved: bool = False
    texts: frozenset[str] = frozenset()

    def renamed(self, names: Mapping[str, str]) -> Batch:
        """The batch with other names of columns."""
        if not names:
            return self
        return replace(
            self,
            rows=self.rows.rename_columns([names.get(name, name) for name in self.rows.column_names]),
            columns=pa.schema([field.with_name(names.get(field.name, field.name)) for field in self.columns]),
            key=tuple(names.get(name, name) for name in self.key),
            kept=tuple(names.get(name, name) for name in self.kept),
        )


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table that is there: what tells it from one that replaced it, its newest turn, its columns' types."""

    id: str
    turn: int | None
    columns: Mapping[str, str]


class TableIdentity(NamedTuple):
    """What tells a table from others, its newest turn, and its version; None for one without content."""

    id: str
    turn: int | None
    version: int | None


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table to be created: types by column, the key's columns, and settings of it."""

    columns: Mapping[str, str]
    key: tuple[str, ...]
    comment: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    partition: str = ""
    cluster: str = ""


class LakeTables(Protocol):
    """The tables. All methods raise SinkError."""

    def look(self, name: TableName) -> TableDescription | None:
        """The table as it is now; None if it is missing."""

    def create(self, name: TableName, table: NewTable) -> None:
        """Create a table."""

    def alter(self, name: TableName, added: Mapping[str, str], widened: Mapping[str, str]) -> None:
        """Add columns, and give others wider types."""

    def column_type(self, kind: pa.DataType) -> str:
        """The type of a column for values of an Arrow type."""

    def widens(self, old: str, new: str) -> bool:
        """Whether a column's type can become another one that holds all its values."""

    def append(self, name: TableName, rows: pa.Table, turn: int) -> None:
        """Add rows."""

    def write(self, name: TableName, batch: Batch, turn: int) -> None:
        """Make a replica's rows those of a batch."""

    def tend(self, name: TableName, retention_s: float) -> None:
        """Compact small files, and expire what is older. The newest turn stays known."""

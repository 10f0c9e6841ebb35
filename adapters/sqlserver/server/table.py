"""A captured table: its columns, keys and capture instances.

Values only: `catalog.py` reads them from the server, `history.py` from the schema history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.model import CollectionId

_LARGE = frozenset(("text", "ntext", "image", "xml"))
_MAX = frozenset(("varchar", "nvarchar", "varbinary"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column as the server describes it.

    `type` is the base type's name in lower case without arguments (`varchar`, `datetime2`). `length` is in
    characters or bytes as declared, -1 for `max`. `precision` and `scale` are as in sys.columns. `default` is
    the default's expression as the server shows it, or None. `collation` is that of text columns.
    """

    name: str
    position: int
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    nullable: bool = True
    identity: bool = False
    computed: bool = False
    default: str | None = None
    collation: str = ""

    @property
    def large(self) -> bool:
        """Whether an update that leaves the value unchanged may omit it from the log's old row."""
        return self.type in _LARGE or (self.type in _MAX and self.length < 0)

    @property
    def may_be_null(self) -> bool:
        """Whether rows may have NULL here.

        The log has NULL for omitted large values and for computed columns.
        """
        return self.nullable or self.computed or self.large


@dataclass(frozen=True, slots=True)
class Table:
    """A table, `(database, schema, table)`, with the columns that its log has, in order.

    `primary_key` has the names of its columns; `unique_key` those of a unique index of NOT NULL columns,
    which replaces a missing primary key. `lost` are columns of the log that were dropped from the table under
    the capture instance. The table may have another column of such a name.
    """

    id: CollectionId
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    unique_key: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row; empty if none do."""
        return self.primary_key or self.unique_key

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture instance: the change table of one table from `start` on, an LSN as text.

    `captured` are the names of its columns, in order. A table has at most two instances; the younger takes
    over at its own start. `created` is the creation time as text that sorts: clean-up raises `start` of both
    instances, which then no longer shows which is older. `commands` says whether the change table has
    `__$command_id`. One made before the server supported it has not.
    """

    name: str
    table: CollectionId
    start: str
    captured: tuple[str, ...]
    object_id: int = 0
    source_object_id: int = 0
    created: str = ""
    commands: bool = True

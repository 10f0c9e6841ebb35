"""What is known of a captured table: its columns, its keys, the capture instances that log it.

Values only; `catalog.py` reads them from the server, `history.py` from what was saved.
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

    `type` is the base type's name in small letters without arguments (`varchar`, `datetime2`); `length` in
    characters or bytes as declared, -1 for `max`; `precision` and `scale` as in sys.columns; `default` is
    the default's expression as the server shows it, None for none. `collation` is that of texts.
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
        """Whether an update that leaves the value alone may leave it out of the log's old row."""
        return self.type in _LARGE or (self.type in _MAX and self.length < 0)

    @property
    def may_be_null(self) -> bool:
        """Whether rows may have NULL here: the log has for large values left out, and for computed ones."""
        return self.nullable or self.computed or self.large


@dataclass(frozen=True, slots=True)
class Table:
    """A table, `(database, schema, table)`, with the columns that its log has, in their order.

    `primary_key` are the names of its columns; `unique_key` those of a unique index of NOT NULL columns,
    which stands in for a missing primary key.
    """

    id: CollectionId
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    unique_key: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies a row; empty where nothing does."""
        return self.primary_key or self.unique_key

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((one for one in self.columns if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Capture:
    """A capture instance: the change table of one table from `start` on, an LSN as text.

    `captured` are the names of the columns that it has, in its order. A table has at most two; the younger
    takes over at its own start. `created` is the time of its making, as text that sorts; cleaning up
    raises `start` of both, and then tells no more which is older. `commands` says whether its change table
    has `__$command_id`; one that was made before the server knew of it has not.
    """

    name: str
    table: CollectionId
    start: str
    captured: tuple[str, ...]
    object_id: int = 0
    source_object_id: int = 0
    created: str = ""
    commands: bool = True

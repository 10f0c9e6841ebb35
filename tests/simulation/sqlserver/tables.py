"""The tables of the simulated SQL Server: their columns, their rows in place, and their capture instances.

t, u    a key `id`, a `pos` that a signal may cut them by and that may be NULL, a `large` value
b       no key; a signal cuts it by `n`
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from adapters.sqlserver.server.position import lsn_of_hex
from adapters.sqlserver.server.table import Capture, Column, Table
from adapters.sqlserver.server.tsql import TEXTS, may_be_empty
from engine.events.values.row_form import ESCAPES, SEPARATOR, RowMode
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DATABASE = "db"
T, U, B, SIGNALS = (CollectionId((DATABASE, "dbo", name)) for name in ("t", "u", "b", "signals"))
TABLES = (T, U, B)
NAMES = {"t": T, "u": U, "b": B}
Values: TypeAlias = "dict[str, Any]"
DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4


@lru_cache(1 << 12)
def lsn(number: int) -> str:
    """An LSN as the adapter writes it."""
    return lsn_of_hex(f"{number:020x}")


@lru_cache(1 << 12)
def number_of(lsn: str) -> int:
    """The number of an LSN. Numbers are in the order of their LSNs."""
    return int(lsn.replace(":", ""), 16)


class ChangeRow(NamedTuple):
    """A row of a change table."""

    commit: int
    command: int
    change: int
    operation: int
    committed: str
    values: Values


@dataclass(slots=True)
class Instance:
    """A capture instance. `start` is the commit from which its change table is whole; -1: not yet known."""

    name: str
    object_id: int
    captured: tuple[Column, ...]
    created: str
    enabled: int
    start: int = -1
    rows: list[ChangeRow] = field(default_factory=list)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.names = tuple(column.name for column in self.captured)


@dataclass(slots=True)
class SimTable:
    """A table. `rows` are as they stand, uncommitted changes included; `committed` are without those."""

    object_id: int
    id: CollectionId
    columns: tuple[Column, ...]
    key: str
    primary: tuple[str, ...]
    rows: dict[Any, Values] = field(default_factory=dict)
    committed: dict[Any, Values] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)
    dropped: dict[str, Column] = field(default_factory=dict)

    def described(self) -> Table:
        """The table with its present columns."""
        return Table(self.id, self.columns, self.primary)

    def as_captured(self, instance: Instance) -> Table:
        """The table with the columns of a capture instance, as they are defined now."""
        now = {column.name: column for column in self.columns}
        columns = tuple(
            _at(now.get(column.name, column), number) for number, column in enumerate(instance.captured, 1)
        )
        have = {column.name for column in columns}
        return Table(self.id, columns, self.primary if have.issuperset(self.primary) else ())

    def capture(self, instance: Instance) -> Capture:
        """A capture instance as the catalog has it."""
        ids = (instance.object_id, self.object_id)
        return _capture(instance.name, self.id, instance.start, instance.names, *ids, instance.created)

    def whole(self, values: Values) -> Values:
        """A row with all columns."""
        return {column.name: values.get(column.name) for column in self.columns}


def _at(column: Column, place: int) -> Column:
    return column if column.position == place else replace(column, position=place)


@lru_cache(1 << 8)
def _capture(name: str, table: CollectionId, start: int, names: tuple[str, ...], *rest: Any) -> Capture:
    """The same instance is asked for again and again, and is the same value then."""
    return Capture(name, table, lsn(start), names, *rest)


def keyed(number: int, name: CollectionId, *, nullable: bool) -> SimTable:
    """A table with a key, whose large value may be NULL or not."""
    columns = (
        Column("id", 1, "int", 4, 10, nullable=False),
        Column("value", 2, "varchar", 60, nullable=False, collation="Latin1_General_BIN2"),
        Column("pos", 3, "int", 4, 10),
        Column("large", 4, "nvarchar", -1, nullable=nullable, collation="Latin1_General_BIN2"),
    )
    return SimTable(number, name, columns, "id", ("id",))


def bag(number: int) -> SimTable:
    """The table without a key."""
    columns = (
        Column("n", 1, "int", 4, 10, nullable=False),
        Column("value", 2, "varchar", 60, nullable=False, collation="Latin1_General_BIN2"),
    )
    return SimTable(number, B, columns, "n", ())


def signal_table(number: int) -> SimTable:
    """The signal table."""
    columns = tuple(
        Column(name, place, "varchar", length, nullable=place == 3, collation="Latin1_General_BIN2")
        for place, (name, length) in enumerate((("id", 42), ("type", 32), ("data", 2048)), 1)
    )
    return SimTable(number, SIGNALS, columns, "id", ("id",))


def row_text(values: Values, columns: Sequence[Column], mode: RowMode) -> str:
    """A row as the expression of `tsql.row_text` writes it."""
    flags = "".join(
        "t" if values.get(column.name) is None else "f"
        for column in columns
        if column.may_be_null and may_be_empty(column)
    )
    return flags + "".join(_values(values, columns, mode))


def _values(values: Values, columns: Sequence[Column], mode: RowMode) -> Iterable[str]:
    for column in columns:
        value = values.get(column.name)
        text = "" if value is None else str(value)
        if mode is RowMode.ESCAPED and column.type in TEXTS:
            for plain, written in ESCAPES:
                text = text.replace(plain, written)
        yield SEPARATOR + text

"""What is asked of a database's catalog: what it is, its tables and its capture instances.

A fixed number of queries. Every login may read the catalog for objects that it has rights on. Whether a table
can be snapshotted is decided elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import SQLAlchemyError

from adapters.sqlserver.server import metadata
from adapters.sqlserver.server.execution import rows
from adapters.sqlserver.server.failures import NO_SUCH_OBJECT, native_number, source_errors
from adapters.sqlserver.server.forks import Fork
from adapters.sqlserver.server.position import lsn_of, lsn_of_decimal
from adapters.sqlserver.server.table import Capture, Column, Table
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

_TWO_BYTES = frozenset({"nchar", "nvarchar"})
_NOT_SHOWN = frozenset({NO_SUCH_OBJECT, 229, 297, 300})
"""There is no such view, or the login may not read it."""
_NEWER_NAMES = {"rowversion": "timestamp"}


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table or view that a name may refer to, captured by CDC or not."""

    id: CollectionId
    object_id: int = 0
    tracked: bool = False
    view: bool = False
    indexed: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """What a database is: whether CDC is enabled, whether it can be written to, its identity and its name.

    The identity has two marks, separated by a bar (`metadata.DATABASE`). The name is as the server spells it,
    which takes it in any letter case unless the server's collation is case-sensitive.
    """

    cdc: bool
    writable: bool
    identity: str
    name: str


@dataclass(frozen=True, slots=True)
class SwitchableTable:
    """A captured partitioned table. CDC does not capture rows of partitions switched in or out."""

    table: CollectionId
    instance: str


@dataclass(frozen=True, slots=True)
class OtherCodePage:
    """A captured column whose characters CDC may lose: its code page differs from the database's."""

    table: CollectionId
    column: str
    collation: str


class Catalog:
    """Questions about one database and its tables."""

    def __init__(self, connection: Connection, database: str) -> None:
        self._connection, self._database = connection, database

    def description(self) -> Description | None:
        """What the database is; None if the server does not tell."""
        found = self._rows("asking what the database is", metadata.DATABASE)
        if not found:
            return None
        cdc, updateability, identity, name = found[0]
        return Description(bool(cdc), updateability == "READ_WRITE", str(identity), str(name))

    def fork(self) -> Fork | None:
        """The database's recovery fork; None if the server does not tell this login, or any."""
        with source_errors("asking for the recovery fork", self._database):
            try:
                found = rows(self._connection, metadata.FORK)
            except SQLAlchemyError as error:
                if native_number(error) not in _NOT_SHOWN:
                    raise
                return None
        if not found or not found[0][0]:
            return None
        fork, first, point = found[0]
        left = first if first and first != fork and point else ""
        return Fork(fork, left, lsn_of_decimal(point) if left else "")

    def allows_snapshots(self) -> bool:
        """Whether transactions may use snapshot isolation."""
        found = self._rows("asking for snapshot isolation", metadata.SNAPSHOTS)
        return bool(found and found[0][0] == 1)

    def switching(self) -> list[SwitchableTable]:
        """The captured tables whose partitions may be switched without a change row."""
        found = self._rows("asking what CDC can't capture", metadata.SWITCHING)
        return [SwitchableTable(self._id(schema, table), instance) for schema, table, instance in found]

    def other_code_pages(self) -> list[OtherCodePage]:
        """The captured columns of another code page than the database's."""
        found = self._rows("asking what CDC can't capture", metadata.OTHER_CODE_PAGES)
        return [
            OtherCodePage(self._id(schema, table), column, collation)
            for schema, table, column, collation in found
        ]

    def captures(self, selected: Callable[[CollectionId], bool]) -> tuple[Capture, ...]:
        """The capture instances of the tables that `selected` chooses, by table, the older first."""
        doing = "reading the capture instances"
        found = [
            (self._id(schema, table), name, lsn_of(bytes.fromhex(start)), *rest)
            for name, schema, table, start, *rest in self._rows(doing, metadata.CAPTURES)
        ]
        chosen = [instance for instance in found if selected(instance[0])]
        captured: dict[int, list[str]] = defaultdict(list)
        for row in self._rows(doing, metadata.CAPTURED_COLUMNS) if chosen else ():
            captured[row[0]].append(row[1])
        return tuple(
            Capture(name, table, start, tuple(captured[change]), change, source, created, bool(commands))
            for table, name, start, change, source, created, commands in chosen
        )

    def tables(self, captures: Sequence[Capture]) -> tuple[Table, ...]:
        """The table of each capture instance, with the columns that its log has."""
        if not captures:
            return ()
        doing = "reading the capture instances"
        found = _by_object(self._rows(doing, metadata.CAPTURED_COLUMNS))
        keys = _keys(self._rows(doing, metadata.keys(capture.source_object_id for capture in captures)))
        return tuple(
            _table(
                capture.table, found.get(capture.object_id, ()), keys.get(capture.source_object_id, _NO_KEYS)
            )
            for capture in captures
        )

    def listed(self) -> tuple[ListedTable, ...]:
        """Every user table and view, selected or not, by name."""
        tables = [
            ListedTable(self._id(schema, name), number, tracked=bool(tracked))
            for schema, name, number, tracked in self._rows("listing tables", metadata.TABLES)
        ]
        views = [
            ListedTable(self._id(schema, name), view=True, indexed=bool(indexed))
            for schema, name, indexed in self._rows("listing tables", metadata.VIEWS)
        ]
        return (*tables, *views)

    def describe(self, listed: Iterable[ListedTable]) -> tuple[Table, ...]:
        """Tables with all their columns, captured or not. A dropped table has none."""
        wanted = list(listed)
        numbers = [table.object_id for table in wanted]
        found = _by_object(self._rows("reading the catalog", metadata.columns(numbers)))
        keys = _keys(self._rows("reading the catalog", metadata.keys(numbers)))
        return tuple(
            _table(table.id, found.get(table.object_id, ()), keys.get(table.object_id, _NO_KEYS))
            for table in wanted
        )

    def _id(self, schema: str, name: str) -> CollectionId:
        return CollectionId((self._database, schema, name))

    def _rows(self, doing: str, statement: str) -> list[tuple[Any, ...]]:
        with source_errors(doing, self._database):
            return rows(self._connection, statement)


_Keys = tuple[tuple[str, ...], tuple[str, ...]]
_NO_KEYS: _Keys = ((), ())
_ListedColumn = tuple[Column, bool]
"""A column, and whether the table has it still."""


def uncaptured(listed: Iterable[ListedTable], captures: Iterable[Capture]) -> tuple[CollectionId, ...]:
    """The tables among `listed` without a capture instance."""
    known = {capture.table for capture in captures}
    return tuple(table.id for table in listed if not table.view and table.id not in known)


def _by_object(found: Iterable[tuple[Any, ...]]) -> dict[int, list[_ListedColumn]]:
    by_object: dict[int, list[_ListedColumn]] = defaultdict(list)
    for number, captured, ordinal, column_id, *described in found:
        by_object[number].append((_column(captured, ordinal, described), column_id is not None))
    return by_object


def _column(captured: str, ordinal: int, described: Sequence[Any]) -> Column:
    """The column, by its name in the log: a renamed column keeps its old name there."""
    _name, kind, length, precision, scale, nullable, identity, computed, default, collation = described
    base = _NEWER_NAMES.get(kind.lower(), kind.lower())
    characters = length // 2 if base in _TWO_BYTES and length > 0 else length
    return Column(
        name=captured,
        position=ordinal,
        type=base,
        length=characters,
        precision=precision,
        scale=scale,
        nullable=bool(nullable),
        identity=bool(identity),
        computed=bool(computed),
        default=default,
        collation=collation,
    )


def _keys(found: Iterable[tuple[Any, ...]]) -> dict[int, _Keys]:
    """Each table's primary key and first unique index of NOT NULL columns; empty if there is none."""
    indexes: dict[int, dict[int, list[tuple[bool, str, bool]]]] = defaultdict(lambda: defaultdict(list))
    for number, index, primary, name, nullable in found:
        indexes[number][index].append((bool(primary), name, bool(nullable)))
    return {number: _best(list(parts.values())) for number, parts in indexes.items()}


def _best(indexes: Sequence[Sequence[tuple[bool, str, bool]]]) -> _Keys:
    primary: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    for parts in indexes:
        names = tuple(name for _primary, name, _nullable in parts)
        if parts[0][0]:
            primary = names
        elif not unique and not any(nullable for _primary, _name, nullable in parts):
            unique = names
    return primary, unique


def _table(table: CollectionId, listed: Sequence[_ListedColumn], keys: _Keys) -> Table:
    """The table. A key is dropped if the log lacks one of its columns, or that column's values."""
    have = {column.name for column, there in listed if there and not column.computed}
    primary, unique = (key if have.issuperset(key) else () for key in keys)
    lost = frozenset(column.name for column, there in listed if not there)
    return Table(table, tuple(column for column, _there in listed), primary, unique, lost)

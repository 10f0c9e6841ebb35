"""Tables and capture instances of one database from its catalog, in a fixed number of queries.

Every login may read the catalog for objects that it has rights on. Whether a table can be snapshotted is
decided elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.server import metadata
from adapters.sqlserver.server.connection import rows
from adapters.sqlserver.server.position import lsn_of
from adapters.sqlserver.server.table import Capture, Column, Table
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy import Connection

_TWO_BYTES = frozenset({"nchar", "nvarchar"})
_NEWER_NAMES = {"rowversion": "timestamp"}


@dataclass(frozen=True, slots=True)
class Listed:
    """A table or view that a name may refer to, captured by CDC or not."""

    id: CollectionId
    object_id: int = 0
    tracked: bool = False
    view: bool = False
    indexed: bool = False


class Catalog:
    """The catalog of one database. `selected` decides which tables are captured at all.

    Every method takes a connection to the database. Driver errors are left to the caller to wrap.
    """

    def __init__(self, database: str, selected: Callable[[CollectionId], bool]) -> None:
        self.database = database
        self._selected = selected

    def captures(self, connection: Connection) -> tuple[Capture, ...]:
        """The capture instances of the selected tables, by table, the older first."""
        found = [
            (CollectionId((self.database, schema, table)), name, lsn_of(bytes.fromhex(start)), *rest)
            for name, schema, table, start, *rest in rows(connection, metadata.CAPTURES)
        ]
        chosen = [one for one in found if self._selected(one[0])]
        captured: dict[int, list[str]] = defaultdict(list)
        for row in rows(connection, metadata.CAPTURED_COLUMNS) if chosen else ():
            captured[row[0]].append(row[1])
        return tuple(
            Capture(name, table, start, tuple(captured[change]), change, source, created, bool(commands))
            for table, name, start, change, source, created, commands in chosen
        )

    def tables(self, connection: Connection, captures: Sequence[Capture]) -> tuple[Table, ...]:
        """The table of each capture instance, with the columns that its log has."""
        if not captures:
            return ()
        found = _by_object(rows(connection, metadata.CAPTURED_COLUMNS))
        keys = _keys(rows(connection, metadata.keys(one.source_object_id for one in captures)))
        return tuple(
            _table(one.table, found.get(one.object_id, ()), keys.get(one.source_object_id, _NO_KEYS))
            for one in captures
        )

    def listed(self, connection: Connection) -> tuple[Listed, ...]:
        """Every user table and view, selected or not, by name."""
        tables = [
            Listed(CollectionId((self.database, schema, name)), number, tracked=bool(tracked))
            for schema, name, number, tracked in rows(connection, metadata.TABLES)
        ]
        views = [
            Listed(CollectionId((self.database, schema, name)), view=True, indexed=bool(indexed))
            for schema, name, indexed in rows(connection, metadata.VIEWS)
        ]
        return (*tables, *views)

    def describe(self, connection: Connection, listed: Iterable[Listed]) -> tuple[Table, ...]:
        """Tables with all their columns, captured or not. A dropped table has none."""
        wanted = list(listed)
        numbers = [one.object_id for one in wanted]
        found = _by_object(rows(connection, metadata.columns(numbers)))
        keys = _keys(rows(connection, metadata.keys(numbers)))
        return tuple(
            _table(one.id, found.get(one.object_id, ()), keys.get(one.object_id, _NO_KEYS)) for one in wanted
        )


_Keys = tuple[tuple[str, ...], tuple[str, ...]]
_NO_KEYS: _Keys = ((), ())


def uncaptured(listed: Iterable[Listed], captures: Iterable[Capture]) -> tuple[CollectionId, ...]:
    """The tables among `listed` without a capture instance."""
    known = {one.table for one in captures}
    return tuple(one.id for one in listed if not one.view and one.id not in known)


def _by_object(found: Iterable[tuple[Any, ...]]) -> dict[int, list[Column]]:
    by_object: dict[int, list[Column]] = defaultdict(list)
    for number, captured, ordinal, _column_id, *described in found:
        by_object[number].append(_column(captured, ordinal, described))
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


def _table(table: CollectionId, columns: Sequence[Column], keys: _Keys) -> Table:
    """The table. A key is dropped if the log lacks one of its columns, or that column's values."""
    have = {column.name for column in columns if not column.computed}
    primary, unique = (key if have.issuperset(key) else () for key in keys)
    return Table(table, tuple(columns), primary, unique)

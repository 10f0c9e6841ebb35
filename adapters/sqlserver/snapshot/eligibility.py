"""How a snapshot reads a table, or why it can't.

Owns which tables can be snapshotted, the key that their chunks are cut by, and the columns to read: those
that the log has at the stream's position, so that rows read and changes have the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.source.schema_digest import schema_digest
from adapters.source.signals.scopes import JsonKind, ScopeColumn, texts_of
from adapters.sqlserver.server.rows import readable
from adapters.sqlserver.server.tsql import declared, key_literal, quote_ident, quote_name
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.errors import InvariantError, SignalError, UnknownCollection
from engine.snapshot.surrogate_key import key_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.source.signals.scopes import ScopeTexts
    from adapters.sqlserver.server.catalog import ListedTable
    from adapters.sqlserver.server.table import Column, Table
    from engine.model import CollectionId, Target

LOCKED = "READCOMMITTEDLOCK"
"""Reads committed rows and waits for writers' locks, whatever the database's setting.

A row version may be older than a change that the log has already delivered.
"""
_NUMBERS = (
    *("tinyint", "smallint", "int", "bigint", "decimal", "numeric"),
    *("money", "smallmoney", "real", "float"),
)
_JSON_KINDS = {**dict.fromkeys(_NUMBERS, JsonKind.NUMBER), "bit": JsonKind.BOOLEAN}
_BYTES = frozenset({"binary", "varbinary", "timestamp", "hierarchyid"})


@dataclass(frozen=True, slots=True)
class KnownTables:
    """What the catalog says about a database's tables now.

    `logged` are captured tables as the log describes them, `listed` all tables and views by name, `actual`
    the requested tables with all their columns.
    """

    logged: Mapping[CollectionId, Table]
    listed: Mapping[CollectionId, ListedTable]
    actual: Mapping[CollectionId, Table]


@dataclass(frozen=True, slots=True)
class ReadTable:
    """How a snapshot reads a table: its columns in the log's order, and the keyset for its chunks.

    `missing` are columns that the log still has but the table does not; `there` are the names of the table's
    columns, without others that have such a name by now. `hint` is the lock hint. `statement` is a SELECT
    that replaces the table. `merge` is the key by which the log identifies rows. `condition` is the signal's,
    as written for the server.
    """

    table: Table
    keyset: Keyset
    merge: Keyset
    missing: tuple[Column, ...] = ()
    hint: str = LOCKED
    statement: str | None = None
    object_id: int = 0
    condition: str | None = None
    there: tuple[str, ...] = ()
    scope: ScopeTexts | None = None

    @property
    def name(self) -> str:
        """The table's quoted name, without its database."""
        return quote_name(*self.table.id.parts[1:])

    @property
    def relation(self) -> str:
        """The rows in a FROM clause, as `t`."""
        if self.statement is not None:
            return f"({self.statement}\n) AS t"
        hint = f" WITH ({self.hint})" if self.hint else ""
        if not self.missing:
            return f"{self.name} AS t{hint}"
        # by name, because * leaves out hidden columns
        columns = [f"q.{quote_ident(name)}" for name in self.there]
        columns += [
            f"CONVERT({declared(column)}, NULL) AS {quote_ident(column.name)}" for column in self.missing
        ]
        return f"(SELECT {', '.join(columns)} FROM {self.name} AS q{hint}) AS t"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a row's text."""
        return readable(self.table)

    @property
    def schema(self) -> str:
        """The digest of its columns."""
        return schema_digest((column.name, declared(column)) for column in self.columns)

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What the table's ranges depend on (`Extent.key`): its keys, and the table itself."""
        keys = [f"key {column}" for column in self.keyset.fingerprint]
        if self.merge != self.keyset:
            keys += [f"key {column} to merge by" for column in self.merge.fingerprint]
        return (*keys, f"table {self.object_id}")


def reading(target: Target, known: KnownTables, *, keyless: bool = False) -> ReadTable:
    """How to read a target. Raises SignalError with the reason if it can't be read.

    With `keyless`, a table without a key is read as well, as a single chunk: its changes can't be matched to
    rows.
    """
    place = target.collection
    listed = known.listed.get(target.collection)
    if listed is None:
        raise UnknownCollection("there is no such table", where=place)
    if listed.view:
        kind = "an indexed view" if listed.indexed else "a view"
        raise SignalError(
            f"{kind} can't be captured by CDC, so a snapshot of it can't be kept up to date", where=place
        )
    table = known.logged.get(target.collection)
    if table is None:
        raise SignalError(
            "CDC does not capture the table",
            where=place,
            hint="run: EXEC sys.sp_cdc_enable_table; and see table.include.list",
        )
    actual = known.actual[target.collection]
    columns = [column.name for column in actual.columns]
    there = tuple(name for name in columns if name not in table.lost)
    missing = tuple(column for column in readable(table) if column.name not in there)
    if keyless and not (target.surrogate_key or actual.key):
        return ReadTable(table, Keyset(()), Keyset(()), missing, object_id=listed.object_id, there=there)
    keyset = _keyset(actual, key_columns(target, actual.key, columns), place)
    _check_lost(table, keyset, place)
    names = table.key
    merge = _keyset(table, names, place) if names else keyset
    if not names:
        _check_merge(table, keyset, place)
    scope = None if target.scope is None else texts_of(target.scope, _scope_columns(keyset), place)
    if scope is not None:
        _check_values(scope, keyset, place)
    return ReadTable(table, keyset, merge, missing, object_id=listed.object_id, there=there, scope=scope)


def _scope_columns(keyset: Keyset) -> list[ScopeColumn]:
    return [
        ScopeColumn(column.name, _JSON_KINDS.get(column.type, JsonKind.STRING), column.nullable)
        for column in keyset.columns
    ]


def _check_values(scope: ScopeTexts, keyset: Keyset, collection: CollectionId) -> None:
    """Refuse values that have no literal: binary ones that are not in hexadecimal digits."""
    for key in (*scope.keys, *scope.bounds):
        for column, text in zip(keyset.columns, key, strict=True):
            try:
                if text is not None:
                    key_literal(column, text)
            except (ValueError, InvariantError) as error:
                said = f"a value for the key column {column.name!r} is no value of type {column.type!r}"
                raise SignalError(said, where=collection) from error


def _check_lost(table: Table, keyset: Keyset, collection: CollectionId) -> None:
    """Refuse a key column whose name the log uses for one that was dropped: rows are read with NULL there."""
    for column in keyset.columns:
        if column.name in table.lost:
            raise SignalError(
                f"the key column {column.name!r} was dropped and added again, and the log has the old one",
                where=collection,
                hint="make another capture instance (sys.sp_cdc_enable_table)",
            )


def _check_merge(table: Table, keyset: Keyset, collection: CollectionId) -> None:
    """Without a key of the table, the log must have all columns of the surrogate key."""
    logged = {column.name for column in readable(table) if not column.computed}
    lacking = [column.name for column in keyset.columns if column.name not in logged]
    if lacking:
        raise SignalError(f"the log does not have the key column {lacking[0]!r}", where=collection)


def _keyset(table: Table, names: Sequence[str], collection: CollectionId) -> Keyset:
    columns = tuple(column for name in names if (column := table.column(name)))
    for column in columns:
        _check_key(column, collection)
    return Keyset(columns)


def _check_key(column: Column, collection: CollectionId) -> None:
    """Refuse a column that can't be ordered or compared."""
    try:
        key_literal(column, "00" if column.type in _BYTES else "0")
    except InvariantError as error:
        raise SignalError(f"column {column.name!r}: {error}", where=collection) from error

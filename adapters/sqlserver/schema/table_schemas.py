"""The table shapes that the stream has emitted: comparing them, and saving them. Pure."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.events.schema_changes import ChangeType, SchemaChange, column_members
from adapters.sqlserver.server.table import Column, Table
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adapters.sqlserver.events.source_block import ReadPosition

Shapes = dict[CollectionId, Table]
_MEMBERS = tuple(field.name for field in fields(Column))


def changed_tables(known: Mapping[CollectionId, Table], found: Mapping[CollectionId, Table]) -> list[Table]:
    """The tables that are new or have another shape, by name."""
    return [
        table for name, table in sorted(found.items()) if name not in known or not alike(known[name], table)
    ]


def alike(former: Table, latter: Table) -> bool:
    """Whether events and the schema history say the same of two shapes of a table."""
    return _described(former) == _described(latter)


def dropped_tables(known: Mapping[CollectionId, Table], listed: Iterable[CollectionId]) -> list[Table]:
    """The tables that no longer exist. One that is merely not captured any more keeps its shape."""
    there = set(listed)
    return [table for name, table in sorted(known.items()) if name not in there]


def change(
    known: Mapping[CollectionId, Table], table: Table, position: ReadPosition, now_ms: int
) -> SchemaChange:
    """The schema change of a table with a new or another shape."""
    kind = ChangeType.ALTER if table.id in known else ChangeType.CREATE
    return SchemaChange(kind, table, position, now_ms)


def filled_columns(before: Table, now: Table) -> list[str]:
    """The new columns that have values in older rows: those with a default, and those that are never NULL."""
    known = {column.name for column in before.columns}
    return [
        column.name
        for column in now.columns
        if column.name not in known
        and not column.computed
        and (column.default is not None or column.identity or not column.nullable)
    ]


def _described(table: Table) -> tuple[Any, ...]:
    """What events and the schema history say of a table. A history knows no more than this."""
    members = [
        tuple(column_members(column, number).items()) for number, column in enumerate(table.columns, 1)
    ]
    defaults = [column.default for column in table.columns]
    return members, defaults, table.key


def to_json(tables: Mapping[CollectionId, Table]) -> list[dict[str, Any]]:
    """Encode for the state."""
    return [
        {
            "name": list(name.parts),
            "columns": [_saved(column) for column in table.columns],
            "primary_key": list(table.primary_key),
            "unique_key": list(table.unique_key),
        }
        for name, table in tables.items()
    ]


def _saved(column: Column) -> dict[str, Any]:
    """A column's members by name: plain values, so nothing is copied although each turn saves them all."""
    return {name: getattr(column, name) for name in _MEMBERS}


def from_json(saved: Sequence[Mapping[str, Any]]) -> Shapes:
    """Decode from the state."""
    tables = [
        Table(
            CollectionId(tuple(shape["name"])),
            tuple(Column(**column) for column in shape["columns"]),
            tuple(shape["primary_key"]),
            tuple(shape["unique_key"]),
        )
        for shape in saved
    ]
    return {table.id: table for table in tables}

"""Tables' schemas as a `schema-changes` signal states them, in Debezium's JSON. Pure.

    {"database": "shop", "changes": [{"type": "ALTER", "id": "dbo.orders", "table": {"columns": […], …}}]}

`table` is as in records of the schema history. What the server's catalog says always counts for events: a
signal only has a schema announced and recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from adapters.sqlserver.events.schema_changes import ChangeType
from adapters.sqlserver.schema.history import table_of
from engine.errors import SignalError
from engine.model import CollectionId
from signals.parse.kinds import shown
from signals.parse.names import quoted_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adapters.sqlserver.server.table import Table

SCHEMA_CHANGES: Final = "schema-changes"
_MOST_CHANGES: Final = 1_000
_NAMES: Final = {2: "schema and table", 3: "database, schema and table"}
_HINT: Final = "see the records of Debezium's schema history"


class _Column(msgspec.Struct, rename="camel"):
    name: str
    type_name: str
    position: int
    length: int | None = None
    scale: int | None = None
    optional: bool | None = None
    generated: bool | None = None
    default_value_expression: str | None = None


class _Table(msgspec.Struct, rename="camel"):
    columns: list[_Column]
    primary_key_column_names: list[str] | None = None


class _Change(msgspec.Struct):
    type: ChangeType
    id: str
    table: _Table | None = None


class _Stated(msgspec.Struct):
    database: str
    changes: list[_Change]
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class StatedTable:
    """What a signal says of a table; without a `table` if it says that the table is dropped."""

    type: ChangeType
    collection: CollectionId
    table: Table | None


def stated_tables(data: Mapping[str, Any], databases: Collection[str]) -> list[StatedTable]:
    """The tables of a signal, in its order. Raises SignalError, which names the field at fault."""
    try:
        stated = msgspec.convert(data, _Stated)
    except msgspec.ValidationError as error:
        raise SignalError(f"the data is no list of table changes: {error}", hint=_HINT) from error
    if stated.database not in databases:
        known = ", ".join(databases)
        raise SignalError(f"no database {shown(stated.database)}", hint=f"the job reads: {known}")
    if not 1 <= len(stated.changes) <= _MOST_CHANGES:
        count = len(stated.changes)
        raise SignalError(f"'changes' has {count} entries, from 1 to {_MOST_CHANGES} are read")
    given = data["changes"]
    return [
        _table(stated.database, change, members, f"entry {number} of 'changes'")
        for number, (change, members) in enumerate(zip(stated.changes, given, strict=True), 1)
    ]


def _table(database: str, change: _Change, members: Mapping[str, Any], where: str) -> StatedTable:
    collection = _collection(database, change.id, where)
    if change.type is ChangeType.DROP:
        return StatedTable(change.type, collection, None)
    if change.table is None or not change.table.columns:
        raise SignalError(f"{where} has no columns", hint=_HINT)
    names = [column.name for column in change.table.columns]
    if len(set(names)) < len(names):
        raise SignalError(f"{where} has two columns of the same name")
    for name in change.table.primary_key_column_names or ():
        if name not in names:
            raise SignalError(f"{where} has no column {shown(name)}, which is in its key")
    return StatedTable(change.type, collection, table_of(collection, members["table"]))


def _collection(database: str, text: str, where: str) -> CollectionId:
    """The table that an id names, with or without its database."""
    parts = (quoted_parts(text) or ()) if '"' in text else tuple(text.split("."))
    if len(parts) not in _NAMES or not all(parts):
        forms = " or ".join(_NAMES.values())
        raise SignalError(f"the id {shown(text)} in {where} does not name {forms}")
    if len(parts) == len(_NAMES):
        parts = (database, *parts)
    if parts[0] != database:
        raise SignalError(f"the id {shown(text)} in {where} is of another database than {shown(database)}")
    return CollectionId(parts)

"""Strict reading of the saved state of a SQL Server source: StateError for anything else. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_type_hints

from adapters.sqlserver.events import transactions
from adapters.sqlserver.log.capture_instances import marks_of
from adapters.sqlserver.schema import table_schemas
from adapters.sqlserver.server.position import check_lsn, places_of
from adapters.sqlserver.server.table import Column
from adapters.sqlserver.snapshot.initial import began_at
from engine.saved import read_integer, read_mapping, read_text, read_texts, reading_saved

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from adapters.sqlserver.events.transactions import OpenTransaction
    from engine.job.state import State

_KINDS = get_type_hints(Column)


def check_saved(state: State) -> None:
    """Raise StateError where the state's part about the change tables can't be read."""
    memory = state.memory
    with reading_saved("what the saved state keeps of the change tables"):
        places = places_of(state.position) if state.position is not None else ()
        names = memory.get("names")
        if names is not None and len(read_texts(names)) != len(places):
            raise ValueError("not as many places as databases")
        for value in state.identity.values():
            read_text(value)
        read_mapping(memory.get("first", {}))
        began_at(memory)
        for one in read_mapping(memory.get("transactions", {})).values():
            _check_transaction(transactions.from_json(one))
        for kept in read_mapping(memory.get("databases", {})).values():
            for mark in marks_of(kept.get("instances", ())):
                check_lsn(mark.start)
                read_integer(mark.object_id)
        _check_shapes(memory)


def _check_transaction(transaction: OpenTransaction | None) -> None:
    if transaction is not None:
        check_lsn(read_text(transaction.id))
        for name, count in transaction.collections:
            read_text(name)
            read_integer(count)


def _check_shapes(memory: Mapping[str, Any]) -> None:
    saved = memory.get("shapes")
    for name, table in (table_schemas.from_json(saved) if saved is not None else {}).items():
        if len(read_texts(name.parts)) != len(("database", "schema", "table")):
            raise ValueError("not a table's name")
        read_texts(table.primary_key)
        read_texts(table.unique_key)
        for column in table.columns:
            if not all(isinstance(getattr(column, field), kind) for field, kind in _KINDS.items()):
                raise TypeError("not a column")

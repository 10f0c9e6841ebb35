"""Rows read by a query: the SQL expression that builds one text per row.

The types' output functions write the values, as in the log (`concat` calls them).
`engine.events.values.row_form` defines the forms; the exact form is the one with lengths.

`concat` writes a separator like a value, at half a value's cost. `concat_ws` inserts separators for free, but
omits them beside NULL. So the fast form checks each row for NULLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.events.columns.builtin_types import RANGES, type_of
from adapters.postgres.server.sql import IS_NULL, IS_THERE, quote_ident
from engine.errors import InvariantError
from engine.events.values.row_form import RowMode, RowShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.server.table import PgType, Relation, Table

_ARGUMENTS = 90
"""Below the 100 arguments that a function can take."""
_SEPARATOR = "E'\\x1f'"
_JOINED = f"concat_ws({_SEPARATOR}, "
_NEVER_EMPTY = frozenset(
    [
        "bool",
        "bytea",
        "int2",
        "int4",
        "int8",
        "oid",
        "float4",
        "float8",
        "numeric",
        "money",
        "date",
        "time",
        "timetz",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "json",
        "jsonb",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "point",
        "line",
        "lseg",
        "box",
        "path",
        "polygon",
        "circle",
        "pg_lsn",
        "xid",
        "xid8",
        *RANGES,
    ],
)


def row_shape(relation: Relation, table: Table, types: Mapping[int, PgType]) -> RowShape:
    """The shape of texts with the relation's columns, as the catalog describes them."""
    found = [table.column(column.name) for column in relation.columns]
    nullable = tuple(column is None or column.nullable for column in found)
    empty = tuple(may_be_empty(type_of(column.type, types), types) for column in relation.columns)
    return RowShape(tuple(column.name for column in relation.columns), nullable, empty)


def may_be_empty(kind: PgType | None, types: Mapping[int, PgType]) -> bool:
    """Whether a value that is not NULL can have an empty text; True if that is unknown."""
    if kind is None:
        return True
    if kind.kind == "d":
        return may_be_empty(type_of(kind.base, types), types)
    if kind.kind in {"c", "r", "m"} or kind.element:
        return False
    return kind.schema != "pg_catalog" or kind.name not in _NEVER_EMPTY


def row_expression(shape: RowShape, mode: RowMode, alias: str = "") -> str:
    """The SQL expression of one row's text, in the fast or the exact form; `alias` qualifies the columns."""
    if mode is RowMode.ESCAPED:
        raise InvariantError("PostgreSQL counts bytes: its rows need no escaped form")
    prefix = f"{quote_ident(alias)}." if alias else ""
    names = [prefix + quote_ident(name) for name in shape.columns]
    if mode is RowMode.FAST:
        return _fast(names, shape)
    lengths = [
        part
        for name in names
        for part in (
            f"CASE WHEN {name} {IS_NULL} THEN -1 ELSE octet_length(convert_to(concat({name}), 'UTF8')) END",
            "','",
        )
    ]
    return _concat([*lengths, "';'", *names])


def _fast(names: list[str], shape: RowShape) -> str:
    if not names:
        return "''"
    there = [f"{name} {IS_THERE}" for name, nullable in zip(names, shape.nullable, strict=True) if nullable]
    full = _call(_JOINED, [f"'{'f' * len(shape.flagged)}'", *names])
    if not there:
        return full
    flags = [f"{names[index]} {IS_NULL}" for index in shape.flagged]
    with_null = _concat(flags + [part for name in names for part in (_SEPARATOR, name)])
    return f"CASE WHEN {' AND '.join(there)} THEN {full} ELSE {with_null} END"


def _concat(parts: list[str]) -> str:
    return _call("concat(", parts)


def _call(begun: str, parts: list[str]) -> str:
    """A call that starts with `begun`, split into nested calls if there are too many arguments."""
    while len(parts) > _ARGUMENTS:
        parts = [_call(begun, parts[at : at + _ARGUMENTS]) for at in range(0, len(parts), _ARGUMENTS)]
    return f"{begun}{', '.join(parts)})"

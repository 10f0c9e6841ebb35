"""The parameters of `column.propagate.source.type`: type, length, scale, as the JDBC driver counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.events.columns.builtin_types import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.server.table import PgType

_UNLIMITED = 2**31 - 1
_FIXED = {
    "int2": 5,
    "oid": 10,
    "int4": 10,
    "int8": 19,
    "float4": 8,
    "float8": 17,
    "bool": 1,
    "char": 1,
    "date": 13,
}
_CLOCKS = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}


def source_parameters(kind: PgType, typmod: int, types: Mapping[int, PgType]) -> tuple[tuple[str, str], ...]:
    """The parameters with the type's name, its length and its scale."""
    base, base_typmod = _underlying(kind, typmod, types)
    return (
        ("__debezium.source.column.type", kind.name.upper()),
        ("__debezium.source.column.length", str(source_length(kind, typmod, types))),
        ("__debezium.source.column.scale", str(_scale(base, base_typmod))),
    )


def source_length(kind: PgType, typmod: int, types: Mapping[int, PgType]) -> int:
    """The column's length in characters, digits or bits; for times, the characters of their text."""
    return _length(*_underlying(kind, typmod, types))


def _underlying(kind: PgType, typmod: int, types: Mapping[int, PgType]) -> tuple[str, int]:
    while kind.kind == "d" or kind.element:
        inner = type_of(kind.base or kind.element, types)
        if inner is None:
            break
        typmod = kind.base_typmod if kind.kind == "d" and kind.base_typmod != -1 else typmod
        kind = inner
    return kind.name, typmod


def _length(name: str, typmod: int) -> int:
    if name in _CLOCKS:
        return _CLOCKS[name] + (7 if typmod == -1 else 3 if typmod == 1 else typmod + 1 if typmod else 0)
    match name:
        case "numeric":
            return 0 if typmod == -1 else (typmod - 4) >> 16
        case "varchar" | "bpchar":
            return _UNLIMITED if typmod == -1 else typmod - 4
        case "bit" | "varbit":
            return _UNLIMITED if typmod == -1 else typmod
        case "interval":
            return 49
        case _:
            return _FIXED.get(name, _UNLIMITED)


def _scale(name: str, typmod: int) -> int:
    match name:
        case "float4":
            return 8
        case "float8":
            return 17
        case "numeric":
            return 0 if typmod == -1 else (typmod - 4) & 0xFFFF
        case "interval":
            return 6 if typmod == -1 else typmod & 0xFFFF
        case "time" | "timetz" | "timestamp" | "timestamptz":
            return 6 if typmod == -1 else typmod
        case _:
            return 0

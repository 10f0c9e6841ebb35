"""Columns as Microsoft's JDBC driver describes them and Debezium shows them: type, name, length, scale.

Used by schema changes, the schema history and `column.propagate.source.type`. Source: the answers of
`sp_columns_100`, with the types that the driver's `getColumns` substitutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.sqlserver.server.table import Column

_MAX_BYTES, _MAX_CHARACTERS = 2**31 - 1, 2**30 - 1


@dataclass(frozen=True, slots=True)
class JdbcColumn:
    """`type` is one of `java.sql.Types`. `name` includes `identity`. `scale` is None if the type has none."""

    type: int
    name: str
    length: int
    scale: int | None = None


_FIXED: dict[str, tuple[int, int, int | None]] = {
    "bit": (-7, 1, None),
    "tinyint": (-6, 3, 0),
    "smallint": (5, 5, 0),
    "int": (4, 10, 0),
    "bigint": (-5, 19, 0),
    "real": (7, 24, None),
    "float": (8, 53, None),
    "money": (3, 19, 4),
    "smallmoney": (3, 10, 4),
    "text": (-1, _MAX_BYTES, None),
    "ntext": (-16, _MAX_CHARACTERS, None),
    "xml": (-16, _MAX_CHARACTERS, None),
    "image": (-4, _MAX_BYTES, None),
    "timestamp": (-2, 8, None),
    "rowversion": (-2, 8, None),
    "uniqueidentifier": (1, 36, None),
    "sysname": (-9, 128, None),
    "date": (91, 10, None),
    "datetime": (93, 23, 3),
    "smalldatetime": (93, 16, 0),
    "sql_variant": (-150, 8000, None),
    "geometry": (-3, _MAX_BYTES, None),
    "geography": (-3, _MAX_BYTES, None),
    "hierarchyid": (-3, 892, None),
}
"""Type, length and scale."""
_STRINGS = {"char": 1, "varchar": 12, "nchar": -15, "nvarchar": -9, "binary": -2, "varbinary": -3}
_CLOCKS = {"time": (92, 8), "datetime2": (93, 19), "datetimeoffset": (-155, 26)}
"""Type, and the length of a value without a fraction, in characters."""
_OTHER = (1111, 0, None)


def jdbc_column(column: Column) -> JdbcColumn:
    """The driver's description of a column."""
    name = f"{_shown(column.type)}{_identity(column)}"
    if column.type in _STRINGS:
        wide = column.type.startswith("n")
        most = _MAX_CHARACTERS if wide else _MAX_BYTES
        return JdbcColumn(_STRINGS[column.type], name, most if column.length < 0 else column.length)
    if column.type in _CLOCKS:
        kind, plain = _CLOCKS[column.type]
        length = plain + (column.scale + 1 if column.scale else 0)
        return JdbcColumn(kind, name, length, column.scale)
    if column.type in {"decimal", "numeric"}:
        return JdbcColumn(3 if column.type == "decimal" else 2, name, column.precision, column.scale)
    kind, length, scale = _FIXED.get(column.type, _OTHER)
    return JdbcColumn(kind, name, length, scale)


def _shown(kind: str) -> str:
    return "timestamp" if kind == "rowversion" else kind


def _identity(column: Column) -> str:
    if not column.identity:
        return ""
    return "() identity" if column.type in {"decimal", "numeric"} else " identity"

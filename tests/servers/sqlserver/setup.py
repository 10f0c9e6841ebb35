"""The SQL that makes a PostgreSQL database look like SQL Server's; most of it is in the `.sql` files."""

from __future__ import annotations

from pathlib import Path

from tests.servers.sqlserver.kinds import TYPE_IDS

_HERE = Path(__file__).parent
_ASSIGNED = ("smallint", "integer", "bigint", "numeric", "real", "double precision", "date")
"""The types that text is converted to on assignment."""

_TEMPORAL = """
CREATE TYPE mssql.{name} AS (v bigint, t text);
CREATE FUNCTION mssql.of_{name}(v bigint) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql
  RETURN ROW(v, {write})::mssql.{name};
CREATE FUNCTION mssql.to_{name}(x text) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN x IS NOT NULL THEN mssql.of_{name}({read}) END;
"""
_OFFSET = """
CREATE TYPE mssql.{name} AS (v bigint, t text);
CREATE FUNCTION mssql.of_{name}(v bigint, z int) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql RETURN
  ROW(v - z * 600000000::bigint, mssql.stamp_text(v, {digits}) || ' ' || mssql.offset_text(z))::mssql.{name};
CREATE FUNCTION mssql.to_{name}(x text) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN x IS NOT NULL THEN mssql.of_{name}(
    mssql.rounded(mssql.stamp_ticks(mssql.without_offset(x)), {digits}), mssql.offset_of(x)) END;
"""
_BOTH = """
CREATE FUNCTION mssql.text_of(x mssql.{name}, style int DEFAULT 121) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN (x).t;
CREATE CAST (text AS mssql.{name}) WITH FUNCTION mssql.to_{name}(text) AS ASSIGNMENT;
"""
"""A value sorts by `v`, its ticks; `t` is its text."""


def script() -> str:
    """The whole script for a new database."""
    casts = (f"CREATE CAST (text AS {name}) WITH INOUT AS ASSIGNMENT;" for name in _ASSIGNED)
    return "\n".join(
        (
            (_HERE / "types.sql").read_text(),
            *casts,
            *_temporal(),
            (_HERE / "catalog.sql").read_text(),
            _types(),
            (_HERE / "cdc.sql").read_text(),
        )
    )


def _types() -> str:
    rows = (
        f"('{name}', {system}, {user}, {int(system == 240)})" for name, (system, user) in TYPE_IDS.items()
    )
    return (
        "INSERT INTO sys.types (name, system_type_id, user_type_id, is_assembly_type)"
        f" VALUES {', '.join(rows)};"
    )


def _temporal() -> list[str]:
    stamp, write = "mssql.stamp_ticks(x)", "mssql.stamp_text(v, {})"
    found = {
        "datetime": (f"mssql.thirds({stamp})", write.format(3)),
        "smalldatetime": (f"({stamp} + 300000000) / 600000000 * 600000000", write.format(3)),
    }
    for digits in range(8):
        rounded = f"mssql.rounded({{}}, {digits})"
        found[f"time_{digits}"] = (rounded.format("mssql.time_ticks(x)"), f"mssql.time_text(v, {digits})")
        found[f"datetime2_{digits}"] = (rounded.format(stamp), write.format(digits))
    zoned = {f"datetimeoffset_{digits}": digits for digits in range(8)}
    return [
        *(_TEMPORAL.format(name=name, read=read, write=to) for name, (read, to) in found.items()),
        *(_OFFSET.format(name=name, digits=digits) for name, digits in zoned.items()),
        *(_BOTH.format(name=name) for name in (*found, *zoned)),
    ]

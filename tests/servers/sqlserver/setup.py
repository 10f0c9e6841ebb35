"""The SQL that makes a PostgreSQL database one of SQL Server's; most of it stands in the `.sql` files."""

from __future__ import annotations

from pathlib import Path

from tests.servers.sqlserver.kinds import TYPE_IDS

_HERE = Path(__file__).parent
_ASSIGNED = ("smallint", "integer", "bigint", "numeric", "real", "double precision", "date")
"""What text is converted to where it is stored."""

_TEMPORAL = """
CREATE TYPE mssql.{name} AS (v bigint);
CREATE FUNCTION mssql.to_{name}(x text) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN x IS NOT NULL THEN ROW({read})::mssql.{name} END;
CREATE FUNCTION mssql.text_of(x mssql.{name}, style int DEFAULT 121) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN {write};
CREATE CAST (text AS mssql.{name}) WITH FUNCTION mssql.to_{name}(text) AS ASSIGNMENT;
"""
_OFFSET = """
CREATE TYPE mssql.{name} AS (v bigint, z int);
CREATE FUNCTION mssql.to_{name}(x text) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN x IS NOT NULL THEN ROW(
    mssql.rounded(mssql.stamp_ticks(mssql.without_offset(x)), {digits})
    - mssql.offset_of(x) * 600000000::bigint, mssql.offset_of(x))::mssql.{name} END;
CREATE FUNCTION mssql.text_of(x mssql.{name}, style int DEFAULT 121) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN mssql.stamp_text((x).v + (x).z * 600000000::bigint, {digits}) || ' ' || mssql.offset_text((x).z);
CREATE CAST (text AS mssql.{name}) WITH FUNCTION mssql.to_{name}(text) AS ASSIGNMENT;
"""


def script() -> str:
    """Everything, for a new database."""
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
    stamp, write = "mssql.stamp_ticks(x)", "mssql.stamp_text((x).v, {})"
    minutes = f"({stamp} + 300000000) / 600000000 * 600000000"
    found = [
        _TEMPORAL.format(name="datetime", read=f"mssql.thirds({stamp})", write=write.format(3)),
        _TEMPORAL.format(name="smalldatetime", read=minutes, write=write.format(3)),
    ]
    for digits in range(8):
        rounded = f"mssql.rounded({{}}, {digits})"
        found += [
            _TEMPORAL.format(
                name=f"time_{digits}",
                read=rounded.format("mssql.time_ticks(x)"),
                write=f"mssql.time_text((x).v, {digits})",
            ),
            _TEMPORAL.format(
                name=f"datetime2_{digits}", read=rounded.format(stamp), write=write.format(digits)
            ),
            _OFFSET.format(name=f"datetimeoffset_{digits}", digits=digits),
        ]
    return found

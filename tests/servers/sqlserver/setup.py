"""What a PostgreSQL database needs to stand in for one of SQL Server's: types, catalog, functions.

T-SQL's temporal types and GUIDs are composites, so that they sort as SQL Server sorts them and keep seven
digits; texts that compare without regard to case are citext. `text_of` is CONVERT to text with a style.
"""

from __future__ import annotations

TICKS_OF_A_DAY = 864_000_000_000

SCHEMAS = """
CREATE EXTENSION citext;
CREATE SCHEMA mssql; CREATE SCHEMA sys; CREATE SCHEMA cdc; CREATE SCHEMA dbo; CREATE SCHEMA pending;
"""

CASTS = "".join(
    f"CREATE CAST (text AS {name}) WITH INOUT AS ASSIGNMENT;\n"
    for name in ("smallint", "integer", "bigint", "numeric", "real", "double precision", "date")
)

TEXTS = r"""
CREATE FUNCTION mssql.text_of(x text, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x;
CREATE FUNCTION mssql.text_of(x citext, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x smallint, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x integer, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x bigint, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x numeric, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x date, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN lpad(extract(year from x)::text, 4, '0') || '-' || lpad(extract(month from x)::text, 2, '0')
  || '-' || lpad(extract(day from x)::text, 2, '0');
CREATE FUNCTION mssql.text_of(x double precision, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN style <> 3 THEN x::text
  ELSE regexp_replace(trim(to_char(x, '9.9999999999999999EEEE')), 'e([+-])(\d\d)$', 'e\10\2') END;
CREATE FUNCTION mssql.text_of(x real, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN mssql.text_of(x::double precision, style);
CREATE FUNCTION mssql.text_of(x bytea, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN CASE style WHEN 2 THEN upper(encode(x, 'hex')) WHEN 1 THEN '0x' || upper(encode(x, 'hex'))
  ELSE convert_from(x, 'LATIN1') END;
CREATE FUNCTION mssql.datalength(x text) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN 2 * length(x);
CREATE FUNCTION mssql.datalength(x bytea) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN length(x);
CREATE FUNCTION mssql.padded(x bytea, size int) RETURNS bytea IMMUTABLE LANGUAGE sql
  RETURN substring(x || decode(repeat('00', size), 'hex') FROM 1 FOR size);
"""

GUIDS = """
CREATE TYPE mssql.uniqueidentifier AS (k bytea);
CREATE FUNCTION mssql.to_uniqueidentifier(x text) RETURNS mssql.uniqueidentifier IMMUTABLE LANGUAGE sql RETURN
  ROW((SELECT decode(substr(h, 21, 12) || substr(h, 17, 4) || substr(h, 15, 2) || substr(h, 13, 2)
    || substr(h, 11, 2) || substr(h, 9, 2) || substr(h, 7, 2) || substr(h, 5, 2) || substr(h, 3, 2)
    || substr(h, 1, 2), 'hex') FROM (SELECT replace(x, '-', '') AS h) AS q))::mssql.uniqueidentifier;
CREATE FUNCTION mssql.text_of(x mssql.uniqueidentifier, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN (SELECT CASE WHEN h IS NOT NULL THEN upper(substr(h, 31, 2) || substr(h, 29, 2) || substr(h, 27, 2)
    || substr(h, 25, 2) || '-' || substr(h, 23, 2) || substr(h, 21, 2) || '-' || substr(h, 19, 2)
    || substr(h, 17, 2) || '-' || substr(h, 13, 4) || '-' || substr(h, 1, 12)) END
    FROM (SELECT encode((x).k, 'hex') AS h) AS q);
CREATE CAST (text AS mssql.uniqueidentifier) WITH FUNCTION mssql.to_uniqueidentifier(text) AS ASSIGNMENT;
"""

TICKS = rf"""
CREATE FUNCTION mssql.time_ticks(x text) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE m text[] := regexp_match(x, '^(\d{{1,2}}):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?$');
BEGIN
  IF m IS NULL THEN RAISE 'Conversion failed when converting date and/or time from character string.'
    USING ERRCODE = '22007'; END IF;
  RETURN ((m[1]::bigint * 60 + m[2]::bigint) * 60 + coalesce(m[3], '0')::bigint) * 10000000
    + rpad(left(coalesce(m[4], ''), 7), 7, '0')::bigint;
END $$;
CREATE FUNCTION mssql.stamp_ticks(x text) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN
  (left(x, 10)::date - date '0001-01-01')::bigint * {TICKS_OF_A_DAY}
  + CASE WHEN length(x) > 10 THEN mssql.time_ticks(substr(x, 12)) ELSE 0 END;
CREATE FUNCTION mssql.rounded(ticks bigint, digits int) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN
  (ticks + (10 ^ (7 - digits))::bigint / 2) / (10 ^ (7 - digits))::bigint * (10 ^ (7 - digits))::bigint;
CREATE FUNCTION mssql.thirds(ticks bigint) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN
  round((round(ticks * 3 / 100000.0) * 100000 / 3) / 10000.0)::bigint * 10000;
CREATE FUNCTION mssql.time_text(ticks bigint, digits int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  lpad((ticks / 36000000000)::text, 2, '0') || ':' || lpad((ticks / 600000000 % 60)::text, 2, '0') || ':'
  || lpad((ticks / 10000000 % 60)::text, 2, '0')
  || CASE WHEN digits > 0 THEN '.' || left(lpad((ticks % 10000000)::text, 7, '0'), digits) ELSE '' END;
CREATE FUNCTION mssql.stamp_text(ticks bigint, digits int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  mssql.text_of(date '0001-01-01' + (ticks / {TICKS_OF_A_DAY})::int) || ' '
  || mssql.time_text(ticks % {TICKS_OF_A_DAY}, digits);
"""

_TEMPORAL = """
CREATE TYPE mssql.{name} AS (v bigint);
CREATE FUNCTION mssql.to_{name}(x text) RETURNS mssql.{name} IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN x IS NOT NULL THEN ROW({read})::mssql.{name} END;
CREATE FUNCTION mssql.text_of(x mssql.{name}, style int DEFAULT 121) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN {write};
CREATE CAST (text AS mssql.{name}) WITH FUNCTION mssql.to_{name}(text) AS ASSIGNMENT;
"""
_OFFSET = r"""
CREATE TYPE mssql.datetimeoffset_{n} AS (v bigint, z int);
CREATE FUNCTION mssql.to_datetimeoffset_{n}(x text) RETURNS mssql.datetimeoffset_{n} IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE m text[] := regexp_match(x, '^(.*?)\s*([+-])(\d\d):(\d\d)$'); z int;
BEGIN
  IF x IS NULL THEN RETURN NULL; END IF;
  z := CASE WHEN m IS NULL THEN 0 ELSE (m[2] || '1')::int * (m[3]::int * 60 + m[4]::int) END;
  RETURN ROW(mssql.rounded(mssql.stamp_ticks(coalesce(m[1], x)), {n}) - z * 600000000::bigint, z);
END $$;
CREATE FUNCTION mssql.text_of(x mssql.datetimeoffset_{n}, style int DEFAULT 121) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN mssql.stamp_text((x).v + (x).z * 600000000::bigint, {n}) || ' ' || CASE WHEN (x).z < 0 THEN '-' ELSE '+' END
  || lpad((abs((x).z) / 60)::text, 2, '0') || ':' || lpad((abs((x).z) % 60)::text, 2, '0');
CREATE CAST (text AS mssql.datetimeoffset_{n}) WITH FUNCTION mssql.to_datetimeoffset_{n}(text) AS ASSIGNMENT;
"""


def _temporal() -> str:
    stamp = "mssql.stamp_ticks(x)"
    parts = [
        _TEMPORAL.format(name="datetime", read=f"mssql.thirds({stamp})", write="mssql.stamp_text((x).v, 3)"),
        _TEMPORAL.format(
            name="smalldatetime",
            read=f"({stamp} + 300000000) / 600000000 * 600000000",
            write="mssql.stamp_text((x).v, 3)",
        ),
    ]
    for n in range(8):
        read = "mssql.rounded({}, " + str(n) + ")"
        parts += [
            _TEMPORAL.format(
                name=f"time_{n}",
                read=read.format("mssql.time_ticks(x)"),
                write=f"mssql.time_text((x).v, {n})",
            ),
            _TEMPORAL.format(
                name=f"datetime2_{n}", read=read.format(stamp), write=f"mssql.stamp_text((x).v, {n})"
            ),
            _OFFSET.format(n=n),
        ]
    return "".join(parts)


CLOCKS = """
CREATE TABLE mssql.settings (name text PRIMARY KEY, value text);
INSERT INTO mssql.settings VALUES ('offset', '0'), ('identity', gen_random_uuid()::text),
  ('collation', 'SQL_Latin1_General_CP1_CI_AS'), ('created', to_char(now(), 'YYYY-MM-DD HH24:MI:SS.MS'));
CREATE FUNCTION mssql.setting(asked text) RETURNS text STABLE LANGUAGE sql
  RETURN (SELECT value FROM mssql.settings WHERE name = asked);
CREATE FUNCTION mssql.tzoffset() RETURNS int STABLE LANGUAGE sql RETURN mssql.setting('offset')::int;
CREATE FUNCTION mssql.clock(at timestamptz) RETURNS text STABLE LANGUAGE sql RETURN
  to_char((at AT TIME ZONE 'UTC') + make_interval(mins => mssql.tzoffset()), 'YYYY-MM-DD HH24:MI:SS.US');
CREATE FUNCTION mssql.getdate() RETURNS text VOLATILE LANGUAGE sql RETURN mssql.clock(clock_timestamp());
"""

TYPES = "".join((SCHEMAS, CASTS, TEXTS, GUIDS, TICKS, _temporal(), CLOCKS))

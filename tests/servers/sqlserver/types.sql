-- T-SQL's types and their texts: temporal types and GUIDs are composites, so that they sort as SQL Server
-- sorts them and keep seven digits; `text_of` is CONVERT to text with a style.
CREATE EXTENSION citext;
CREATE SCHEMA mssql; CREATE SCHEMA sys; CREATE SCHEMA cdc; CREATE SCHEMA dbo; CREATE SCHEMA pending;

CREATE FUNCTION mssql.text_of(x text, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x;
CREATE FUNCTION mssql.text_of(x citext, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x smallint, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x integer, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x bigint, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x numeric, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x date, style int DEFAULT 0) RETURNS text STABLE LANGUAGE sql RETURN x::text;
CREATE FUNCTION mssql.text_of(x double precision, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN style <> 3 THEN x::text
  ELSE regexp_replace(trim(to_char(x, '9.9999999999999999EEEE')), 'e([+-])(\d\d)$', 'e\10\2') END;
CREATE FUNCTION mssql.text_of(x real, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN mssql.text_of(x::double precision, style);
CREATE FUNCTION mssql.text_of(x bytea, style int DEFAULT 0) RETURNS text IMMUTABLE LANGUAGE sql
  RETURN CASE style WHEN 2 THEN upper(encode(x, 'hex')) WHEN 1 THEN '0x' || upper(encode(x, 'hex'))
  ELSE convert_from(x, 'LATIN1') END;
CREATE FUNCTION mssql.bytes_of(x bytea) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN x;
CREATE FUNCTION mssql.unit(c int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  lpad(to_hex(c & 255), 2, '0') || lpad(to_hex(c >> 8), 2, '0');
CREATE FUNCTION mssql.units(c int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  CASE WHEN c > 65535 THEN mssql.unit(55232 + (c >> 10)) || mssql.unit(56320 + (c & 1023)) ELSE mssql.unit(c) END;
CREATE FUNCTION mssql.bytes_of(x text) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN CASE WHEN x IS NOT NULL THEN
  decode(coalesce((SELECT string_agg(mssql.units(ascii(substr(x, n, 1))), '' ORDER BY n)
  FROM generate_series(1, length(x)) AS n), ''), 'hex') END;
CREATE FUNCTION mssql.bytes_of(x citext) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN mssql.bytes_of(x::text);
CREATE FUNCTION mssql.datalength(x text) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN 2 * length(x);
CREATE FUNCTION mssql.datalength(x bytea) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN length(x);
CREATE FUNCTION mssql.padded(x bytea, size int) RETURNS bytea IMMUTABLE LANGUAGE sql
  RETURN substring(x || decode(repeat('00', size), 'hex') FROM 1 FOR size);

-- sorts by `k`; `t` is its text
CREATE TYPE mssql.uniqueidentifier AS (k bytea, t text);
CREATE FUNCTION mssql.to_uniqueidentifier(x text) RETURNS mssql.uniqueidentifier IMMUTABLE LANGUAGE sql
  RETURN CASE WHEN x IS NOT NULL THEN ROW(decode(
  substr(replace(x, '-', ''), 21, 12) ||
  substr(replace(x, '-', ''), 17, 4) ||
  substr(replace(x, '-', ''), 15, 2) ||
  substr(replace(x, '-', ''), 13, 2) ||
  substr(replace(x, '-', ''), 11, 2) ||
  substr(replace(x, '-', ''), 9, 2) ||
  substr(replace(x, '-', ''), 7, 2) ||
  substr(replace(x, '-', ''), 5, 2) ||
  substr(replace(x, '-', ''), 3, 2) ||
  substr(replace(x, '-', ''), 1, 2), 'hex'), upper(x::uuid::text))::mssql.uniqueidentifier END;
CREATE FUNCTION mssql.text_of(x mssql.uniqueidentifier, style int DEFAULT 0) RETURNS text IMMUTABLE
  LANGUAGE sql RETURN (x).t;
CREATE CAST (text AS mssql.uniqueidentifier) WITH FUNCTION mssql.to_uniqueidentifier(text) AS ASSIGNMENT;

CREATE FUNCTION mssql.time_ticks(x text) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE m text[] := regexp_match(x, '^(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$');
BEGIN
  IF m IS NULL THEN RAISE 'Conversion failed when converting date and/or time from character string.'
    USING ERRCODE = '22007'; END IF;
  RETURN ((m[1]::bigint * 60 + m[2]::bigint) * 60 + coalesce(m[3], '0')::bigint) * 10000000
    + rpad(left(coalesce(m[4], ''), 7), 7, '0')::bigint;
END $$;
-- a time alone is one of 1900-01-01
CREATE FUNCTION mssql.stamp_ticks(x text) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN CASE
  WHEN x ~ '^\d{1,2}:' THEN (date '1900-01-01' - date '0001-01-01')::bigint * 864000000000 + mssql.time_ticks(x)
  ELSE (left(x, 10)::date - date '0001-01-01')::bigint * 864000000000
  + CASE WHEN length(x) > 10 THEN mssql.time_ticks(substr(x, 12)) ELSE 0 END END;
CREATE FUNCTION mssql.rounded(ticks bigint, digits int) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN
  (ticks + (10 ^ (7 - digits))::bigint / 2) / (10 ^ (7 - digits))::bigint * (10 ^ (7 - digits))::bigint;
CREATE FUNCTION mssql.thirds(ticks bigint) RETURNS bigint IMMUTABLE LANGUAGE sql RETURN
  round((round(ticks * 3 / 100000.0) * 100000 / 3) / 10000.0)::bigint * 10000;
CREATE FUNCTION mssql.time_text(ticks bigint, digits int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  lpad((ticks / 36000000000)::text, 2, '0') || ':' || lpad((ticks / 600000000 % 60)::text, 2, '0') || ':'
  || lpad((ticks / 10000000 % 60)::text, 2, '0')
  || CASE WHEN digits > 0 THEN '.' || left(lpad((ticks % 10000000)::text, 7, '0'), digits) ELSE '' END;
CREATE FUNCTION mssql.stamp_text(ticks bigint, digits int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  (date '0001-01-01' + (ticks / 864000000000)::int)::text || ' '
  || mssql.time_text(ticks % 864000000000, digits);

CREATE FUNCTION mssql.without_offset(x text) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  regexp_replace(x, '\s*[+-]\d\d:\d\d$', '');
CREATE FUNCTION mssql.offset_of(x text) RETURNS int IMMUTABLE LANGUAGE sql RETURN coalesce(
  (SELECT (m[1] || '1')::int * (m[2]::int * 60 + m[3]::int)
   FROM (SELECT regexp_match(x, '([+-])(\d\d):(\d\d)$') AS m) AS q), 0);
CREATE FUNCTION mssql.offset_text(z int) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  CASE WHEN z < 0 THEN '-' ELSE '+' END
  || lpad((abs(z) / 60)::text, 2, '0') || ':' || lpad((abs(z) % 60)::text, 2, '0');

-- TRY_CONVERT: an expression of $1 as text, NULL if the value is none of its type
CREATE FUNCTION mssql.tried(x anyelement, expression text) RETURNS text STABLE LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN
  EXECUTE 'SELECT ' || expression INTO found USING x;
  RETURN found;
EXCEPTION WHEN data_exception THEN RETURN NULL;
END $$;

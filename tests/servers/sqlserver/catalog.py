"""The stand-in's `sys` and `cdc` schemas: what the server says of its tables, and the capture job.

LSNs come from one sequence: a change takes its own when its row is written, a commit when it is made,
under a lock that is held until the commit is visible, so that commits are numbered in their order.
"""

from __future__ import annotations

CATALOG = """
CREATE TABLE sys.schemas (schema_id int PRIMARY KEY, name text);
INSERT INTO sys.schemas VALUES (1, 'dbo'), (3, 'INFORMATION_SCHEMA'), (4, 'sys'), (5, 'cdc');
CREATE TABLE sys.objects (object_id int PRIMARY KEY, schema_id int, name text, type text,
  is_ms_shipped smallint DEFAULT 0, is_tracked_by_cdc smallint DEFAULT 0);
CREATE VIEW sys.tables AS SELECT object_id, schema_id, name, type, is_ms_shipped, is_tracked_by_cdc
  FROM sys.objects WHERE type = 'U';
CREATE VIEW sys.views AS SELECT object_id, schema_id, name, type, is_ms_shipped FROM sys.objects WHERE type = 'V';
CREATE TABLE sys.types (name text, system_type_id int, user_type_id int, is_user_defined smallint DEFAULT 0,
  is_assembly_type smallint DEFAULT 0);
CREATE TABLE sys.columns (object_id int, column_id int, name text, system_type_id int, user_type_id int,
  max_length smallint, precision smallint, scale smallint, collation_name text, is_nullable smallint,
  is_identity smallint, is_computed smallint, default_object_id int DEFAULT 0, PRIMARY KEY (object_id, column_id));
CREATE TABLE sys.default_constraints (object_id int GENERATED ALWAYS AS IDENTITY (START 100000) PRIMARY KEY,
  parent_object_id int, parent_column_id int, name text, definition text);
CREATE TABLE sys.indexes (object_id int, index_id int, name text, type smallint, is_unique smallint,
  is_primary_key smallint, is_disabled smallint DEFAULT 0, has_filter smallint DEFAULT 0);
CREATE TABLE sys.index_columns (object_id int, index_id int, column_id int, key_ordinal smallint,
  is_descending_key smallint DEFAULT 0, is_included_column smallint DEFAULT 0);
CREATE VIEW sys.databases AS SELECT d.datname::text AS name, d.oid::int AS database_id,
  mssql.setting('cdc')::smallint AS is_cdc_enabled, coalesce(mssql.setting('snapshots'), '1')::smallint
  AS snapshot_isolation_state, 0::smallint AS is_read_committed_snapshot_on, NULL::text AS group_database_id,
  mssql.to_datetime(mssql.setting('created')) AS create_date, mssql.setting('collation') AS collation_name
  FROM pg_database AS d WHERE d.datname = current_database();
CREATE VIEW sys.dm_server_services AS SELECT 'SQL Server Agent (MSSQLSERVER)'::citext AS servicename,
  CASE WHEN coalesce(mssql.setting('agent'), '1') = '1' THEN 4 ELSE 1 END AS status;
CREATE FUNCTION mssql.row_count(id int) RETURNS bigint VOLATILE LANGUAGE plpgsql AS $$
DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %s', id::regclass) INTO n; RETURN n; END $$;
CREATE VIEW sys.partitions AS SELECT object_id, index_id, 1 AS partition_number, mssql.row_count(object_id) AS rows
  FROM (SELECT object_id, 1 AS index_id FROM sys.tables) AS t;
CREATE VIEW sys.dm_db_partition_stats AS SELECT object_id, index_id, rows AS row_count,
  pg_relation_size(object_id::regclass) / 8192 AS used_page_count,
  pg_relation_size(object_id::regclass) / 8192 AS in_row_data_page_count,
  pg_total_relation_size(object_id::regclass) / 8192 AS reserved_page_count FROM sys.partitions;
CREATE FUNCTION mssql.db_id() RETURNS int STABLE LANGUAGE sql RETURN
  (SELECT oid::int FROM pg_database WHERE datname = current_database());
CREATE FUNCTION mssql.db_name() RETURNS text STABLE LANGUAGE sql RETURN current_database()::text;
CREATE FUNCTION mssql.object_id(named text, kind text DEFAULT 'U') RETURNS int STABLE LANGUAGE sql RETURN
  (SELECT object_id FROM sys.objects AS o JOIN sys.schemas AS s USING (schema_id) WHERE
   CASE WHEN position('.' in named) > 0 THEN s.name || '.' || o.name ELSE o.name END
   = replace(replace(named, '[', ''), ']', ''));
CREATE FUNCTION mssql.object_name(id int) RETURNS text STABLE LANGUAGE sql RETURN
  (SELECT name FROM sys.objects WHERE object_id = id);
CREATE FUNCTION mssql.serverproperty(asked text) RETURNS text STABLE LANGUAGE sql RETURN CASE asked
  WHEN 'ProductVersion' THEN '16.0.4135.4' WHEN 'EngineEdition' THEN '3' WHEN 'ServerName' THEN 'standin' END;
CREATE FUNCTION mssql.databasepropertyex(db text, asked text) RETURNS text STABLE LANGUAGE sql RETURN CASE asked
  WHEN 'Updateability' THEN coalesce(mssql.setting('updateability'), 'READ_WRITE')
  WHEN 'Collation' THEN mssql.setting('collation') WHEN 'Status' THEN 'ONLINE' END;
CREATE FUNCTION sys.fn_hadr_is_primary_replica(db text) RETURNS smallint STABLE LANGUAGE sql RETURN
  mssql.setting('primary')::smallint;
"""

_TYPE_IDS = {
    "image": 34, "text": 35, "uniqueidentifier": 36, "date": 40, "time": 41, "datetime2": 42,
    "datetimeoffset": 43, "tinyint": 48, "smallint": 52, "int": 56, "smalldatetime": 58, "real": 59,
    "money": 60, "datetime": 61, "float": 62, "sql_variant": 98, "ntext": 99, "bit": 104,
    "decimal": 106, "numeric": 108, "smallmoney": 122, "bigint": 127, "varbinary": 165, "varchar": 167,
    "binary": 173, "char": 175, "timestamp": 189, "nvarchar": 231, "nchar": 239, "xml": 241,
}
TYPE_IDS = {name: (number, number) for name, number in _TYPE_IDS.items()} | {
    "sysname": (231, 256),
    "hierarchyid": (240, 128),
    "geometry": (240, 129),
    "geography": (240, 130),
}
"""The system type's number and the type's own."""
_TYPES = "INSERT INTO sys.types (name, system_type_id, user_type_id, is_assembly_type) VALUES " + ", ".join(
    f"('{name}', {system}, {user}, {int(system == 240)})" for name, (system, user) in TYPE_IDS.items()
)

_LSN = r"""
CREATE SEQUENCE mssql.lsn START 600000;
CREATE FUNCTION mssql.lsn_of(n bigint) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN
  decode(lpad(to_hex(37 + (n >> 34)), 8, '0') || lpad(to_hex((n >> 4) & 1073741823), 8, '0')
  || lpad(to_hex((n & 15) + 1), 4, '0'), 'hex');
CREATE TABLE mssql.commits (n bigint PRIMARY KEY, xid xid8 UNIQUE, at timestamptz);
CREATE TABLE mssql.touched (xid xid8 PRIMARY KEY);
CREATE FUNCTION mssql.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO mssql.touched VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING; RETURN NULL; END $$;
CREATE FUNCTION mssql.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_advisory_xact_lock(4711);
  INSERT INTO mssql.commits VALUES (nextval('mssql.lsn'), NEW.xid, clock_timestamp());
  DELETE FROM mssql.touched WHERE xid = NEW.xid; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON mssql.touched DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION mssql.at_commit();
CREATE FUNCTION mssql.no_truncate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE 'Cannot truncate table because it is published for replication or enabled for Change Data Capture.'
  USING ERRCODE = 'MS471'; END $$;
CREATE FUNCTION mssql.mask(changed boolean[]) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN
  (SELECT decode(string_agg(lpad(to_hex(b::bit(8)::int), 2, '0'), '' ORDER BY byte DESC), 'hex') FROM
   (SELECT (at - 1) / 8 AS byte, string_agg(one::int::text, '' ORDER BY at DESC)::text AS bits
    FROM unnest(changed || array_fill(false, ARRAY[(8 - cardinality(changed) % 8) % 8]))
    WITH ORDINALITY AS u(one, at) GROUP BY 1) AS q, LATERAL (SELECT bits::bit(8) AS b) AS r);
"""

_CDC = r"""
CREATE TABLE cdc.change_tables (object_id int PRIMARY KEY, version int, source_object_id int,
  capture_instance text UNIQUE, start_lsn bytea, end_lsn bytea, supports_net_changes smallint, has_drop_pending smallint,
  role_name text, index_name text, filegroup_name text, create_date mssql.datetime2_7, partition_switch smallint);
CREATE TABLE cdc.captured_columns (object_id int, column_name text, column_id int, column_type text,
  column_ordinal int, is_computed smallint, PRIMARY KEY (object_id, column_ordinal));
CREATE TABLE cdc.index_columns (object_id int, column_name text, index_ordinal smallint, column_id int);
CREATE TABLE cdc.lsn_time_mapping (start_lsn bytea PRIMARY KEY, tran_begin_time mssql.datetime,
  tran_end_time mssql.datetime, tran_id bytea, tran_begin_lsn bytea);
CREATE FUNCTION sys.fn_cdc_get_max_lsn() RETURNS bytea STABLE LANGUAGE sql RETURN
  (SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn DESC LIMIT 1);
CREATE FUNCTION sys.fn_cdc_get_min_lsn(named text) RETURNS bytea STABLE LANGUAGE sql RETURN
  coalesce((SELECT start_lsn FROM cdc.change_tables WHERE capture_instance = named), '\x00000000000000000000');
CREATE FUNCTION sys.fn_cdc_increment_lsn(lsn bytea) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN
  substring(lsn FROM 1 FOR 8) || decode(lpad(to_hex(('x' || encode(substring(lsn FROM 9 FOR 2), 'hex'))::bit(16)::int
  + 1), 4, '0'), 'hex');
CREATE FUNCTION sys.fn_cdc_map_lsn_to_time(lsn bytea) RETURNS mssql.datetime STABLE LANGUAGE sql RETURN
  (SELECT tran_end_time FROM cdc.lsn_time_mapping WHERE start_lsn = lsn);
CREATE FUNCTION mssql.lsn_text(lsn bytea) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  substr(encode(lsn, 'hex'), 1, 8) || ':' || substr(encode(lsn, 'hex'), 9, 8) || ':' || substr(encode(lsn, 'hex'), 17);
CREATE FUNCTION sys.dm_db_log_stats(id int) RETURNS TABLE (database_id int, log_end_lsn text, log_min_lsn text)
  STABLE LANGUAGE sql AS $$ SELECT id, mssql.lsn_text(mssql.lsn_of(last_value)), mssql.lsn_text(mssql.lsn_of(0))
  FROM mssql.lsn $$;
CREATE FUNCTION mssql.in_range(first bytea, last bytea, named text) RETURNS boolean STABLE LANGUAGE plpgsql AS $$
BEGIN
  IF first IS NULL OR last IS NULL OR first > last OR last > sys.fn_cdc_get_max_lsn()
     OR first < sys.fn_cdc_get_min_lsn(named) THEN
    RAISE 'An insufficient number of arguments were supplied for the procedure or function cdc.fn_cdc_get_all_changes_ ...'
    USING ERRCODE = 'MS313';
  END IF; RETURN true;
END $$;
CREATE FUNCTION mssql.capture() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE one record; upto bigint; many bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(4712);
  SELECT max(n), count(*) INTO upto, many FROM mssql.commits;
  FOR one IN SELECT capture_instance AS name FROM cdc.change_tables LOOP
    EXECUTE format('WITH gone AS (DELETE FROM pending.%1$I AS p USING mssql.commits AS c
      WHERE c.xid = p.__xid AND c.n <= $1 RETURNING c.n AS __n, p.*)
      INSERT INTO cdc.%2$I SELECT mssql.lsn_of(__n), NULL, mssql.lsn_of(__seq), __operation, __mask, %3$s,
      dense_rank() OVER (PARTITION BY __n ORDER BY __seq) FROM gone ORDER BY __n, __seq, __operation',
      one.name, one.name || '_CT', (SELECT string_agg(quote_ident(column_name), ', ' ORDER BY column_ordinal)
      FROM cdc.captured_columns JOIN cdc.change_tables USING (object_id) WHERE capture_instance = one.name))
    USING upto;
  END LOOP;
  INSERT INTO cdc.lsn_time_mapping SELECT mssql.lsn_of(n), mssql.to_datetime(mssql.clock(at)),
    mssql.to_datetime(mssql.clock(at)), decode(lpad(to_hex(n), 12, '0'), 'hex'), mssql.lsn_of(n - 1)
    FROM mssql.commits WHERE n <= upto;
  DELETE FROM mssql.commits WHERE n <= upto;
  RETURN many;
END $$;
"""

EVERYTHING = "".join((CATALOG, _TYPES, ";", _LSN, _CDC))

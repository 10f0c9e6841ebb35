-- What the server reports about itself, its tables, and its clock.
CREATE TABLE mssql.settings (name text PRIMARY KEY, value text);
INSERT INTO mssql.settings VALUES ('offset', '0'), ('identity', gen_random_uuid()::text),
  ('collation', 'SQL_Latin1_General_CP1_CI_AS'), ('created', to_char(now(), 'YYYY-MM-DD HH24:MI:SS.MS'));
CREATE FUNCTION mssql.setting(asked text) RETURNS text STABLE LANGUAGE sql
  RETURN (SELECT value FROM mssql.settings WHERE name = asked);
CREATE FUNCTION mssql.tzoffset() RETURNS int STABLE LANGUAGE sql RETURN mssql.setting('offset')::int;
CREATE FUNCTION mssql.clock(at timestamptz) RETURNS text STABLE LANGUAGE sql RETURN
  to_char((at AT TIME ZONE 'UTC') + make_interval(mins => mssql.tzoffset()), 'YYYY-MM-DD HH24:MI:SS.US');
CREATE FUNCTION mssql.getdate() RETURNS text VOLATILE LANGUAGE sql RETURN mssql.clock(clock_timestamp());

CREATE TABLE sys.schemas (schema_id int PRIMARY KEY, name text);
INSERT INTO sys.schemas VALUES (1, 'dbo'), (3, 'INFORMATION_SCHEMA'), (4, 'sys'), (5, 'cdc');
CREATE TABLE sys.objects (object_id int PRIMARY KEY, schema_id int, name text, type text,
  is_ms_shipped smallint DEFAULT 0, is_tracked_by_cdc smallint DEFAULT 0,
  max_column_id_used int DEFAULT 0);
CREATE VIEW sys.tables AS SELECT object_id, schema_id, name, type, is_ms_shipped, is_tracked_by_cdc, max_column_id_used
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
  is_primary_key smallint, is_disabled smallint DEFAULT 0, has_filter smallint DEFAULT 0, is_hypothetical smallint DEFAULT 0);
CREATE TABLE sys.index_columns (object_id int, index_id int, column_id int, key_ordinal smallint,
  is_descending_key smallint DEFAULT 0, is_included_column smallint DEFAULT 0);
CREATE VIEW sys.databases AS SELECT d.datname::text AS name, d.oid::int AS database_id,
  mssql.setting('cdc')::smallint AS is_cdc_enabled, coalesce(mssql.setting('snapshots'), '1')::smallint
  AS snapshot_isolation_state, 0::smallint AS is_read_committed_snapshot_on, mssql.setting('group') AS group_database_id,
  mssql.to_datetime(mssql.setting('created')) AS create_date, mssql.setting('collation') AS collation_name
  FROM pg_database AS d WHERE d.datname = current_database();
-- `forks` hides it from logins without rights; a LSN is written in decimal digits: ten, ten and five
CREATE FUNCTION mssql.decimal_lsn(lsn bytea) RETURNS numeric IMMUTABLE LANGUAGE sql RETURN
  ('x' || substr(encode(lsn, 'hex'), 1, 8))::bit(32)::bigint * 10::numeric ^ 15
  + ('x' || substr(encode(lsn, 'hex'), 9, 8))::bit(32)::bigint * 10::numeric ^ 5
  + ('x' || substr(encode(lsn, 'hex'), 17))::bit(16)::int;
CREATE VIEW sys.database_recovery_status AS SELECT d.oid::int AS database_id,
  mssql.to_uniqueidentifier(coalesce(mssql.setting('fork'), mssql.setting('identity'))) AS recovery_fork_guid,
  mssql.to_uniqueidentifier(mssql.setting('fork left')) AS first_recovery_fork_guid,
  mssql.setting('fork point')::numeric(25, 0) AS fork_point_lsn
  FROM pg_database AS d WHERE d.datname = current_database() AND coalesce(mssql.setting('forks'), '') <> 'hidden';
CREATE VIEW sys.dm_server_services AS SELECT 'SQL Server Agent (MSSQLSERVER)'::citext AS servicename,
  CASE WHEN coalesce(mssql.setting('agent'), '1') = '1' THEN 4 ELSE 1 END AS status;
CREATE FUNCTION mssql.row_count(id int) RETURNS bigint STABLE LANGUAGE plpgsql AS $$
DECLARE n bigint; BEGIN EXECUTE format('SELECT count(*) FROM %s', id::regclass) INTO n; RETURN n; END $$;
-- STABLE, so that only the requested table is opened: others may be locked
CREATE FUNCTION mssql.pages(id int) RETURNS bigint STABLE LANGUAGE plpgsql AS $$
BEGIN RETURN pg_relation_size(id::regclass) / 8192; END $$;
CREATE VIEW sys.partitions AS SELECT object_id, index_id,
  generate_series(1, coalesce(mssql.setting('partitions ' || object_id::text)::int, 1)) AS partition_number, object_id::bigint AS hobt_id,
  object_id::bigint AS partition_id, mssql.row_count(object_id) AS rows FROM (SELECT object_id, 1 AS index_id FROM sys.tables) AS t;
CREATE VIEW sys.allocation_units AS SELECT object_id::bigint AS container_id, 1::smallint AS type,
  'IN_ROW_DATA' AS type_desc, mssql.pages(object_id) AS used_pages FROM sys.tables;
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

-- after BEGIN TRANSACTION the transaction is older than the statement
CREATE FUNCTION mssql.trancount() RETURNS int VOLATILE LANGUAGE sql RETURN
  CASE WHEN transaction_timestamp() < statement_timestamp() THEN 1 ELSE 0 END;
CREATE FUNCTION mssql.collationproperty(collation_name text, asked text) RETURNS text IMMUTABLE LANGUAGE sql RETURN
  CASE WHEN collation_name LIKE '%UTF8%' THEN '65001' WHEN collation_name LIKE 'Cyrillic%' THEN '1251'
  WHEN collation_name LIKE 'Japanese%' THEN '932' ELSE '1252' END;
CREATE SEQUENCE mssql.rowversion START 2000;

-- LSNs come from one sequence. A change gets its LSN when its row is written. A commit gets its LSN when it is
-- made, under a lock that is held until the commit is visible. So commit LSNs follow the order of commits.
CREATE SEQUENCE mssql.lsn START 600000;
-- the order of changes inside a transaction; in an update of keys it differs from the order of LSNs
CREATE SEQUENCE mssql.command;
CREATE FUNCTION mssql.lsn_of(n bigint) RETURNS bytea IMMUTABLE LANGUAGE sql RETURN
  decode(lpad(to_hex(37 + (n >> 34)), 8, '0') || lpad(to_hex((n >> 4) & 1073741823), 8, '0')
  || lpad(to_hex((n & 15) + 1), 4, '0'), 'hex');
CREATE TABLE mssql.commits (n bigint PRIMARY KEY, xid xid8 UNIQUE, at timestamptz);
CREATE TABLE mssql.touched (xid xid8 PRIMARY KEY);
CREATE FUNCTION mssql.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO mssql.touched VALUES (pg_current_xact_id()) ON CONFLICT DO NOTHING; RETURN NULL; END $$;
CREATE FUNCTION mssql.numbered() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE found bigint; BEGIN
  PERFORM pg_advisory_xact_lock(4711);
  INSERT INTO mssql.commits VALUES (nextval('mssql.lsn'), pg_current_xact_id(), clock_timestamp())
    ON CONFLICT (xid) DO UPDATE SET at = excluded.at RETURNING n INTO found;
  RETURN found; END $$;
CREATE FUNCTION mssql.at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM mssql.numbered();
  DELETE FROM mssql.touched WHERE xid = NEW.xid; RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON mssql.touched DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION mssql.at_commit();
CREATE FUNCTION mssql.no_truncate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE 'Cannot truncate table because it is published for replication or enabled for Change Data Capture.'
  USING ERRCODE = 'MS471'; END $$;
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
DECLARE one record; upto bigint; many bigint; numbered text;
BEGIN
  PERFORM pg_advisory_xact_lock(4712);
  SELECT max(n), count(*) INTO upto, many FROM mssql.commits;
  FOR one IN SELECT capture_instance AS name, object_id FROM cdc.change_tables LOOP
    numbered := (SELECT ', __command::int' FROM sys.columns
      WHERE object_id = one.object_id AND name = '__$command_id');
    EXECUTE format('WITH gone AS (DELETE FROM pending.%1$I AS p USING mssql.commits AS c
      WHERE c.xid = p.__xid AND c.n <= $1 RETURNING c.n AS __n, p.*)
      INSERT INTO cdc.%2$I SELECT mssql.lsn_of(__n), NULL, mssql.lsn_of(__seq), __operation, __mask, %3$s %4$s
      FROM gone ORDER BY __n, __seq, __operation',
      one.name, one.name || '_CT', (SELECT string_agg(quote_ident(column_name), ', ' ORDER BY column_ordinal)
      FROM cdc.captured_columns JOIN cdc.change_tables USING (object_id) WHERE capture_instance = one.name),
      coalesce(numbered, ''))
    USING upto;
  END LOOP;
  INSERT INTO cdc.lsn_time_mapping SELECT mssql.lsn_of(n), mssql.to_datetime(mssql.clock(at)),
    mssql.to_datetime(mssql.clock(at)), decode(lpad(to_hex(n), 12, '0'), 'hex'), mssql.lsn_of(n - 1)
    FROM mssql.commits WHERE n <= upto;
  DELETE FROM mssql.commits WHERE n <= upto;
  RETURN many;
END $$;

-- what the capture job writes now and then on an idle database
CREATE FUNCTION mssql.dummy_entry() RETURNS void LANGUAGE sql AS $$
  SELECT pg_advisory_xact_lock(4711);
  SELECT pg_advisory_xact_lock(4712);
  INSERT INTO cdc.lsn_time_mapping SELECT mssql.lsn_of(n), mssql.to_datetime(mssql.getdate()),
    mssql.to_datetime(mssql.getdate()), '\x00', mssql.lsn_of(n) FROM nextval('mssql.lsn') AS n
    WHERE NOT EXISTS (SELECT FROM mssql.commits) $$;

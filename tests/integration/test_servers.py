"""The embedded servers that everything else stands on."""

from __future__ import annotations

import psycopg
import pytest

from tests.servers.postgres import Database, PostgresServer

pytestmark = pytest.mark.integration


def test_each_version_decodes_logically_in_utf8(each_database: Database):
    with each_database.connect() as connection:
        shown = [connection.execute(f"SHOW {name}").fetchone() for name in ("wal_level", "server_encoding")]
        version = connection.info.server_version // 10_000

    assert version == each_database.server.version
    assert shown == [("logical",), ("UTF8",)]


def test_a_database_goes_with_its_slots(postgres18: PostgresServer):
    database = postgres18.create_database("with a slot")
    with database.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('busy', 'pgoutput')")

    postgres18.drop_database("with a slot")

    with postgres18.connect() as connection:
        assert connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone() == (0,)


def test_a_wrong_password_is_refused(postgres18: PostgresServer):
    with pytest.raises(psycopg.OperationalError, match="password"):
        postgres18.connect(password="wrong")


@pytest.mark.slow
def test_a_killed_server_comes_back_with_what_was_committed():
    with PostgresServer(18, settings={"fsync": "on", "full_page_writes": "on"}) as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE kept (id int PRIMARY KEY)")
            connection.execute("INSERT INTO kept SELECT generate_series(1, 1000)")
            server.kill()
        assert not server.running

        server.start()

        with server.connect() as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (1000,)


def test_a_server_that_can_not_start_says_why():
    with (
        pytest.raises(RuntimeError, match="no_such_setting"),
        PostgresServer(18, settings={"no_such_setting": "1"}),
    ):
        pass


def test_a_named_data_folder_is_kept_and_used_again():
    with PostgresServer(18) as outer:
        folder = outer.pgdata.parent / "named"
        for count in (1, 2):
            with PostgresServer(18, data_dir=folder) as server, server.connect() as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS seen (id int)")
                connection.execute("INSERT INTO seen VALUES (1)")
                assert connection.execute("SELECT count(*) FROM seen").fetchone() == (count,)


def test_tools_for_the_data_folder_run_as_the_servers_account(postgres18: PostgresServer):
    assert "Database cluster state" in postgres18.run_tool("pg_controldata", str(postgres18.pgdata))

"""`tidemark state move`: a job goes on after pg_upgrade and at a replica, and is refused elsewhere.

Run by `make server-move`.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql

from tests.driven import SIGNAL_TABLE, driven, properties
from tests.integration.test_command_signal import configured
from tests.integration.test_embedding import until
from tests.servers.port import free_port
from tests.servers.postgres import PostgresServer
from tests.unit.adapters.cli.test_status import invoke

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": [".*orders"]}')"""
pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture
def old() -> Iterator[PostgresServer]:
    with PostgresServer(18, settings={"wal_level": "logical"}) as server:
        yield server


@pytest.fixture
def shop(old: PostgresServer) -> Database:
    database = old.create_database("shop")
    database.execute(SIGNAL_TABLE, "CREATE TABLE orders (id int PRIMARY KEY)")
    return database


def moved(database: Database, directory: Path) -> Any:
    return invoke("state", "move", configured(properties(database, directory), directory))


def upgraded(old: PostgresServer) -> PostgresServer:
    """A new cluster, not started, that pg_upgrade has made of a running one, which ends."""
    new = PostgresServer(18, settings=old.settings)
    new.start()
    for server in (old, new):
        server.stop()
        hba = server.pgdata / "pg_hba.conf"
        hba.write_text(f"local all all trust\n{hba.read_text()}")
    shutil.copy(old._folder / "password", new._folder / "password")
    options = "-c wal_level=logical"
    new.run_tool(
        "pg_upgrade",
        *("-d", str(old.pgdata), "-D", str(new.pgdata), "-U", "postgres", "-s", str(new._folder)),
        *("-b", str(old._home / "bin"), "-B", str(new._home / "bin"), "-o", options, "-O", options),
        *("-p", str(free_port()), "-P", str(free_port()), "--no-sync"),
        cwd=str(new._folder),
    )
    return new


def ids(job: Any) -> list[int]:
    return [event["key"]["id"] for event in job.events("orders")]


def test_a_job_goes_on_after_an_upgrade(shop: Database, tmp_path: Path, spark: SparkSession):
    with driven(shop, tmp_path, spark) as job:
        shop.execute("INSERT INTO orders SELECT generate_series(1, 5)")
        job.until_drained(shop)
    shop.execute("INSERT INTO orders VALUES (6)")

    early = moved(shop, tmp_path)

    assert early.exit_code == 1
    assert "which the job has not sent" in early.stderr
    with driven(shop, tmp_path, spark) as job:
        job.until_drained(shop)
    noted = moved(shop, tmp_path)
    assert noted.exit_code == 0, noted.output

    with upgraded(shop.server) as server:
        now = dataclasses.replace(shop, server=server)
        now.execute("INSERT INTO orders VALUES (7)")
        result = moved(now, tmp_path)
        assert result.exit_code == 0, result.output
        assert "of the new server" in result.stdout
        with driven(now, tmp_path, spark) as job:
            now.execute("INSERT INTO orders VALUES (8)", "INSERT INTO signals VALUES ('a', 'log', '{}')")
            job.until_drained(now)

            assert ids(job) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_server_that_is_no_upgrade_is_refused(
    shop: Database, database: Database, tmp_path: Path, spark: SparkSession
):
    with driven(shop, tmp_path, spark) as job:
        shop.execute("INSERT INTO orders VALUES (1)")
        job.until_drained(shop)
    database.execute(SIGNAL_TABLE, "CREATE TABLE orders (id int PRIMARY KEY)")
    there = {"slot__name": "slot_shop"}
    config = configured(properties(database, tmp_path, **there), tmp_path)

    assert "nobody has noted" in invoke("state", "move", config).stderr
    moved(shop, tmp_path)
    config = configured(properties(database, tmp_path, **there), tmp_path)
    assert "has no slot 'slot_shop'" in invoke("state", "move", config).stderr
    database.execute(
        "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('slot_shop', 'pgoutput')",
    )
    result = invoke("state", "move", config)

    assert result.exit_code == 1
    # Ids of fresh clusters may be the same; what was sent then lies beyond this server's log or transactions.
    assert re.search("is no copy of the old one|is an older copy|begins before", result.stderr)


def test_a_promoted_standby_needs_no_move(shop: Database, tmp_path: Path, spark: SparkSession):
    with driven(shop, tmp_path, spark) as job:
        shop.execute("INSERT INTO orders VALUES (1)")
        job.until_drained(shop)
    with shop.server.standby("standby") as standby:
        standby.promote()

        result = moved(dataclasses.replace(shop, server=standby), tmp_path)

    assert result.exit_code == 0, result.output
    assert "goes on by itself" in result.stdout


@pytest.fixture
def green(old: PostgresServer, shop: Database) -> Iterator[Database]:
    """A second server that receives the tables of the first one by logical replication."""
    shop.execute("CREATE PUBLICATION blue FOR TABLE orders, signals")
    with PostgresServer(18, settings=old.settings) as server:
        database = server.create_database("shop")
        database.execute(SIGNAL_TABLE, "CREATE TABLE orders (id int PRIMARY KEY)")
        conninfo = shop.server.dsn(shop.name)
        with database.connect() as connection:
            connection.execute(
                sql.SQL("CREATE SUBSCRIPTION green CONNECTION {} PUBLICATION blue").format(conninfo)
            )
        yield database


def received(database: Database, count: int) -> bool:
    with database.connect() as connection:
        rows = connection.execute("SELECT count(*) FROM orders").fetchone()
        markers = connection.execute("SELECT count(*) FROM signals WHERE id ^@ 'tidemark-move-'").fetchone()
    return rows == (count,) and markers == (1,)


def test_a_job_goes_on_at_a_replica(shop: Database, green: Database, tmp_path: Path, spark: SparkSession):
    with driven(shop, tmp_path, spark) as job:
        shop.execute("INSERT INTO orders SELECT generate_series(1, 5)")
        job.until_drained(shop)
    early = moved(green, tmp_path)
    assert "nobody has noted" in early.stderr
    green.execute("ALTER SUBSCRIPTION green DISABLE")
    noted = moved(shop, tmp_path)
    assert noted.exit_code == 0, noted.output

    behind = moved(green, tmp_path)
    assert behind.exit_code == 1
    assert "nor the row 'tidemark-move-" in behind.stderr
    green.execute("ALTER SUBSCRIPTION green ENABLE")
    until(lambda: received(green, 5))
    unpublished = moved(green, tmp_path)
    assert "has no publication 'dbz_publication'" in unpublished.stderr
    green.execute("CREATE PUBLICATION dbz_publication FOR TABLE orders, signals")
    result = moved(green, tmp_path)
    assert result.exit_code == 0, result.output

    green.execute("DROP SUBSCRIPTION green", "INSERT INTO orders VALUES (6)")
    with driven(green, tmp_path, spark) as job:
        green.execute("INSERT INTO orders VALUES (7)", SNAPSHOT)
        job.until(lambda: [answer.outcome for answer in job.answers] == ["accepted", "finished"])
        job.until_drained(green)

        assert [event["key"]["id"] for event in job.events("orders") if event["value"]["op"] == "c"] == [
            *range(1, 8)
        ]


def test_a_replica_of_which_a_table_comes_otherwise_is_refused(
    shop: Database, green: Database, tmp_path: Path, spark: SparkSession
):
    with driven(shop, tmp_path, spark) as job:
        shop.execute("INSERT INTO orders VALUES (1)")
        job.until_drained(shop)
    moved(shop, tmp_path)
    until(lambda: received(green, 1))
    green.execute(
        "CREATE TABLE elsewhere (id int PRIMARY KEY)",
        "CREATE PUBLICATION dbz_publication FOR TABLE orders, elsewhere",
    )

    result = moved(green, tmp_path)

    assert result.exit_code == 1
    assert "no subscription of the new server has public.elsewhere" in result.stderr

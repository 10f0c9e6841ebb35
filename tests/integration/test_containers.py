"""The recorded basics on every supported PostgreSQL, from images; only where there is Docker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import psycopg
import pytest
from docker.errors import DockerException
from testcontainers.community.postgres import PostgresContainer

from tests.golden.case import OWN_CASES, Case, load_case
from tests.golden.compare import difference

VERSIONS = (13, 14, 15, 16, 17, 18)
CASES = ("a1_customers_default", "b1_pk_update", "i1_incremental")


def docker_answers() -> bool:
    if "DOCKER_HOST" not in os.environ and not Path("/var/run/docker.sock").exists():
        return False
    try:
        client = docker.from_env()
    except DockerException:
        return False
    try:
        return bool(client.ping())
    except DockerException:
        return False
    finally:
        client.close()


pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not docker_answers(), reason="there is no Docker here; embedded servers run instead"),
]


@pytest.fixture(scope="module", params=VERSIONS)
def container(request: pytest.FixtureRequest) -> Iterator[PostgresContainer]:
    image = PostgresContainer(f"postgres:{request.param}", dbname="inventory", driver=None)
    with image.with_command("postgres -c wal_level=logical") as started:
        yield started


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gives_its_events_on_every_version(
    container: PostgresContainer, name: str, tmp_path: Path
):
    from tests.golden.engine_under_test import start  # noqa: PLC0415  (starts Spark: only where there is Docker)

    case = load_case(OWN_CASES / "postgres" / name)
    with psycopg.connect(container.get_connection_url(), autocommit=True) as connection:
        empty(connection)
        run(connection, case, "setup.sql")
        connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        engine = start(properties(container, case), tmp_path / "events")
        try:
            wait(lambda: engine.drained(0) and slot_is_active(connection))
            run(connection, case, "change.sql")
            end = number(connection, "SELECT pg_current_wal_insert_lsn() - '0/0'")
            wait(lambda: engine.drained(end))
        finally:
            engine.stop()

    assert difference(case, case.expected, engine.events()) is None


def empty(connection: psycopg.Connection) -> None:
    connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    connection.execute("DROP PUBLICATION IF EXISTS dbz_publication")
    connection.execute("DROP SCHEMA public CASCADE")
    connection.execute("CREATE SCHEMA public")


def run(connection: psycopg.Connection, case: Case, script: str) -> None:
    """Run a script; where it has transactions of several statements, these stand on lines of their own."""
    text = case.script(script)
    assert text is not None
    for line in text.splitlines():
        connection.execute(line.encode())


def properties(container: PostgresContainer, case: Case) -> dict[str, str]:
    return {
        **case.properties,
        "database.hostname": container.get_container_host_ip(),
        "database.port": str(container.get_exposed_port(5432)),
        "database.user": container.username,
        "database.password": container.password,
    }


def slot_is_active(connection: psycopg.Connection) -> bool:
    return number(connection, "SELECT count(*) FROM pg_replication_slots WHERE active") == 1


def number(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it in time"
        time.sleep(0.05)

"""Every supported PostgreSQL, Kafka and docker-compose.yml, from images; only where there is Docker.

What is done with the servers is what the suites on embedded ones do: the recorded basics, and the road
through Kafka from a signal to events.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from testcontainers.community.kafka import KafkaContainer
from testcontainers.community.postgres import PostgresContainer

from tests.golden.case import OWN_CASES, Case, load_case
from tests.golden.compare import difference
from tests.kafka_road import assert_signal_to_topics
from tests.servers.elsewhere import Elsewhere
from tests.servers.images import docker_answers
from tests.servers.kafka import ContainedBroker
from tests.servers.port import free_port
from tests.servers.postgres import Database

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.servers.postgres import PostgresServer

VERSIONS = (13, 14, 15, 16, 17, 18)
CASES = ("a1_customers_default", "b1_pk_update", "i1_incremental")


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


@pytest.fixture(scope="module")
def broker() -> Iterator[ContainedBroker]:
    with KafkaContainer("confluentinc/cp-kafka:7.9.0").with_kraft() as started:
        yield ContainedBroker(started.get_bootstrap_server())


def test_the_road_through_kafka_ends_with_the_same_rows_on_every_version(
    container: PostgresContainer, broker: ContainedBroker, topic: str, tmp_path: Path, spark: SparkSession
):
    server = Elsewhere(
        str(container.get_container_host_ip()),
        int(container.get_exposed_port(5432)),
        str(container.username),
        str(container.password),
    )
    with server.connect("inventory") as connection:
        empty(connection)
    database = Database(cast("PostgresServer", server), "inventory")

    assert_signal_to_topics(database, broker, topic, tmp_path, spark)


@pytest.fixture
def composed() -> Iterator[ContainedBroker]:
    """Everything of docker-compose.yml, up and well; ports and names are not those of a person's own."""
    services = ("POSTGRES", "KAFKA", "UI", "PAGE", "GRAFANA", "PROMETHEUS")
    ports = {f"{name}_PORT": str(free_port()) for name in services}
    command = ["docker", "compose", "--project-name", f"tidemark-test-{os.getpid()}"]
    where: dict[str, Any] = {"env": {**os.environ, **ports}, "cwd": Path(__file__).parents[2]}
    try:
        subprocess.run([*command, "up", "--build", "--wait", "--wait-timeout", "600"], check=True, **where)
        yield ContainedBroker(f"localhost:{ports['KAFKA_PORT']}")
    finally:
        subprocess.run([*command, "down", "--volumes", "--remove-orphans"], check=True, **where)


def test_the_composed_job_answers_a_signal_with_events(composed: ContainedBroker):
    events = "shop.public.orders"
    wait(lambda: composed.partitions(events) > 0 and composed.count(events) >= 10_000, 120.0)
    first = composed.count(events)
    value = {"type": "execute-snapshot", "data": {"data-collections": ["public.orders"]}}
    composed.send("shop-signal", json.dumps(value), "shop")

    wait(lambda: composed.count(events) >= first + 10_000, 120.0)


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

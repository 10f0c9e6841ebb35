"""SECURITY.md's rights on a real server: enough for all that the job does, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.driven import driven
from tests.unit.test_security import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

PASSWORD = "a-password"
TABLE = "CREATE TABLE orders AS SELECT i AS id FROM generate_series(1, 50) i"
SIGNAL = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.orders"]}')"""


@pytest.fixture
def least(database: Database) -> Iterator[Database]:
    """A database whose job has the least rights for windows that write nothing."""
    reads, _writes = blocks("PostgreSQL")
    with database.connect() as connection:
        for statement in (
            "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
            TABLE,
            "ALTER TABLE orders ADD PRIMARY KEY (id)",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
            "REVOKE ALL ON SCHEMA public FROM PUBLIC",
            *reads.replace("…", PASSWORD).split(";"),
        ):
            if statement.strip():
                connection.execute(statement.encode())
    yield database
    database.execute("DROP OWNED BY tidemark", "DROP ROLE tidemark")


def snapshot(database: Database, directory: Path, spark: SparkSession, outcome: str, **more: str) -> int:
    """How many rows a snapshot sends that ends so."""
    who = {"database__user": "tidemark", "database__password": PASSWORD}
    more |= {**who, "publication__autocreate__mode": "disabled"}
    with driven(database, directory, spark, **more) as job:
        with database.connect() as connection:
            connection.execute(SIGNAL.encode())
        job.until_answered(outcome)
        return sum(event["value"]["op"] == "r" for event in job.events("orders"))


def test_the_least_role_streams_and_snapshots_and_may_write_nothing(
    least: Database, tmp_path: Path, spark: SparkSession
):
    assert snapshot(least, tmp_path, spark, "finished") == 50

    server = least.server
    where = f"host={server.host} port={server.port} dbname={least.name} user=tidemark password={PASSWORD}"
    with psycopg.connect(where, autocommit=True) as connection:
        for statement in ("DELETE FROM orders", SIGNAL, "CREATE TABLE mine (id int)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())


def test_marks_in_the_signal_table_take_the_rights_to_write_it(
    least: Database, tmp_path: Path, spark: SparkSession
):
    _reads, writes = blocks("PostgreSQL")
    with least.connect() as connection:
        connection.execute(writes.encode())
    more = {"incremental.snapshot.watermarking.strategy": "insert_delete"}

    assert snapshot(least, tmp_path, spark, "finished", **more) == 50

"""A log of a real server that is lost: the loss is named, and the copy is repaired to the last row.

Consumers see a row read for each that is missing or different, a delete for each that is gone, no others.
check_recovery.py has the other ways to lose a log, and the other sources.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Loss
from tests.driven import driven, replayed_rows, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

REPAIR = {"tidemark__recovery": "repair", "snapshot__mode": "when_needed", "slot__name": "job"}
TABLES = (
    "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
    "CREATE TABLE orders (id int PRIMARY KEY, note text, large text)",
    "ALTER TABLE orders ALTER large SET STORAGE EXTERNAL",
    "INSERT INTO orders SELECT i, 'n' || i, repeat(md5(i::text), 100) FROM generate_series(1, 300) i",
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, 50) i",
)
GAP = (
    "UPDATE orders SET note = 'changed' WHERE id <= 5",
    "UPDATE orders SET large = 'other' WHERE id = 6",
    "DELETE FROM orders WHERE id BETWEEN 11 AND 15",
    "UPDATE orders SET id = id + 1000 WHERE id BETWEEN 21 AND 23",
    "INSERT INTO orders SELECT i, 'new', 'l' FROM generate_series(401, 404) i",
    "TRUNCATE customers",
    "INSERT INTO customers VALUES (3, 'c3'), (60, 'c60')",
)
"""5 + 1 rows differ, 5 are gone, 3 have moved, 4 are new; of 50 customers one is left, and one is new."""
READS, DELETES = {"orders": 13, "customers": 1}, {"orders": 8, "customers": 49}


class Copied:
    """A job whose files have all rows, and a consumer of them."""

    def __init__(self, database: Database, directory: Path, spark: SparkSession) -> None:
        self.database, self.directory, self._spark = database, directory, spark

    def stream(self, database: Database | None = None, **more: str) -> Driven:
        """Start the job, stream all there is, end what is queued, stop it."""
        database = database or self.database
        with driven(database, self.directory, self._spark, **(REPAIR | more)) as job:
            job.until_drained(database)
            job.until(lambda: not job.job.state.snapshot.tables)
            for _ in range(3):
                job.job.turn()
            return job

    def check(self, job: Driven, loss: Loss, since: int, database: Database | None = None) -> None:
        """The loss was named, and exactly what differed was sent; since so many events of both tables."""
        state = job.job.state
        assert state.recovery is not None
        assert state.recovery.loss is loss, state.recovery
        assert state.incomplete == ()
        label = state.recovery.label
        ends = {
            answer.collection: answer
            for answer in job.answers
            if answer.id == label and answer.outcome != "accepted"
        }
        for table in ("orders", "customers"):
            assert replayed_rows(job.events(table)) == rows_of(database or self.database, table)
            answer = ends[f"public.{table}"]
            assert answer.outcome == "finished", answer.text
            assert (answer.facts["reads"], answer.facts["deletes"]) == (READS[table], DELETES[table])
        sent = [event for event in self.events(job)[since:] if event["value"] is not None]
        assert len(sent) == sum(READS.values()) + sum(DELETES.values())

    @staticmethod
    def events(job: Driven) -> list[dict[str, Any]]:
        """The events of both tables."""
        topics = ("tm.public.orders", "tm.public.customers")
        return [event for event in job.events() if event["topic"] in topics]


@pytest.fixture
def copied(database: Database, tmp_path: Path, spark: SparkSession) -> Copied:
    database.execute(*TABLES)
    return Copied(database, tmp_path, spark)


def lose(database: Database, *statements: str) -> None:
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_slot_that_was_dropped(copied, caplog):
    since = len(copied.events(copied.stream()))
    lose(copied.database, "SELECT pg_drop_replication_slot('job')", *GAP)
    job = copied.stream()

    copied.check(job, Loss.SLOT_MISSING, since)
    assert "(slot missing): slot 'job' does not exist" in caplog.text
    assert "the recovery has ended: every collection of the copy is complete again" in caplog.text


def test_a_checkpoint_that_is_lost(copied, caplog):
    first = copied.stream()
    since, newest = len(copied.events(first)), first.job.state.turn
    shutil.rmtree(copied.directory / "state")
    lose(copied.database, *GAP)
    job = copied.stream()

    copied.check(job, Loss.CHECKPOINT_LOST, since)
    assert job.job.state.recovery.turn == newest + 1
    assert f"the sink holds turns up to {newest}, and the checkpoint is empty" in caplog.text

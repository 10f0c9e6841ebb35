"""Logs of real servers that are lost in every way: each is named, and the copy is repaired to the last row.

Consumers see a row read for each that is missing or different, a delete for each that is gone, no others.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Loss, PositionLost
from tests.driven import driven, replayed_rows, rows_of
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.driven import Driven

pytestmark = [pytest.mark.integration, pytest.mark.slow]

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
        ends = {one.collection: one for one in job.answers if one.id == label and one.outcome != "accepted"}
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


class TestSlot:
    def test_dropped(self, copied, caplog):
        since = len(copied.events(copied.stream()))
        lose(copied.database, "SELECT pg_drop_replication_slot('job')", *GAP)
        job = copied.stream()

        copied.check(job, Loss.SLOT_MISSING, since)
        assert "(slot missing): slot 'job' does not exist" in caplog.text
        assert "the recovery has ended: every collection of the copy is complete again" in caplog.text

    def test_moved_by_somebody_else_while_changes_go_on(self, copied):
        """What the new log brings comes once, by the log."""
        since = len(copied.events(copied.stream()))
        move = "SELECT pg_replication_slot_advance('job', pg_current_wal_lsn())"
        lose(copied.database, *GAP, move)
        with driven(copied.database, copied.directory, copied._spark, **REPAIR) as job:
            lose(copied.database, "INSERT INTO orders VALUES (9000, 'streamed', 'l')")
            job.until(lambda: not job.job.state.snapshot.tables)
            job.until_drained(copied.database)

        recovery = job.job.state.recovery
        assert recovery is not None
        assert recovery.loss is Loss.SLOT_ADVANCED
        assert replayed_rows(job.events("orders")) == rows_of(copied.database, "orders")
        events = [one for one in copied.events(job)[since:] if one["key"]["id"] == 9000]
        assert [one["value"]["op"] for one in events] == ["c"]

    def test_without_the_setting_the_job_stops(self, copied):
        copied.stream()
        lose(copied.database, "SELECT pg_drop_replication_slot('job')")

        with pytest.raises(PositionLost, match="does not exist"):
            copied.stream(tidemark__recovery="stop", snapshot__mode="initial")


def test_a_checkpoint_that_is_lost(copied, caplog):
    first = copied.stream()
    since, newest = len(copied.events(first)), first.job.state.turn
    shutil.rmtree(copied.directory / "state")
    lose(copied.database, *GAP)
    job = copied.stream()

    copied.check(job, Loss.CHECKPOINT_LOST, since)
    assert job.job.state.recovery.turn == newest + 1
    assert f"the sink holds turns up to {newest}, and the checkpoint is empty" in caplog.text


class TestServers:
    """Servers that take the place of others."""

    @pytest.fixture
    def servers(self) -> Iterator[list[PostgresServer]]:
        opened: list[PostgresServer] = []
        yield opened
        for server in opened:
            server.close()

    @pytest.fixture
    def primary(self, servers: list[PostgresServer]) -> PostgresServer:
        settings = {"max_slot_wal_keep_size": "64MB", "max_wal_size": "32MB"}
        server = PostgresServer(18, settings=settings)
        servers.append(server)
        server.start()
        return server

    @pytest.fixture
    def shop(self, primary: PostgresServer, tmp_path: Path, spark: SparkSession) -> Copied:
        database = primary.create_database("shop")
        lose(database, *TABLES)
        return Copied(database, tmp_path, spark)

    def test_a_slot_that_the_server_gave_up(self, shop):
        since = len(shop.events(shop.stream()))
        lose(shop.database, *GAP)
        for _ in range(10):
            lose(shop.database, "SELECT pg_switch_wal()", "CREATE TABLE x ()", "DROP TABLE x")
        lose(shop.database, "CHECKPOINT")
        job = shop.stream()

        shop.check(job, Loss.SLOT_INVALIDATED, since)

    def test_a_standby_without_the_slot(self, shop, primary, servers, caplog):
        since = len(shop.events(shop.stream()))
        standby = primary.standby("standby")
        servers.append(standby)
        standby.start()
        primary.kill()
        standby.promote()
        promoted = Database(standby, "shop")
        lose(promoted, *GAP)
        job = shop.stream(promoted)

        shop.check(job, Loss.PROMOTED, since, promoted)
        assert "does not exist on this server, which was promoted at" in caplog.text

    def test_a_copy_of_the_volume_from_an_earlier_time(self, shop, primary, servers):
        """Its transactions get ids that the lost ones had."""
        primary.stop()
        shop_before = primary.copy()
        servers.append(shop_before)
        primary.start()
        shop.stream()
        lose(shop.database, *GAP)
        shop.stream()
        primary.kill()
        shop_before.start()
        there = Database(shop_before, "shop")
        lose(there, "UPDATE orders SET note = 'another history' WHERE id = 7")
        job = shop.stream(there)

        assert job.job.state.recovery.loss in {Loss.SLOT_MISSING, Loss.RESTORED}
        assert job.job.state.incomplete == ()
        for table in ("orders", "customers"):
            assert replayed_rows(job.events(table)) == rows_of(there, table)

    def test_another_server_with_the_same_rows(self, shop, servers):
        since = len(shop.events(shop.stream()))
        other = PostgresServer(18)
        servers.append(other)
        other.start()
        there = other.create_database("shop")
        lose(there, *TABLES, *GAP)
        job = shop.stream(there)

        shop.check(job, Loss.REPLACED, since, there)

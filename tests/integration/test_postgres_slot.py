"""The replication slot: what it must be at a start, and what the server keeps for it."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.log.slots.retention import Retention
from adapters.postgres.server.connection import Identity, check_identity
from adapters.postgres.server.questions.slots import SlotRetention, Slots
from engine.errors import ConfigError, PositionLost, StateError
from tests.driven import SIGNAL_TABLE, driven
from tests.servers.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


@pytest.fixture
def table(each_database: Database) -> Database:
    each_database.execute(SIGNAL_TABLE, "CREATE TABLE t (id int PRIMARY KEY)")
    return each_database


@pytest.fixture(scope="module")
def small() -> Iterator[PostgresServer]:
    """A server that gives slots up early."""
    with PostgresServer(15, settings={"max_slot_wal_keep_size": "128MB", "max_wal_size": "32MB"}) as server:
        yield server


class TestAtTheStart:
    def restarted(self, table: Database, tmp_path: Path, spark: Any, meanwhile: str) -> None:
        """A job that read the log before, after a statement that was run while it was down."""
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            connection.execute("INSERT INTO t VALUES (1)")
            job.until(lambda: job.events("t"))
        with table.connect() as connection:
            connection.execute("INSERT INTO t VALUES (2)")
            connection.execute(meanwhile.replace("SLOT", f"'slot_{table.name}'").encode())
            connection.execute("INSERT INTO t VALUES (3)")
        with driven(table, tmp_path, spark) as job:
            job.until_drained(table)

    def test_one_moved_past_the_saved_position_stops_the_job(self, table, tmp_path, spark):
        with pytest.raises(PositionLost, match="past the saved position"):
            self.restarted(
                table, tmp_path, spark, "SELECT pg_replication_slot_advance(SLOT, pg_current_wal_lsn())"
            )

    def test_so_does_one_that_is_gone(self, table, tmp_path, spark):
        with pytest.raises(PositionLost, match="does not exist"):
            self.restarted(table, tmp_path, spark, "SELECT pg_drop_replication_slot(SLOT)")

    def test_and_one_that_was_made_again(self, table, tmp_path, spark):
        again = (
            "SELECT pg_drop_replication_slot(SLOT);"
            " SELECT pg_create_logical_replication_slot(SLOT, 'pgoutput')"
        )
        with pytest.raises(PositionLost, match="past the saved position"):
            self.restarted(table, tmp_path, spark, again)

    def test_a_slot_of_another_kind_is_no_slot(self, table, tmp_path, spark):
        with table.connect() as connection:
            name = f"slot_{table.name}"
            connection.execute("SELECT pg_create_physical_replication_slot(%s)", [name])
            try:
                with (
                    pytest.raises(ConfigError, match="belongs to plugin None"),
                    driven(table, tmp_path, spark),
                ):
                    pass
            finally:
                connection.execute("SELECT pg_drop_replication_slot(%s)", [name])

    def test_a_slot_that_sends_what_is_only_prepared_is_refused(self, table, tmp_path, spark):
        """It would send the rows of a prepared transaction that is rolled back."""
        with table.connect() as connection:
            name = f"slot_{table.name}"
            made = "SELECT pg_create_logical_replication_slot(%s, 'pgoutput', false, true)"
            connection.execute(made, [name])
            try:
                with (
                    pytest.raises(ConfigError, match="was made for two-phase commit"),
                    driven(table, tmp_path, spark),
                ):
                    pass
            finally:
                connection.execute("SELECT pg_drop_replication_slot(%s)", [name])

    @pytest.mark.parametrize("name", ["system", "database"])
    def test_a_state_of_another_database_is_refused(self, name):
        found = Identity("1", 1, "d")
        with pytest.raises(StateError, match=name):
            check_identity({**found.to_json(), name: "other"}, found)


class TestRetention:
    def grow(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS filler (id int)")
        connection.execute("INSERT INTO filler VALUES (1)")
        connection.execute("SELECT pg_switch_wal()")
        connection.execute("CHECKPOINT")

    def test_it_is_warned_of_before_the_server_gives_the_slot_up(self, small, caplog):
        database = small.create_database("kept")
        moments = itertools.count(0, 61)
        retention = Retention("s", 10 << 30, lambda: float(next(moments)))
        with database.connect() as connection:
            connection.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            retention.look(Slots(connection))
            assert caplog.text == ""
            for _ in range(12):
                self.grow(connection)
                retention.look(Slots(connection))
            told = [record.getMessage() for record in caplog.records]
            connection.execute("SELECT pg_drop_replication_slot('s')")

        assert "'extended'" in told[0]
        assert "gives the slot up after" in told[0]
        assert any("'unreserved'" in notification or "'lost'" in notification for notification in told)
        assert len(told) <= 4

    def test_above_the_bound_it_is_warned_of_again_when_twice_as_much(self, caplog):
        retention: Any = Retention("s", 100, time.monotonic)
        for size in (50, 101, 150, 201, 202, 50, 120):
            retention._judge(SlotRetention("reserved", size))

        assert len(caplog.records) == 3
        assert "tidemark.wal.warn.bytes" in caplog.text

    def test_a_job_looks_though_its_log_is_silent(self, table, tmp_path, spark, caplog):
        with driven(table, tmp_path, spark, tidemark__wal__warn__bytes="1k") as job:
            with table.connect() as connection:
                connection.execute("INSERT INTO t SELECT generate_series(1, 1000)")
            for _ in range(3):
                job.job.turn()

        assert caplog.text.count("the server keeps") == 1

    def test_a_slot_given_up_stops_the_job(self, small, tmp_path, spark):
        database = small.create_database("given_up")
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
            with driven(database, tmp_path, spark) as job:
                job.until_drained(database)
            for _ in range(12):
                self.grow(connection)
            with (
                pytest.raises(PositionLost, match="no longer keeps the log of slot"),
                driven(database, tmp_path, spark),
            ):
                pass

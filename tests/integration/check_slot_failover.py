"""`slot.failover` on a real pair of servers: the standby keeps the slot, and a promotion needs no repair."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from engine.errors import ConfigError
from tests.driven import SIGNAL_TABLE, driven, replayed_rows, rows_of
from tests.integration.test_recovery import REPAIR, TABLES, lose
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration
SETTINGS = {"hot_standby_feedback": "on", "max_replication_slots": "10", "max_wal_senders": "10"}
FAILOVER = REPAIR | {"slot__failover": "true"}


@pytest.fixture
def servers() -> Iterator[list[PostgresServer]]:
    opened: list[PostgresServer] = []
    yield opened
    for server in opened:
        server.close()


class Pair:
    """A primary with a database, and a standby whose own worker synchronises slots."""

    def __init__(self, servers: list[PostgresServer]) -> None:
        primary = self._primary = PostgresServer(18, settings=SETTINGS)
        servers.append(primary)
        primary.start()
        self.shop = primary.create_database("shop")
        lose(self.shop, *TABLES)
        standby = self._standby = primary.standby("standby")
        servers.append(standby)
        standby.settings |= {
            "primary_conninfo": primary.dsn("shop"),
            "primary_slot_name": "standby",
            "sync_replication_slots": "on",
        }
        standby.start()

    def has_slot(self) -> bool:
        """Whether a promotion would keep the slot. It is temporary until it has caught up."""
        return self._confirmed(self._standby) is not None

    def write(self) -> None:
        """What any primary does now and then; the slot moves on with it."""
        lose(self.shop, "SELECT pg_log_standby_snapshot()", "SELECT pg_current_xact_id()")

    def catch_up(self) -> None:
        """Wait until the standby has the slot, and the log, as the primary has them."""
        deadline = time.monotonic() + 60
        with self._primary.connect() as there, self._standby.connect() as here:
            end = there.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
            while True:
                row = here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end).fetchone()
                wanted, found = self._confirmed(self._primary), self._confirmed(self._standby)
                if row == (True,) and wanted == found:
                    return
                assert time.monotonic() < deadline, f"the slot is at {found}, not at {wanted}"
                time.sleep(0.1)

    def promote(self) -> Database:
        """The primary is gone; the standby takes its place."""
        self._primary.kill()
        self._standby.promote()
        return Database(self._standby, "shop")

    @staticmethod
    def _confirmed(server: PostgresServer) -> str | None:
        question = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'job'"
        with server.connect() as connection:
            row = connection.execute(f"{question} AND NOT temporary".encode()).fetchone()
        return row[0] if row else None


@pytest.mark.parametrize("existed", [False, True], ids=["a new slot", "one without it"])
def test_a_promoted_standby_goes_on_with_the_slot(servers, tmp_path, spark, caplog, existed):
    pair = Pair(servers)
    if existed:
        with driven(pair.shop, tmp_path, spark, **REPAIR) as job:
            job.job.turn()
            assert not pair.has_slot()
    with driven(pair.shop, tmp_path, spark, **FAILOVER) as job:
        job.until(lambda: not job.job.state.snapshot.tables)

        def synchronised() -> bool:
            pair.write()
            return pair.has_slot()

        job.until(synchronised)
        lose(pair.shop, "UPDATE orders SET note = 'sent', large = 's' WHERE id = 1")
        job.until_drained(pair.shop)
        job.job.turn()
        before = len(job.events("orders"))
    lose(pair.shop, "UPDATE orders SET note = 'not sent yet', large = 'n' WHERE id = 2")
    pair.catch_up()
    promoted = pair.promote()
    lose(promoted, "DELETE FROM orders WHERE id = 3")

    with driven(promoted, tmp_path, spark, **FAILOVER) as job:
        job.until_drained(promoted)

    assert job.job.state.recovery is None
    assert job.job.state.incomplete == ()
    assert replayed_rows(job.events("orders")) == rows_of(promoted, "orders")
    sent = [event["value"]["op"] for event in job.events("orders")[before:] if event["value"]]
    assert sent == ["u", "d"]
    assert "timeline 2 goes on from what was sent of timeline 1" in caplog.text


@pytest.mark.parametrize("existed", [False, True], ids=["a new slot", "one without it"])
def test_a_server_before_17_refuses_the_setting(database15, tmp_path, spark, existed):
    """Nobody must believe that a standby has the slot."""
    database15.execute(SIGNAL_TABLE)
    if existed:
        with driven(database15, tmp_path, spark, slot__name="job") as job:
            job.job.turn()

    with (
        pytest.raises(ConfigError, match="needs PostgreSQL 17 or later"),
        driven(database15, tmp_path, spark, slot__name="job", slot__failover="true"),
    ):
        pass

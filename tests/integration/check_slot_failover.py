"""`slot.failover` on a real pair of servers: the standby keeps the slot, and a promotion needs no repair."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.driven import driven, replayed_rows, rows_of
from tests.integration.test_recovery import REPAIR, TABLES, lose
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration
SETTINGS = {"hot_standby_feedback": "on", "max_replication_slots": "10", "max_wal_senders": "10"}


@pytest.fixture
def servers() -> Iterator[list[PostgresServer]]:
    opened: list[PostgresServer] = []
    yield opened
    for server in opened:
        server.close()


def pair(servers: list[PostgresServer]) -> tuple[PostgresServer, PostgresServer]:
    """A primary with a database, and a standby that follows it."""
    primary = PostgresServer(18, settings=SETTINGS)
    servers.append(primary)
    primary.start()
    lose(primary.create_database("shop"), *TABLES)
    standby = primary.standby("standby")
    servers.append(standby)
    standby.settings |= {
        "primary_conninfo": primary.dsn("shop"),
        "primary_slot_name": "standby",
        "sync_replication_slots": "on",
    }
    standby.start()
    return primary, standby


def synchronised(primary: PostgresServer, standby: PostgresServer) -> None:
    """Wait until the standby's own worker has the slot where the primary has it."""
    question = (
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'job' AND NOT temporary"
    )
    with primary.connect("shop") as there, standby.connect("shop") as here:
        deadline = time.monotonic() + 60
        while True:
            there.execute("SELECT pg_log_standby_snapshot()")
            wanted, found = there.execute(question).fetchone(), here.execute(question).fetchone()
            if wanted is not None and wanted == found:
                return
            assert time.monotonic() < deadline, f"the slot is not synchronised: {wanted}, {found}"
            time.sleep(0.2)


@pytest.mark.parametrize("existed", [False, True], ids=["a new slot", "one without it"])
def test_a_promoted_standby_goes_on_with_the_slot(servers, tmp_path, spark, caplog, existed):
    primary, standby = pair(servers)
    shop = Database(primary, "shop")
    if existed:
        with driven(shop, tmp_path, spark, **REPAIR) as job:
            job.until_drained(shop)
    failover = REPAIR | {"slot__failover": "true"}
    with driven(shop, tmp_path, spark, **failover) as job:
        job.until(lambda: not job.job.state.snapshot.tables)
        lose(shop, "UPDATE orders SET note = 'sent' WHERE id = 1")
        job.until_drained(shop)
    with driven(shop, tmp_path, spark, **failover) as job:
        job.until_drained(shop)
        before = len(job.events("orders"))
    lose(shop, "UPDATE orders SET note = 'not sent yet' WHERE id = 2")
    synchronised(primary, standby)
    with primary.connect() as there, standby.connect() as here:
        end = there.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        while not (here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end).fetchone() or [0])[0]:
            time.sleep(0.05)
    primary.kill()
    standby.promote()
    promoted = Database(standby, "shop")
    lose(promoted, "DELETE FROM orders WHERE id = 3")

    with driven(promoted, tmp_path, spark, **failover) as job:
        job.until_drained(promoted)

    assert job.job.state.recovery is None
    assert job.job.state.incomplete == ()
    assert replayed_rows(job.events("orders")) == rows_of(promoted, "orders")
    sent = [one["value"]["op"] for one in job.events("orders")[before:] if one["value"]]
    assert sent == ["u", "d"]
    assert "timeline 2 goes on from what was sent of timeline 1" in caplog.text


def test_an_older_server_refuses_the_setting(each_database, tmp_path, spark):
    """Nobody must believe that a standby has the slot."""
    with each_database.connect() as connection:
        version = connection.info.server_version
    if version >= 170_000:
        with driven(each_database, tmp_path, spark, slot__failover="true"):
            return
    with (
        pytest.raises(Exception, match="needs PostgreSQL 17 or later"),
        driven(each_database, tmp_path, spark, slot__failover="true"),
    ):
        pass

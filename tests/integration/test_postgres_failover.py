"""A server that is not what it was: promoted, restored from a copy, crashed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from adapters.postgres.log.forks import check_fork, check_reach, fork_of
from adapters.postgres.server.connection import Identity, Server
from engine.errors import Loss, PositionLost, SourceError, StateError
from tests.driven import SIGNAL_TABLE, driven, replayed_rows
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration
SLOT = "job"
_SETTINGS = {"hot_standby_feedback": "on", "max_replication_slots": "10", "max_wal_senders": "10"}


def insert(database: Database, *keys: int) -> None:
    with database.connect() as connection:
        for key in keys:
            connection.execute("INSERT INTO t VALUES (%s, 'x')", [key])


def prepare(server: PostgresServer, *, failover: bool = False) -> Database:
    database = server.create_database("shop")
    with database.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
        more = ", failover => true" if failover else ""
        connection.execute(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput'{more})".encode())
    return database


class Site:
    """A job that can be run against one server after another."""

    def __init__(self, directory: Path, spark: SparkSession) -> None:
        self._directory, self._spark = directory, spark

    def stream(self, database: Database, **more: str) -> set[int]:
        """Start the job, stream all there is, stop it; the keys that a consumer has."""
        with driven(database, self._directory, self._spark, slot__name=SLOT, **more) as job:
            job.until_drained(database)
            job.until(lambda: not job.job.state.snapshot.tables)
            return set(replayed_rows(job.events("t")))


@pytest.fixture
def site(tmp_path: Path, spark: SparkSession) -> Site:
    return Site(tmp_path, spark)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    """Servers of this module, to be closed at its end."""
    opened: list[PostgresServer] = []
    yield opened
    for server in opened:
        server.close()


class TestPromotion:
    """PostgreSQL 18 with a slot that is synchronised to the standby."""

    @pytest.fixture
    def pair(self, servers) -> tuple[PostgresServer, PostgresServer, Database]:
        primary = PostgresServer(18, settings=_SETTINGS)
        servers.append(primary)
        primary.start()
        database = prepare(primary, failover=True)
        standby = primary.standby("standby")
        servers.append(standby)
        standby.settings |= {"primary_conninfo": primary.dsn("shop"), "primary_slot_name": "standby"}
        standby.start()
        with primary.connect("shop") as connection:
            # A slot can be synchronised once it has come to what the standby has seen.
            connection.execute("SELECT pg_log_standby_snapshot()")
            connection.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_flush_lsn())", [SLOT])
        self.synchronise(primary, standby)
        return primary, standby, database

    def synchronise(self, primary: PostgresServer, standby: PostgresServer) -> None:
        """Have the standby come up to the primary, slot included."""
        with primary.connect() as there, standby.connect("shop") as here:
            deadline = time.monotonic() + 30
            while True:
                end = there.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
                row = here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end).fetchone()
                if row and row[0]:
                    here.execute("SELECT pg_sync_replication_slots()")
                    found = here.execute(
                        "SELECT temporary FROM pg_replication_slots WHERE slot_name = %s", [SLOT]
                    ).fetchone()
                    if found and not found[0]:
                        return
                there.execute("SELECT pg_log_standby_snapshot()")
                assert time.monotonic() < deadline, "the slot is not synchronised"
                time.sleep(0.05)

    def test_a_standby_that_has_all_that_was_sent_goes_on(self, pair, site, caplog):
        primary, standby, database = pair
        insert(database, 1, 2)
        site.stream(database)
        insert(database, 3)
        self.synchronise(primary, standby)
        primary.kill()
        standby.promote()
        promoted = Database(standby, "shop")
        insert(promoted, 4, 5)

        assert site.stream(promoted) == {1, 2, 3, 4, 5}
        assert "timeline 2 goes on from what was sent of timeline 1" in caplog.text

    def test_one_that_is_promoted_while_the_log_is_opened_is_asked_again(
        self, pair, site, monkeypatch, caplog
    ):
        """Between the question for the timeline and the first entry another server may answer."""
        primary, standby, _ = pair
        primary.kill()
        standby.promote()
        promoted = Database(standby, "shop")
        insert(promoted, 1)
        identity, asked = Server.identity, []

        def as_before(server: Server, **more: bool) -> Identity:
            found = identity(server, **more)
            asked.append(found)
            return found if len(asked) > 1 else replace(found, timeline=found.timeline - 1)

        monkeypatch.setattr(Server, "identity", as_before)

        with pytest.raises(SourceError, match="timeline was 1 a moment ago and is 2"):
            site.stream(promoted)
        assert site.stream(promoted) == {1}
        insert(promoted, 2)
        assert site.stream(promoted) == {1, 2}
        assert "was promoted at" not in caplog.text

    def test_one_that_is_restored_while_the_log_is_opened_is_asked_again(self, pair, site, monkeypatch):
        """Its log ends before what the server before it had reached a moment ago."""
        _, _, database = pair
        insert(database, 1)
        identity, asked = Server.identity, []

        def further(server: Server, **more: bool) -> Identity:
            found = identity(server, **more)
            asked.append(found)
            return found if len(asked) > 1 else replace(found, lsn=(found.lsn or 0) + (1 << 24))

        monkeypatch.setattr(Server, "identity", further)

        with pytest.raises(SourceError, match="it was restored meanwhile"):
            site.stream(database)
        assert site.stream(database) == {1}

    def test_one_that_lagged_behind_what_was_sent_does_not(self, pair, site):
        primary, standby, database = pair
        insert(database, 1)
        site.stream(database)
        self.synchronise(primary, standby)
        standby.stop()
        insert(database, 2, 3)
        site.stream(database)
        primary.kill()
        standby.start()
        standby.promote()
        promoted = Database(standby, "shop")
        insert(promoted, *range(4, 400))

        with pytest.raises(PositionLost, match=r"promoted at .* changes up to .* were sent that it does not"):
            site.stream(promoted)


class TestRestore:
    """The same timeline, another history: 15 and 18 alike, so 18 is enough."""

    @pytest.fixture
    def server(self, servers) -> PostgresServer:
        server = PostgresServer(18)
        servers.append(server)
        server.start()
        return server

    def restored(self, server: PostgresServer, servers: list[PostgresServer]) -> PostgresServer:
        server.stop()
        copy = server.copy()
        servers.append(copy)
        server.start()
        return copy

    @pytest.mark.parametrize("more", [0, 500], ids=["idle", "busy"])
    def test_a_copy_of_the_volume_from_before_what_was_sent(self, server, servers, site, more):
        database = prepare(server)
        insert(database, 1)
        site.stream(database)
        copy = self.restored(server, servers)
        insert(database, 2, 3)
        site.stream(database)
        server.kill()
        copy.start()
        there = Database(copy, "shop")
        insert(there, *range(100, 100 + more))

        with pytest.raises(PositionLost, match="restored"):
            site.stream(there)
        with there.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn < pg_current_wal_lsn() FROM pg_replication_slots"
            )
            assert row.fetchone() == (True,)

    def test_a_mode_that_may_begin_anew_does(self, server, servers, site):
        database = prepare(server)
        insert(database, 1)
        site.stream(database, snapshot__mode="when_needed")
        copy = self.restored(server, servers)
        insert(database, 2)
        site.stream(database, snapshot__mode="when_needed")
        server.kill()
        copy.start()
        there = Database(copy, "shop")
        insert(there, *range(100, 600))
        found = site.stream(there, snapshot__mode="when_needed")

        assert {1, *range(100, 600)} <= found

    def test_a_copy_that_has_all_that_was_sent_goes_on(self, server, servers, site):
        database = prepare(server)
        insert(database, 1, 2)
        site.stream(database)
        copy = self.restored(server, servers)
        server.kill()
        copy.start()
        there = Database(copy, "shop")
        insert(there, 3)

        assert site.stream(there) == {1, 2, 3}

    def test_after_a_crash_the_slot_may_begin_earlier(self, server, site):
        """What it sends again is passed over, and nothing is repeated."""
        database = prepare(server)
        for key in range(5):
            insert(database, key)
            site.stream(database)
        server.restart("immediate")
        insert(database, 5)
        site.stream(database)
        with driven(database, site._directory, site._spark, slot__name=SLOT) as job:
            keys = [event["key"]["id"] for event in job.events("t")]

        assert keys == [0, 1, 2, 3, 4, 5]

    def test_another_server_is_another_database(self, server, servers, site):
        database = prepare(server)
        insert(database, 1)
        site.stream(database)
        other = PostgresServer(18)
        servers.append(other)
        other.start()
        elsewhere = prepare(other)

        with pytest.raises(StateError, match="belongs to another database: system"):
            site.stream(elsewhere)


HISTORY = "1\t0/3000148\tno recovery target specified\n\n2\t0/5000000\tbefore 2026-01-01\n"


@pytest.mark.parametrize(("timeline", "fork"), [(1, 0x3000148), (2, 0x5000000), (3, None), (7, None)])
def test_the_fork_stands_in_the_history(timeline, fork):
    found = fork_of(HISTORY, timeline)

    assert (found and found.lsn) == fork


@pytest.mark.parametrize(("timeline", "loss"), [(1, Loss.PROMOTED), (2, Loss.RESTORED)])
def test_the_history_says_whether_the_server_was_promoted_or_restored(timeline, loss):
    found = fork_of(HISTORY, timeline)

    assert found is not None
    assert found.loss is loss


def test_a_fork_behind_what_was_sent_goes_on():
    assert check_fork(1, 3, HISTORY, 0x3000148).lsn == 0x3000148


def test_a_fork_before_it_does_not():
    with pytest.raises(PositionLost, match="promoted at 0/3000148"):
        check_fork(1, 3, HISTORY, 0x3000149)


def test_a_timeline_of_another_tree_does_not():
    with pytest.raises(PositionLost, match="which does not come from timeline 4"):
        check_fork(4, 3, HISTORY, 1)


def test_a_server_behind_the_position_was_restored():
    check_reach(5, 5)
    with pytest.raises(PositionLost, match="ends at 0/4, before the saved position 0/5"):
        check_reach(5, 4)

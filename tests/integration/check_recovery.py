"""Logs that are lost in every other way, on every source: each is named, and the copy is repaired."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Loss, PositionLost
from tests.driven import driven, replayed_rows, rows_of
from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.integration import test_mongodb_job as mongodb
from tests.integration.test_recovery import GAP, REPAIR, TABLES, Copied, lose
from tests.servers.mongodb import MongoServer
from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


@pytest.fixture
def copied(database: Database, tmp_path: Path, spark: SparkSession) -> Copied:
    database.execute(*TABLES)
    return Copied(database, tmp_path, spark)


def test_a_slot_that_was_moved_by_somebody_else_while_changes_go_on(copied):
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
    events = [event for event in copied.events(job)[since:] if event["key"]["id"] == 9000]
    assert [event["value"]["op"] for event in events] == ["c"]


def test_a_table_that_had_left_the_publication_before_its_slot_was_dropped_is_told(copied):
    database = copied.database
    database.execute("CREATE PUBLICATION chosen FOR TABLE signals, orders, customers")
    chosen = {"publication__name": "chosen", "publication__autocreate__mode": "disabled"}
    copied.stream(**chosen)
    lose(database, "ALTER PUBLICATION chosen DROP TABLE customers", *GAP)
    lose(database, "SELECT pg_drop_replication_slot('job')")
    job = copied.stream(**chosen)

    assert job.job.state.recovery.loss is Loss.SLOT_MISSING
    assert replayed_rows(job.events("orders")) == rows_of(database, "orders")
    assert [(str(fault.collection), fault.why) for fault in job.job.state.incomplete] == [
        ("public.customers", "publication 'chosen' does not have it any more")
    ]


def test_without_the_setting_the_job_stops(copied):
    copied.stream()
    lose(copied.database, "SELECT pg_drop_replication_slot('job')")

    with pytest.raises(PositionLost, match="does not exist"):
        copied.stream(tidemark__recovery="stop", snapshot__mode="initial")


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


def test_an_oplog_of_mongodb_that_has_passed(tmp_path, spark, caplog):
    """Of a collection that was dropped the new log tells nothing either."""
    given = {"tidemark__recovery": "repair", "collection__include__list": "inventory[.].*"}
    # Nothing is cut that the server may need after its last checkpoint.
    with MongoServer(oplog_mb=1, checkpoint_s=1) as server, server.connect() as client:
        shop = client["inventory"]
        shop.create_collection("signals")
        shop["t"].insert_many([{"_id": key, "v": str(key)} for key in range(300)])
        shop["u"].insert_many([{"_id": key} for key in range(40)])
        with mongodb.driven(server, tmp_path, spark, **given) as job:
            mongodb.signal(client, "inventory.t", "inventory.u")
            job.until_answered("finished", 2)
            before = len(job.events())
        shop["t"].delete_many({"_id": {"$lt": 10}})
        shop["t"].update_many({"_id": {"$gte": 290}}, {"$set": {"v": "changed"}})
        shop["t"].insert_many([{"_id": key} for key in (1000, 1001)])
        shop["u"].drop()
        shop["u"].insert_one({"_id": 7})
        _pass(client)

        with mongodb.driven(server, tmp_path, spark, **given) as job:
            shop["t"].insert_one({"_id": 5000})
            job.until(lambda: not job.job.state.snapshot.tables)
            job.until(lambda: any(event["key"] == {"id": "5000"} for event in job.events("t")))

        _check(job, Loss.LOG_REMOVED)
        for name in ("t", "u"):
            assert mongodb.replayed(job.events(name)) == mongodb.stands(client, name)
        sent = [event["value"]["op"] for event in job.events()[before:] if event["value"]]
        assert sorted(sent) == ["c"] + ["d"] * (10 + 39) + ["r"] * (10 + 2)
    assert "(log removed)" in caplog.text


def _pass(client: Any) -> None:
    """Write until the oplog has lost its beginning."""
    oplog = client["local"]["oplog.rs"]
    newest = next(oplog.find().sort("$natural", -1).limit(1))
    deadline = time.monotonic() + 120
    while oplog.find_one({"ts": newest["ts"]}):
        assert time.monotonic() < deadline, "the oplog is never cut"
        client["other"]["t"].insert_many([{"large": "x" * 100_000} for _ in range(100)])


def _check(job: Any, loss: Loss) -> None:
    state = job.job.state
    assert state.recovery is not None
    assert state.recovery.loss is loss, state.recovery
    assert state.incomplete == ()
    answers = [answer.outcome for answer in job.answers if answer.id == state.recovery.label]
    assert set(answers) == {"accepted", "finished"}, [answer.text for answer in job.answers]


FORKED = {
    "tidemark__recovery": "repair",
    "signal__data__collection": "shop.dbo.signals",
    "snapshot__mode": "initial",
}


def _filled(shop: Any) -> None:
    for name in ("signals", "t", "u"):
        rows = "(id int NOT NULL PRIMARY KEY, v nvarchar(50) NULL)"
        shop.execute(SIGNALS if name == "signals" else f"CREATE TABLE dbo.{name} {rows}")
        shop.enable_cdc(f"dbo.{name}")
    for name, many in (("t", 200), ("u", 20)):
        values = ", ".join(f"({row}, N'{row}')" for row in range(many))
        shop.execute(f"INSERT INTO dbo.{name} VALUES {values}")


def _same_rows(job: Any, shop: Any) -> None:
    for name in ("t", "u"):
        held = {key: row["v"] for key, row in replayed_rows(job.events(name)).items()}
        assert held == dict(shop.query(f"SELECT id, v FROM dbo.{name}"))


@pytest.mark.parametrize("group", ["7C9F0B52-0000-0000-0000-000000000001", None])
def test_a_database_of_sql_server_that_was_forced_over_while_it_was_streamed(
    sqlserver, shop, tmp_path, spark, caplog, group
):
    """Its replica lagged; what was written there before anybody looked has LSNs that were passed already."""
    shop.set("group", group)
    _filled(shop)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **FORKED) as job:
        job.until(lambda: not job.job.state.snapshot.tables)
        job.until_streamed(shop)
        copied = shop.back_up()
        for statement in (
            "DELETE FROM dbo.t WHERE id < 10",
            "UPDATE dbo.t SET v = N'lost' WHERE id >= 190",
            "INSERT INTO dbo.u VALUES (3000, N'lost')",
        ):
            shop.execute(statement)
        shop.capture()
        job.until_streamed(shop)
        lost = shop.max_lsn()
        sqlserver.stop_capture()
        shop.take_over(copied)
        shop.execute("UPDATE dbo.t SET v = N'another history' WHERE id = 100")
        shop.capture()
        assert shop.max_lsn() < lost
        sqlserver.start_capture(0.02)
        job.until(lambda: job.job.state.recovery and not job.job.state.snapshot.tables)
        job.until_streamed(shop)

    _check(job, Loss.PROMOTED if group else Loss.RESTORED)
    _same_rows(job, shop)
    assert "which left recovery fork" in caplog.text


def test_without_the_setting_a_job_of_sql_server_stops_and_a_planned_failover_goes_on(
    sqlserver, shop, tmp_path, spark, caplog
):
    given = {**FORKED, "tidemark__recovery": "stop"}
    _filled(shop)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as job:
        job.until(lambda: job.job.state.turn > 1 and not job.job.state.snapshot.tables)
        shop.plan_failover()
        shop.execute("INSERT INTO dbo.u VALUES (3001, N'kept')")
        shop.capture()
        job.until_streamed(shop)
        _same_rows(job, shop)
    copied = shop.back_up()
    shop.take_over(copied)
    shop.execute("INSERT INTO dbo.u VALUES (3002, N'kept, too')")
    shop.capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as job:
        job.until_streamed(shop)
        _same_rows(job, shop)
        assert "its log goes on" in caplog.text
        copied = shop.back_up()
        shop.execute("INSERT INTO dbo.u VALUES (3003, N'lost')")
        shop.capture()
        job.until_streamed(shop)
    shop.take_over(copied)

    with (
        pytest.raises(PositionLost, match="it is on another recovery fork, which left recovery fork"),
        driven_sqlserver(sqlserver, tmp_path, spark, **given) as job,
    ):
        job.until_streamed(shop)


def test_a_state_of_sql_server_that_does_not_say_its_fork_is_told_of(
    sqlserver, shop, tmp_path, spark, caplog
):
    given = {**FORKED, "tidemark__recovery": "stop"}
    _filled(shop)
    sqlserver.start_capture(0.02)
    shop.set("forks", "hidden")
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as job:
        job.until(lambda: job.job.state.turn > 1 and not job.job.state.snapshot.tables)
    assert caplog.text.count("grant VIEW ANY DATABASE to the login") == 1
    assert "fork" not in job.job.state.memory["databases"]["shop"]
    shop.set("forks", None)
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as job:
        shop.execute("INSERT INTO dbo.u VALUES (3000, N'new')")
        shop.capture()
        job.until(lambda: 3000 in replayed_rows(job.events("u")))

    assert caplog.text.count("does not say which recovery fork of database 'shop' it is of") == 1
    assert job.job.state.memory["databases"]["shop"]["fork"]


def test_change_tables_of_sql_server_that_were_cleaned_up(sqlserver, shop, tmp_path, spark, caplog):
    given = {
        "tidemark__recovery": "repair",
        "signal__data__collection": "shop.dbo.signals",
        "snapshot__mode": "initial",
    }
    tables = (
        SIGNALS,
        "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, v nvarchar(50) NULL)",
        "CREATE TABLE dbo.u (id int NOT NULL PRIMARY KEY, v nvarchar(50) NULL)",
    )
    for name, statement in zip(("signals", "t", "u"), tables, strict=True):
        shop.execute(statement)
        shop.enable_cdc(f"dbo.{name}")
    for name, rows in (("t", 200), ("u", 20)):
        values = ", ".join(f"({row}, N'{row}')" for row in range(rows))
        shop.execute(f"INSERT INTO dbo.{name} VALUES {values}")
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as job:
        job.until(lambda: not job.job.state.snapshot.tables)
        job.until_streamed(shop)
        before = len(job.events())
    sqlserver.stop_capture()
    for statement in (
        "DELETE FROM dbo.t WHERE id < 10",
        "UPDATE dbo.t SET v = N'changed' WHERE id >= 190",
        "INSERT INTO dbo.t VALUES (1000, N'new')",
        "DELETE FROM dbo.u WHERE id = 3",
        "INSERT INTO dbo.signals VALUES ('old', 'log', '{}')",
    ):
        shop.execute(statement)
        shop.capture()
    shop.cleanup(shop.max_lsn())
    sqlserver.start_capture(0.02)

    with driven_sqlserver(sqlserver, tmp_path, spark, **given) as job:
        shop.execute("INSERT INTO dbo.u VALUES (2000, N'streamed')")
        job.until(lambda: not job.job.state.snapshot.tables)
        job.until_streamed(shop)
    sqlserver.stop_capture()

    _check(job, Loss.LOG_REMOVED)
    for name in ("t", "u"):
        held = {key: row["v"] for key, row in replayed_rows(job.events(name)).items()}
        assert held == dict(shop.query(f"SELECT id, v FROM dbo.{name}"))
    events = [event for event in job.events()[before:] if event["topic"].endswith((".t", ".u"))]
    sent = [event["value"]["op"] for event in events if event["value"]]
    assert sorted(sent) == ["c"] + ["d"] * (10 + 1) + ["r"] * (10 + 1)
    assert "(log removed)" in caplog.text

"""A SQL Server job from end to end on the stand-in: the log, its order, its restarts."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError, PositionLost, StateError
from tests.changed_parts import change_parts
from tests.driven import replayed_rows
from tests.driven_sqlserver import driven_sqlserver
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

T = "CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)"


def made(database: StandInDatabase, *tables: str) -> None:
    """Tables of a key and a text, captured."""
    for table in tables or ("t",):
        database.execute(T.replace("dbo.t", f"dbo.{table}"))
        database.enable_cdc(f"dbo.{table}")


def test_inserts_updates_and_deletes_come_in_order(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a'), (2, NULL)")
        shop.execute("UPDATE dbo.t SET v = N'é ''quoted''' WHERE id = 2")
        shop.execute("DELETE FROM dbo.t WHERE id = 1")
        shop.capture()
        driven.until_streamed(shop)

        assert driven.ops("t") == [
            ("c", {"id": 1, "v": "a"}),
            ("c", {"id": 2, "v": None}),
            ("u", {"id": 2, "v": "é 'quoted'"}),
            ("d", {"id": 1, "v": "a"}),
        ]
        assert {event["topic"] for event in driven.events()} == {"tm.shop.dbo.t"}


def test_a_change_of_key_is_a_delete_and_a_create(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.execute("UPDATE dbo.t SET id = 7 WHERE id = 1")
        shop.capture()
        driven.until_streamed(shop)

        _insert, *moved = driven.events("t")
        assert [(event["value"]["op"], event["key"]["id"]) for event in moved] == [("d", 1), ("c", 7)]
        assert [event["value"]["source"]["event_serial_no"] for event in moved] == [1, 2]


@pytest.mark.parametrize("most", ["200000", "4"])
def test_keys_that_are_shifted_leave_all_rows(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession, most: str
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark, tidemark__span__max__rows=most) as driven:
        rows = ", ".join(f"({row}, N'{row}')" for row in range(1, 30))
        with shop.transaction() as session:
            session.execute(f"INSERT INTO dbo.t VALUES {rows}")
            session.execute("UPDATE dbo.t SET id = id + 1")
        shop.capture()
        driven.until_streamed(shop)

        held = replayed_rows(driven.events("t"))
        assert held == {key: {"id": key, "v": str(key - 1)} for key in range(2, 31)}


def test_the_lag_is_told_by_the_server_s_clock(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        change_parts(driven.job, now=lambda: time.time() + 60)
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.capture()
        driven.until(lambda: driven.events("t"))

        assert driven.job._turns.lag_s < 30


def test_two_tables_of_one_transaction_are_told_in_the_order_of_their_changes(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop, "a", "b")
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        with shop.transaction() as session:
            for row in range(5):
                session.execute(f"INSERT INTO dbo.a VALUES ({row}, N'a')")
                session.execute(f"INSERT INTO dbo.b VALUES ({row}, N'b')")
        shop.capture()
        driven.until_streamed(shop)

        told = [(event["topic"][-1], event["key"]["id"]) for event in driven.events()]
        assert told == [(table, row) for row in range(5) for table in "ab"]


def test_a_transaction_larger_than_a_span_comes_whole_and_in_order(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop, "a", "b")
    with driven_sqlserver(sqlserver, tmp_path, spark, tidemark__span__max__rows="40") as driven:
        with shop.transaction() as session:
            for row in range(100):
                session.execute(
                    f"INSERT INTO dbo.a VALUES ({row}, N'a'); INSERT INTO dbo.b VALUES ({row}, N'b')"
                )
        shop.execute("INSERT INTO dbo.a VALUES (1000, N'last')")
        shop.capture()
        driven.until(lambda: driven.events("a")[-1:] and driven.events("a")[-1]["key"]["id"] == 1000)

        told = [(event["topic"][-1], event["key"]["id"]) for event in driven.events()]
        assert told == [*((table, row) for row in range(100) for table in "ab"), ("a", 1000)]
        assert driven.job.state.turn > 4


@pytest.mark.thorough
def test_many_rows_are_read_by_spark(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop, "a", "b")
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        for start in range(0, 4000, 1000):
            rows = ", ".join(f"({row}, N'{row}')" for row in range(start, start + 1000))
            shop.execute(f"INSERT INTO dbo.a VALUES {rows}; INSERT INTO dbo.b VALUES {rows}")
        shop.execute("UPDATE dbo.a SET v = NCHAR(31) WHERE id = 17")
        shop.capture()
        driven.until_streamed(shop)

        told = [(event["topic"][-1], event["key"]["id"]) for event in driven.events()]
        expected = [
            (table, row)
            for start in range(0, 4000, 1000)
            for table in "ab"
            for row in range(start, start + 1000)
        ]
        assert told == [*expected, ("a", 17)]
        assert driven.ops("a")[-1] == ("u", {"id": 17, "v": "\x1f"})


def test_every_database_has_a_log_of_its_own(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    other = sqlserver.create_database("other")
    made(shop)
    made(other)
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'shop')")
        other.execute("INSERT INTO dbo.t VALUES (1, N'other')")
        other.execute("UPDATE dbo.t SET v = N'again'")
        for database in (shop, other):
            database.capture()
        driven.until_streamed(shop, other)

        told = [(event["topic"], event["value"]["after"]["v"]) for event in driven.events()]
        assert sorted(told) == [
            ("tm.other.dbo.t", "again"),
            ("tm.other.dbo.t", "other"),
            ("tm.shop.dbo.t", "shop"),
        ]
        assert {event["value"]["source"]["db"] for event in driven.events()} == {"shop", "other"}


def test_a_restart_loses_nothing_and_repeats_nothing(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    for start in range(3):
        shop.execute(f"INSERT INTO dbo.t VALUES ({2 * start}, N'while it is away')") if start else None
        shop.capture()
        with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
            shop.execute(f"INSERT INTO dbo.t VALUES ({2 * start + 1}, N'while it runs')")
            shop.capture()
            driven.until_streamed(shop)

    assert [event["key"]["id"] for event in driven.events("t")] == [1, 2, 3, 4, 5]


def test_a_restart_inside_a_transaction_goes_on_inside_it(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark, tidemark__span__max__rows="10") as driven:
        with shop.transaction() as session:
            for row in range(60):
                session.execute(f"INSERT INTO dbo.t VALUES ({row}, N'{row}')")
        shop.capture()
        driven.until(lambda: driven.events("t"))
        assert len(driven.events("t")) < 60
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        driven.until_streamed(shop)

    assert [event["key"]["id"] for event in driven.events("t")] == list(range(60))


class TestSilence:
    @pytest.mark.parametrize("running", [True, False])
    def test_without_a_greatest_lsn_the_log_says_why(
        self,
        sqlserver: SqlServer,
        shop: StandInDatabase,
        tmp_path: Path,
        spark: SparkSession,
        caplog: pytest.LogCaptureFixture,
        *,
        running: bool,
    ):
        made(shop)
        sqlserver.agent_running = running
        with (
            caplog.at_level(logging.WARNING, "adapters"),
            driven_sqlserver(sqlserver, tmp_path, spark) as driven,
        ):
            driven.until(lambda: "aximum LSN" in caplog.text, 20)
            sqlserver.agent_running = True
            shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
            shop.capture()
            driven.until_streamed(shop)
            events = driven.events("t")

        said = "No maximum LSN in the database; SQL Server Agent is not running"
        assert (said in caplog.messages) != running
        assert len(events) == 1

    @pytest.mark.thorough
    def test_changes_that_were_cleaned_up_stop_the_job(
        self, sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
    ):
        made(shop)
        with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
            shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
            shop.capture()
            driven.until_streamed(shop)
        for row in (2, 3):
            shop.execute(f"INSERT INTO dbo.t VALUES ({row}, N'a')")
            shop.capture()
        shop.cleanup(shop.max_lsn())

        with pytest.raises(PositionLost, match="dbo_t"), driven_sqlserver(sqlserver, tmp_path, spark):
            pass

    def test_nothing_is_lost_where_only_old_changes_were_cleaned_up(
        self, sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
    ):
        made(shop)
        for row in (1, 2):
            shop.execute(f"INSERT INTO dbo.t VALUES ({row}, N'a')")
            shop.capture()
        with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
            shop.execute("INSERT INTO dbo.t VALUES (3, N'a')")
            shop.capture()
            driven.until_streamed(shop)
        shop.cleanup(shop.max_lsn())
        shop.execute("INSERT INTO dbo.t VALUES (4, N'a')")
        shop.capture()
        with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
            driven.until_streamed(shop)

        assert [event["key"]["id"] for event in driven.events("t")] == [3, 4]


def test_the_state_of_another_database_is_refused(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.capture()
        driven.until_streamed(shop)
    sqlserver.reset()
    made(sqlserver.create_database("shop"))

    with pytest.raises(StateError, match="another database"), driven_sqlserver(sqlserver, tmp_path, spark):
        pass


def test_a_database_without_cdc_is_refused(sqlserver: SqlServer, tmp_path: Path, spark: SparkSession):
    sqlserver.create_database("plain", cdc=False)

    with pytest.raises(ConfigError, match="CDC is not enabled"), driven_sqlserver(sqlserver, tmp_path, spark):
        pass


def test_what_is_streamed_is_what_the_table_holds(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    made(shop)
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        sqlserver.start_capture(0.02)
        for row in range(60):
            shop.execute(f"INSERT INTO dbo.t VALUES ({row}, N'{row}')")
            if row % 3:
                shop.execute(f"UPDATE dbo.t SET id = {row + 1000} WHERE id = {row - 1}")
                shop.execute(f"DELETE FROM dbo.t WHERE id = {row - 2}")
            driven.job.turn()
        sqlserver.stop_capture()
        shop.capture()
        driven.until_streamed(shop)

        held = replayed_rows(driven.events("t"))
        assert held == {key: {"id": key, "v": text} for key, text in shop.query("SELECT id, v FROM dbo.t")}

"""Initial snapshots of SQL Server on the stand-in: modes, isolation, schema changes, resuming."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.errors import ConfigError, SourceError
from tests.driven import replayed_rows
from tests.driven_sqlserver import SIGNALS, DrivenSqlServer, driven_sqlserver, writing
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

SHOWN = {"include__schema__changes": "true"}
SIGNALLED = {"signal__data__collection": "shop.dbo.signals"}
SMALL = {"tidemark__window__max__chunks": "2", "incremental__snapshot__chunk__size": "100"}


def filled(database: StandInDatabase, rows: int, table: str = "t") -> None:
    database.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v nvarchar(50) NULL)")
    values = ", ".join(f"({row}, N'{row}')" for row in range(rows))
    database.execute(f"INSERT INTO dbo.{table} VALUES {values}")
    database.enable_cdc(f"dbo.{table}")


@pytest.fixture
def heap(shop: StandInDatabase) -> StandInDatabase:
    """A database with a table without a key that holds a row twice, another one, and a signal table."""
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    shop.execute("CREATE TABLE dbo.heap (n int NULL, v nvarchar(50) NULL)")
    shop.execute("INSERT INTO dbo.heap VALUES (1, N'a'), (1, N'a'), (NULL, NULL)")
    shop.enable_cdc("dbo.heap")
    filled(shop, 5)
    shop.capture()
    return shop


def reads(driven: DrivenSqlServer, table: str = "t") -> list[dict[str, Any]]:
    return [row for op, row in driven.ops(table) if op == "r"]


def impatient(database: StandInDatabase, statement: str) -> None:
    """Run a statement that waits for no lock."""
    with database.transaction() as session:
        session.execute("SET LOCK_TIMEOUT 50")
        session.execute(statement)


def held(driven: DrivenSqlServer, database: StandInDatabase, table: str = "t") -> None:
    """What was emitted is what the table holds."""
    found = replayed_rows(driven.events(table))
    rows = database.query(f"SELECT id, v FROM dbo.{table}")
    assert found == {key: {"id": key, "v": text} for key, text in rows}


@pytest.mark.parametrize(
    "isolation", ["exclusive", "snapshot", "repeatable_read", "read_committed", "read_uncommitted"]
)
def test_tables_are_read_and_then_streamed(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession, isolation: str
):
    filled(shop, 30, "a")
    filled(shop, 20, "b")
    shop.capture()
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": isolation}
    with driven_sqlserver(sqlserver, tmp_path, spark, **SHOWN, **more) as driven:
        driven.until(lambda: len(reads(driven, "b")) == 20)
        driven.job.turn()  # which lets go of locks
        shop.execute("UPDATE dbo.a SET v = N'later' WHERE id = 3")
        shop.capture()
        driven.until_streamed(shop)

        assert [op for op, _row in driven.ops("a")] == ["r"] * 30 + ["u"]
        held(driven, shop, "a")
        held(driven, shop, "b")
        marks = [event["value"]["source"]["snapshot"] for name in "ab" for event in driven.events(name)]
        assert (marks[0], marks[29], marks[30]) == ("first", "last_in_data_collection", "false")
        assert (marks[31], marks[-1]) == ("first_in_data_collection", "last")
        changes = [event["value"]["tableChanges"][0] for event in driven.events() if event["topic"] == "tm"]
        assert [(change["type"], change["id"]) for change in changes] == [
            ("CREATE", '"shop"."dbo"."a"'),
            ("CREATE", '"shop"."dbo"."b"'),
        ]


@pytest.mark.parametrize(
    ("isolation", "signals"),
    [
        pytest.param("exclusive", SIGNALLED, id="behind locks"),
        pytest.param("repeatable_read", {}, id="while the log waits"),
    ],
)
@pytest.mark.usefixtures("heap")
def test_a_table_without_a_key_is_read_while_nothing_is_streamed(
    sqlserver: SqlServer,
    tmp_path: Path,
    spark: SparkSession,
    isolation: str,
    signals: dict[str, str],
):
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": isolation, **signals}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        driven.until(lambda: not driven.job.state.snapshot.initial and reads(driven))

        assert [row["n"] for row in reads(driven, "heap")] == [1, 1, None]


@pytest.mark.usefixtures("heap")
def test_a_table_without_a_key_is_not_read_beside_the_log(
    sqlserver: SqlServer, tmp_path: Path, spark: SparkSession
):
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": "repeatable_read", **SIGNALLED}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        driven.until(lambda: driven.answers)

        assert "shop.dbo.heap not read: the table has neither a primary key" in driven.answers[0].text


def test_exclusive_locks_keep_writers_out_until_all_is_read(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 600)
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": "exclusive"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, **SMALL) as driven:
        driven.until(lambda: reads(driven))
        with pytest.raises(Exception, match="lock"):
            impatient(shop, "UPDATE dbo.t SET v = N'kept out' WHERE id = 3")
        driven.until(lambda: len(reads(driven)) == 600)
        driven.until(lambda: not driven.job.state.snapshot.initial)
        driven.job.turn()
        shop.execute("UPDATE dbo.t SET v = N'let in' WHERE id = 3")
        shop.capture()
        driven.until_streamed(shop)

        assert driven.ops("t")[600:] == [("u", {"id": 3, "v": "let in"})]
        queries = [
            statement
            for statement in sqlserver.statements
            if re.search(r"AS \[r\] FROM \[dbo\]\.\[t\]", statement)
        ]
        assert queries
        assert all("WITH (NOLOCK)" in query for query in queries)


def test_rows_that_were_read_when_the_locks_were_lost_are_read_again(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 600)
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": "exclusive"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, **SMALL) as driven:
        driven.until(lambda: reads(driven) and driven.job.window)
        before = len(reads(driven))
        shop.kill_lockers()
        shop.execute("UPDATE dbo.t SET v = N'crept in'")
        with pytest.raises(SourceError, match="locks are lost"):
            driven.job.turn()
        driven.job.close()
        driven.job.settle()
        assert len(reads(driven)) == before < 600
        driven.until(lambda: not driven.job.state.snapshot.initial)
        shop.capture()
        driven.until_streamed(shop)

        held(driven, shop)
        assert [op for op, _row in driven.ops("t")][600:] == ["u"] * 600


def test_a_database_without_snapshot_isolation_is_told_of_before_anything_is_read(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 3)
    shop.set("snapshots", "0")
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": "snapshot"}

    with (
        pytest.raises(ConfigError, match="does not allow snapshot isolation"),
        driven_sqlserver(sqlserver, tmp_path, spark, **more),
    ):
        pass


def test_where_the_log_began_is_known_by_the_databases_names(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 300)
    shop.capture()
    more = {"snapshot__mode": "initial", **SMALL}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, database__names="shop") as driven:
        driven.until(lambda: reads(driven))
        began = driven.job.state.memory["first"]["begins_at"]
    added = sqlserver.create_database("added")
    filled(added, 3)
    added.capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, database__names="added,shop") as driven:
        driven.until(lambda: not driven.job.state.snapshot.initial)

        assert driven.job.state.memory["first"]["begins_at"] == began
        commits = {event["value"]["source"]["commit_lsn"] for event in driven.events("t")}
    assert list(began) == ["shop"]
    assert commits == {began["shop"]}


@pytest.mark.parametrize(
    ("mode", "new", "ids"),
    [("initial", "tables", [0, 1, 2]), ("initial", "off", []), ("schema_only", "tables", [])],
)
def test_a_database_added_to_the_list_brings_tables_that_are_new(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    mode: str,
    new: str,
    ids: list[int],
):
    filled(shop, 5)
    shop.capture()
    more = {"snapshot__mode": mode, "tidemark__snapshot__new": new, "read__only": "true"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, database__names="shop") as driven:
        driven.until_streamed(shop)
        driven.until(lambda: not driven.job.state.snapshot.tables)
    added = sqlserver.create_database("added")
    filled(added, 3, "u")
    added.capture()
    sqlserver.start_capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, database__names="shop,added") as driven:
        driven.job.turn()
        queued = [request.signal for table in driven.job.state.snapshot.tables for request in table.requests]
        added.execute("INSERT INTO dbo.u VALUES (100, N'new')")
        driven.until(lambda: ("c", {"id": 100, "v": "new"}) in driven.ops("u"))
        driven.until(lambda: not driven.job.state.snapshot.tables)

        assert sorted(row["id"] for row in reads(driven, "u") if row["id"] < 100) == ids
        assert len(reads(driven)) == (5 if mode == "initial" else 0)
    with driven_sqlserver(sqlserver, tmp_path, spark, **more, database__names="shop,added") as driven:
        driven.job.turn()
        assert not driven.job.state.snapshot.tables
    assert queued == (["tidemark-new-added.dbo.u"] if ids else [])


def test_a_database_is_added_before_the_first_turn(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 2)
    shop.capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, database__names="shop"):
        pass
    added = sqlserver.create_database("added")
    filled(added, 2, "u")
    shop.execute("INSERT INTO dbo.t VALUES (7, N'new')")
    for database in (shop, added):
        database.capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, database__names="added,shop") as driven:
        driven.until_streamed(added, shop)

        assert driven.ops("t") == [("c", {"id": 7, "v": "new"})]


def test_changes_from_before_the_locks_are_not_told_again(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 10)
    shop.execute("UPDATE dbo.t SET v = N'before' WHERE id = 3")
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": "exclusive"}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        driven.until(lambda: len(reads(driven)) == 10)
        driven.job.turn()
        shop.execute("UPDATE dbo.t SET v = N'after' WHERE id = 4")
        shop.capture()
        driven.until_streamed(shop)

        assert [op for op, _row in driven.ops("t")] == ["r"] * 10 + ["u"]


def test_beside_the_stream_rows_and_changes_keep_their_order(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    filled(shop, 800)
    sqlserver.start_capture(0.03)
    more = {"snapshot__mode": "initial", **SIGNALLED, **SMALL}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        with writing(shop, "dbo.t", keys=800, pause_s=0.01):
            driven.until(lambda: not driven.job.state.snapshot.initial)
        sqlserver.stop_capture()
        shop.capture()
        driven.until_streamed(shop)

        held(driven, shop)
        assert not reads(driven, "signals")


def test_an_interrupted_snapshot_goes_on(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 800)
    more = {"snapshot__mode": "initial", **SMALL}
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        driven.until(lambda: reads(driven))
        assert len(reads(driven)) < 800
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        driven.until(lambda: not driven.job.state.snapshot.initial)
        shop.execute("INSERT INTO dbo.t VALUES (5000, N'new')")
        shop.capture()
        driven.until_streamed(shop)

    assert len(reads(driven)) == 800
    held(driven, shop)


def test_initial_only_reads_and_ends(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 15)
    shop.capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, snapshot__mode="initial_only", **SHOWN) as driven:
        driven.job.close()
        driven.job.run(lambda: False)

        assert len(reads(driven)) == 15
        assert [event["topic"] for event in driven.events()].count("tm") == 1


def test_schema_only_tells_shapes_and_no_rows(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 15)
    shop.capture()
    with driven_sqlserver(sqlserver, tmp_path, spark, **SHOWN) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (100, N'streamed')")
        shop.capture()
        driven.until_streamed(shop)

        assert driven.ops("t") == [("c", {"id": 100, "v": "streamed"})]
        (created,) = [event["value"] for event in driven.events() if event["topic"] == "tm"]
        assert created["databaseName"] == "shop"


def test_a_restart_tells_no_shape_again(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 3)
    history = {"schema__history__internal__file__filename": str(tmp_path / "history.jsonl")}
    for row in (100, 101):
        with driven_sqlserver(sqlserver, tmp_path, spark, **SHOWN, **history) as driven:
            shop.execute(f"INSERT INTO dbo.t VALUES ({row}, N'streamed')")
            shop.capture()
            driven.until_streamed(shop)

    assert [event["topic"] for event in driven.events()].count("tm") == 1
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == 1


def test_a_lock_that_is_not_had_in_time_is_tried_again(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 5)
    more = {
        "snapshot__mode": "initial",
        "snapshot__isolation__mode": "exclusive",
        "snapshot__lock__timeout__ms": "100",
    }
    with shop.transaction() as session:
        session.execute("UPDATE dbo.t SET v = N'held' WHERE id = 3")
        with (
            pytest.raises(SourceError, match="locking the table"),
            driven_sqlserver(sqlserver, tmp_path, spark, **more),
        ):
            pass
    with driven_sqlserver(sqlserver, tmp_path, spark, **more) as driven:
        driven.until(lambda: len(reads(driven)) == 5)

        held(driven, shop)


def test_a_mode_that_is_none_is_refused(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    filled(shop, 1)

    with (
        pytest.raises(ConfigError, match="isolation"),
        driven_sqlserver(sqlserver, tmp_path, spark, snapshot__isolation__mode="chaos"),
    ):
        pass

"""A window of SQL Server opens while the stream goes on. The tests decide when its thread goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.driven import replayed_rows
from tests.driven_sqlserver import SIGNALS, DrivenSqlServer, driven_sqlserver

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fix_gates import Gates
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration
SNAPSHOT = (
    """INSERT INTO dbo.signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["shop.dbo.t"]}')"""
)


@pytest.fixture
def table(shop: StandInDatabase) -> StandInDatabase:
    """A database with a captured table of nine rows, and a signal table."""
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.enable_cdc("dbo.t")
    for key in range(9):
        shop.execute(f"INSERT INTO dbo.t VALUES ({key}, N'first')")
    return shop


def streamed(job: DrivenSqlServer, database: StandInDatabase, *statements: str) -> None:
    """Run statements, and turn until they are streamed."""
    for statement in statements:
        database.execute(statement)
    database.capture()
    job.until_streamed(database)


def until_opening(job: DrivenSqlServer, database: StandInDatabase, gates: Gates) -> None:
    """Turn until a window is about to ask its questions."""
    streamed(job, database, SNAPSHOT)
    job.until(lambda: gates.asked)


def until_finished(job: DrivenSqlServer, database: StandInDatabase) -> None:
    """Turn until the snapshot is answered, while the log is captured."""

    def finished() -> bool:
        database.capture()
        return bool(job.answered("finished"))

    job.until(finished)


def given(read_only: str) -> dict[str, str]:
    """The properties of a job that takes signals."""
    return {"signal__data__collection": "shop.dbo.signals", "read__only": read_only}


def reads(job: DrivenSqlServer) -> list[int]:
    """The keys of t's READs."""
    return sorted(row["id"] for op, row in job.ops("t") if op == "r")


@pytest.mark.parametrize("read_only", ["true", "false"])
def test_what_is_streamed_while_a_window_opens_is_in_its_rows(
    sqlserver: SqlServer,
    table: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    gates: Gates,
    read_only: str,
):
    with driven_sqlserver(sqlserver, tmp_path, spark, **given(read_only)) as job:
        until_opening(job, table, gates)
        streamed(job, table, "UPDATE dbo.t SET v = N'before' WHERE id < 2", "DELETE FROM dbo.t WHERE id = 3")
        gates.before.set()
        gates.asked[0].result(60)
        # Everything is asked, and the job has not noticed yet.
        streamed(
            job,
            table,
            "UPDATE dbo.t SET v = N'after' WHERE id IN (1, 4)",
            "DELETE FROM dbo.t WHERE id = 5",
            "UPDATE dbo.t SET id = 60 WHERE id = 6",
        )
        opening = job.job._windows.in_progress.opened[0]
        unopened = (opening.is_open, reads(job))
        gates.after.set()
        until_finished(job, table)
        held = replayed_rows(job.events("t"))

    assert unopened == (False, [])
    assert reads(job) == [0, 1, 2, 4, 7, 8, 60]
    assert {key: row["v"] for key, row in held.items()} == {
        **dict.fromkeys([2, 7, 8, 60], "first"),
        0: "before",
        1: "after",
        4: "after",
    }


def test_a_table_that_gets_another_shape_while_its_window_opens_is_measured_again(
    sqlserver: SqlServer, table: StandInDatabase, tmp_path: Path, spark: SparkSession, gates: Gates
):
    with driven_sqlserver(sqlserver, tmp_path, spark, **given("true")) as job:
        until_opening(job, table, gates)
        gates.before.set()
        gates.asked[0].result(60)
        table.execute("ALTER TABLE dbo.t ADD more int NOT NULL DEFAULT 7")
        table.enable_cdc("dbo.t", "dbo_t_2")
        streamed(job, table, "UPDATE dbo.t SET more = 8 WHERE id = 1")
        gates.after.set()
        until_finished(job, table)
        rows = {row["id"]: row["more"] for op, row in job.ops("t") if op == "r"}
        again = len(gates.asked)

    assert again == 2
    assert rows == {**dict.fromkeys(range(9), 7), 1: 8}


def test_a_stopped_snapshot_removes_the_rows_of_the_window_that_opens(
    sqlserver: SqlServer, table: StandInDatabase, tmp_path: Path, spark: SparkSession, gates: Gates
):
    deletes = {**given("false"), "incremental__snapshot__watermarking__strategy": "insert_delete"}
    marks = "SELECT count(*) FROM dbo.signals WHERE type LIKE 'snapshot-window-%'"
    with driven_sqlserver(sqlserver, tmp_path, spark, **deletes) as job:
        until_opening(job, table, gates)
        streamed(job, table, "INSERT INTO dbo.signals VALUES ('x', 'stop-snapshot', '{}')")
        stopped = len(job.answered("stopped"))
        gates.before.set()
        gates.after.set()
        gates.asked[0].result(60)
        written = table.query(marks)
        job.until(lambda: table.query(marks) == [(0,)])

    assert stopped == 1
    assert written in ([(1,)], [(0,)])
    assert reads(job) == []

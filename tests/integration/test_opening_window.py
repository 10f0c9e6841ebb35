"""A window of PostgreSQL opens while the stream goes on. The tests decide when its thread goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.driven import SIGNAL_TABLE, driven, replayed_rows, rows_of

if TYPE_CHECKING:
    from tests.driven import Driven
    from tests.fix_gates import Gates
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""


@pytest.fixture
def table(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO t SELECT g, 'first' FROM generate_series(1, 9) g")
    return database


def until_opening(job: Driven, database: Database, gates: Gates) -> None:
    """Turn until a window is about to take its snapshot."""
    job.until_drained(database)
    with database.connect() as connection:
        connection.execute(SNAPSHOT)
    job.until(lambda: gates.asked)


def streamed(job: Driven, database: Database, *statements: str) -> None:
    """Run statements, each in a transaction, and turn until they are streamed."""
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())
    job.until_drained(database)


def test_what_is_streamed_while_a_window_opens_is_not_followed_by_an_older_row(
    table: Database, tmp_path, spark, gates: Gates
):
    with driven(table, tmp_path, spark) as job:
        until_opening(job, table, gates)
        streamed(job, table, "UPDATE t SET v = 'before' WHERE id <= 2", "DELETE FROM t WHERE id = 3")
        gates.before.set()
        gates.asked[0].result(60)
        # The snapshot is taken, and the job has not noticed yet.
        streamed(
            job,
            table,
            "UPDATE t SET v = 'after' WHERE id IN (2, 4)",
            "DELETE FROM t WHERE id = 5",
            "UPDATE t SET id = 60 WHERE id = 6",
        )
        opening = job.job._windows.in_progress.opened[0]
        unopened = (opening.is_open, job.answered("finished"))
        gates.after.set()
        job.until_answered("finished")
        read = [event["key"]["id"] for event in job.events("t") if (event["value"] or {}).get("op") == "r"]

    assert unopened == (False, [])
    # Rows 1 and 7 to 9 have nothing newer than the snapshot; 2, 4, 5 and 6 have.
    assert sorted(read) == [1, 7, 8, 9]
    assert replayed_rows(job.events("t")) == rows_of(table, "t")


def test_the_stream_goes_on_while_a_window_waits_for_a_lock(table: Database, tmp_path, spark, gates: Gates):
    gates.before.set()
    gates.after.set()
    with table.connect() as connection:
        connection.execute("CREATE TABLE other (id int PRIMARY KEY)")
    with driven(table, tmp_path, spark) as job:
        job.until_drained(table)
        with table.connect() as measured:
            measured.execute(SNAPSHOT)
        gates.before.clear()
        job.until(lambda: gates.asked)
        with table.connect(autocommit=False) as locking:
            locking.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            gates.before.set()
            for number in range(5):
                streamed(job, table, f"INSERT INTO other VALUES ({number})")
            locking.rollback()
        job.until_answered("finished")

    assert len(job.events("other")) == 5
    assert replayed_rows(job.events("t")) == rows_of(table, "t")


def test_a_stopped_snapshot_leaves_no_session_that_holds_locks(
    table: Database, tmp_path, spark, gates: Gates
):
    with driven(table, tmp_path, spark) as job:
        until_opening(job, table, gates)
        streamed(job, table, "INSERT INTO signals VALUES ('x', 'stop-snapshot', '{}')")
        stopped = len(job.answered("stopped"))
        gates.before.set()
        gates.after.set()
        locks = "SELECT count(*) FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessShareLock'"
        job.until(lambda: table.value(locks) == 0)
        streamed(job, table, SNAPSHOT)
        job.until_answered("finished")

    assert stopped == 1
    assert replayed_rows(job.events("t")) == rows_of(table, "t")

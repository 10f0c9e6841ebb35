"""Blocking snapshots on a real server: the cases of Debezium's BlockingSnapshotTest by name, and ours.

A blocking snapshot shows the tables as they are where the stream waits. So the events of its rows stand
together in the sink, and what is written meanwhile comes after them.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from adapters.source.signals import stop_watch
from tests.driven import SIGNAL_TABLE, Driven, driven, replayed_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SMALL = {"incremental__snapshot__chunk__size": "50", "tidemark__window__max__chunks": "2"}
"""Windows of a hundred rows."""


@contextmanager
def job(database: Database, directory: Path, spark: SparkSession, **more: str) -> Iterator[Driven]:
    given = {"signal__enabled__channels": "source,file", "signal__file": str(directory / "signals"), **more}
    (directory / "signals").touch()
    with driven(database, directory, spark, **given) as one:
        yield one


def fill(database: Database, *tables: str, rows: int = 500) -> None:
    database.execute(SIGNAL_TABLE)
    for name in tables:
        database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
            f"INSERT INTO {name} SELECT g, 'old' FROM generate_series(1, {rows}) g",
            f"ANALYZE {name}",
        )


def block(database: Database, *tables: str, label: str = "block", chosen: str = "") -> None:
    """Send a signal; with `chosen` a SELECT for the first table."""
    data: dict[str, Any] = {"type": "blocking", "data-collections": [f"public.{table}" for table in tables]}
    if chosen:
        data["additional-conditions"] = [{"data-collection": f"public.{tables[0]}", "filter": chosen}]
    with database.connect() as connection:
        connection.execute(
            "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", [label, orjson.dumps(data).decode()]
        )


def by_file(one: Driven, type_: str, **data: Any) -> None:
    line = orjson.dumps({"id": "file", "type": type_, "data": data})
    with (one.directory / "signals").open("ab") as signals:
        signals.write(line + b"\n")


def ops(one: Driven, table: str) -> list[str]:
    return [event["value"]["op"] for event in one.events(table) if event["value"]]


def reads(one: Driven, table: str) -> list[int]:
    return [e["key"]["id"] for e in one.events(table) if e["value"] and e["value"]["op"] == "r"]


def until_reading(one: Driven) -> None:
    """Turn until some rows of a blocking snapshot are out, and some are not."""
    one.until(
        lambda: any(t.blocking and t.progress and t.progress.rows for t in one.job.state.snapshot.tables)
    )


def check(one: Driven, database: Database, *tables: str) -> None:
    one.until_drained(database)
    for table in tables:
        assert replayed_rows(one.events(table)) == rows_of(database, table)


class TestDebezium:
    """The cases of BlockingSnapshotTest."""

    def test_execute_blocking_snapshot(self, each_database, tmp_path, spark):
        fill(each_database, "a", "b")
        with job(each_database, tmp_path, spark, **SMALL) as one:
            block(each_database, "a", "b")
            one.until_answered("finished", 2)

            assert reads(one, "a") == reads(one, "b") == list(range(1, 501))
            marks = [event["value"]["source"]["snapshot"] for event in one.events("a")]
            assert marks[0] == "first"
            assert marks[-1] == "last_in_data_collection"
            assert set(marks[1:-1]) == {"true"}
            assert one.events("b")[-1]["value"]["source"]["snapshot"] == "last"
            check(one, each_database, "a", "b")

    def test_execute_blocking_snapshot_while_streaming(self, each_database, tmp_path, spark):
        """Whatever is written while tables are read comes after all their rows."""
        fill(each_database, "a", "b")
        with job(each_database, tmp_path, spark, **SMALL) as one:
            block(each_database, "a", "b")
            until_reading(one)
            each_database.execute(
                "UPDATE a SET v = 'new' WHERE id % 3 = 0",
                "DELETE FROM b WHERE id % 7 = 0",
                "INSERT INTO b SELECT g, 'new' FROM generate_series(501, 600) g",
            )
            one.until_answered("finished", 2)
            check(one, each_database, "a", "b")

            for table in ("a", "b"):
                assert ops(one, table)[:500] == ["r"] * 500
                assert "r" not in ops(one, table)[500:]

    def test_execute_blocking_snapshot_with_additional_condition(self, each_database, tmp_path, spark):
        fill(each_database, "a")
        chosen = "SELECT * FROM public.a WHERE id <= 120 AND v = 'old'"
        with job(each_database, tmp_path, spark, **SMALL) as one:
            block(each_database, "a", chosen=chosen)
            one.until_answered("finished")

            assert reads(one, "a") == list(range(1, 121))

    def test_reads_schema_only_for_signaled_tables(self, database, tmp_path, spark):
        """Nothing of the other table is locked, measured or read."""
        fill(database, "a", "b")
        with job(database, tmp_path, spark, **SMALL) as one, database.connect(autocommit=False) as other:
            other.execute("LOCK TABLE b IN ACCESS EXCLUSIVE MODE")
            block(database, "a")
            one.until_answered("finished")

            assert reads(one, "a") == list(range(1, 501))
            assert not one.events("b")

    @pytest.mark.thorough
    def test_an_error_during_blocking_snapshot_should_leave_the_connector_in_a_good_state(
        self, database, tmp_path, spark
    ):
        fill(database, "a")
        database.execute(
            "CREATE FUNCTION refused(int) RETURNS int IMMUTABLE LANGUAGE plpgsql"
            " AS $$ BEGIN IF $1 = 300 THEN RAISE 'no'; END IF; RETURN $1; END $$",
        )
        chosen = "SELECT * FROM a WHERE refused(id) > 0"
        with job(database, tmp_path, spark, tidemark__snapshot__conditions="sql", **SMALL) as one:
            block(database, "a", chosen=chosen)
            one.until(lambda: one.answered("failed") or one.answered("rejected"))
            database.execute("UPDATE a SET v = 'new'")
            one.until_drained(database)
            block(database, "a", label="again")
            one.until_answered("finished")

            check(one, database, "a")

    def test_several_blocking_snapshots_are_taken_in_turn(self, database, tmp_path, spark):
        fill(database, "a", "b")
        with job(database, tmp_path, spark, **SMALL) as one:
            block(database, "a", label="one")
            block(database, "b", "a", label="two")
            one.until_answered("finished", 3)

            assert [answer.id for answer in one.answered("finished")] == ["one", "two", "two"]
            assert reads(one, "a") == [*range(1, 501), *range(1, 501)]
            check(one, database, "a", "b")


def test_an_incremental_snapshot_in_progress_waits(database, tmp_path, spark):
    fill(database, "a", "b")
    with job(database, tmp_path, spark, **SMALL) as one:
        by_file(one, "execute-snapshot", **{"data-collections": ["public.a"]})
        one.until(lambda: reads(one, "a"))
        block(database, "b")
        one.until_answered("finished", 2)

        assert "public.b completed" in one.answered("finished")[0].text
        check(one, database, "b")
        assert sorted(reads(one, "a")) == list(range(1, 501))


def test_a_stop_ends_it_and_the_stream_goes_on(database, tmp_path, spark):
    fill(database, "a", rows=2000)
    with job(database, tmp_path, spark, **SMALL) as one:
        block(database, "a")
        until_reading(one)
        database.execute("UPDATE a SET v = 'new' WHERE id = 1")
        by_file(one, "stop-snapshot", type="blocking")
        one.until_answered("stopped")
        one.until_drained(database)

        assert len(reads(one, "a")) < 2000
        assert ops(one, "a")[-1] == "u"


def stop_by_row(database: Database, *tables: str) -> None:
    named = {"data-collections": [f"public.{table}" for table in tables]} if tables else {}
    data = orjson.dumps({"type": "blocking", **named}).decode()
    with database.connect() as connection:
        connection.execute("INSERT INTO signals VALUES ('stop', 'stop-snapshot', %s)", [data])


def test_a_stop_of_one_table_lets_the_others_be_read_as_they_are_where_the_stream_waits(
    database, tmp_path, spark, monkeypatch
):
    """The stream waits, and still brings a stop from the signal table.

    What comes before it supersedes rows that are still to be read in the view.
    """
    monkeypatch.setattr(stop_watch, "_EVERY_S", 0.05)
    fill(database, "a", "b", rows=3000)
    # So many that they are still being read when the stop comes.
    database.execute("INSERT INTO a SELECT g, 'old' FROM generate_series(3001, 30000) g")
    with job(database, tmp_path, spark, **SMALL) as one:
        block(database, "a", "b")
        until_reading(one)
        database.execute(
            "UPDATE b SET v = 'new' WHERE id % 3 = 0",
            "DELETE FROM b WHERE id % 7 = 0",
            "INSERT INTO b SELECT g, 'new' FROM generate_series(3001, 3100) g",
        )
        stop_by_row(database, "a")
        one.until_answered("stopped")
        assert [answer.id for answer in one.answered("accepted")] == ["block", "stop"]
        database.execute("INSERT INTO b VALUES (4000, 'newer')")
        one.until_answered("finished")
        check(one, database, "b")

        assert ops(one, "b")[-1] == "c"
        changed = [row for row in range(1, 3001) if row % 3 == 0 or row % 7 == 0]
        assert one.answered("finished")[0].facts["superseded"] == len(changed)
        assert max(reads(one, "b")) < 3000


def test_the_rest_is_read_after_a_crash(each_database, tmp_path, spark):
    fill(each_database, "a", "b")
    with job(each_database, tmp_path, spark, **SMALL) as one:
        block(each_database, "a", "b")
        until_reading(one)
        each_database.execute("UPDATE a SET v = 'new' WHERE id % 3 = 0", "DELETE FROM b WHERE id % 7 = 0")
    with job(each_database, tmp_path, spark, **SMALL) as one:
        one.until_answered("finished", 2)
        check(one, each_database, "a", "b")


def test_a_session_that_changes_a_table_is_let_through(database, tmp_path, spark):
    """Nobody waits for the end of a blocking snapshot: the view gives way, and another one shows the rest."""
    fill(database, "a", rows=2000)
    with job(database, tmp_path, spark, **SMALL) as one:
        block(database, "a")
        until_reading(one)
        altering = Thread(target=database.execute, args=("ALTER TABLE a ADD COLUMN more int DEFAULT 7",))
        altering.start()
        one.until(lambda: not altering.is_alive())
        one.until_answered("finished")
        one.until_drained(database)

        assert len(set(reads(one, "a"))) == 2000


def test_a_table_without_a_key_is_read(each_database, tmp_path, spark):
    each_database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE k (id int, v text)",
        "ALTER TABLE k REPLICA IDENTITY FULL",
        "INSERT INTO k SELECT g % 100, 'old' FROM generate_series(1, 60000) g",
        "ANALYZE k",
    )
    larger = {"incremental__snapshot__chunk__size": "5000", "tidemark__window__max__chunks": "1"}
    with job(each_database, tmp_path, spark, **larger) as one:
        block(each_database, "k")
        # All of it is one run, so no turn sees a part of it sent.
        one.until(lambda: one.job.window is not None)
        each_database.execute("DELETE FROM k WHERE id = 7")
        one.until_answered("finished")
        one.until_drained(each_database)

        assert ops(one, "k").count("r") == 60000
        assert ops(one, "k").count("d") == 600


@pytest.mark.parametrize(
    ("conditions", "text", "said"),
    [
        ("off", "SELECT * FROM a WHERE id = 1", "conditions are not taken"),
        ("expressions", "id = 1", "is a whole SELECT"),
        ("expressions", "SELECT * FROM a WHERE pg_sleep(1) IS NULL", "'pg_sleep' is not in the list"),
        ("expressions", "SELECT * FROM b WHERE id = 1", "selects from 'b'"),
        ("expressions", "SELECT * FROM a JOIN b USING (id)", "'joins' is not taken"),
        ("expressions", "SELECT * FROM a WHERE id = 1 LIMIT 3", "'limit' is not taken"),
        ("expressions", "SELECT id FROM a", "lacks the column"),
        ("expressions", "SELECT * FROM a; DROP TABLE a", "semicolon"),
        ("sql", "DELETE FROM a", "must be a SELECT"),
        ("sql", "SELECT * FROM a; DROP TABLE a", "';'"),
        ("sql", "SELECT id FROM a", "does not give the columns 'v'"),
        ("sql", "SELECT * FROM nowhere", "is refused"),
    ],
)
def test_a_select_that_is_not_taken_is_refused(database, tmp_path, spark, conditions, text, said):
    fill(database, "a", "b", rows=3)
    with job(database, tmp_path, spark, tidemark__snapshot__conditions=conditions) as one:
        block(database, "a", chosen=text)
        one.until_answered("rejected")

        assert said in one.answered("rejected")[0].text
        assert not one.events("a")


def test_any_select_is_taken_from_those_who_may_write_sql(database, tmp_path, spark):
    fill(database, "a", rows=50)
    text = "WITH few AS (SELECT id FROM a ORDER BY id LIMIT 5) SELECT a.* FROM a JOIN few USING (id)"
    with job(database, tmp_path, spark, tidemark__snapshot__conditions="sql") as one:
        block(database, "a", chosen=text)
        one.until_answered("finished")

        assert sorted(reads(one, "a")) == [1, 2, 3, 4, 5]

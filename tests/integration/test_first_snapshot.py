"""The snapshot before the log on a real server: every mode, every way to be interrupted."""

from __future__ import annotations

import logging
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest

from engine.errors import ConfigError, PositionLost
from engine.snapshot.initial import Log, StartSituation
from tests.driven import Driven, driven

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.model import CollectionId
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 40
STORED = {"tidemark__snapshot__generated__columns": "stored"}
SMALL = {"incremental__snapshot__chunk__size": "10", "tidemark__window__max__chunks": "1"}
"""Tables are cut into windows of ten rows."""


def rows_of(database: Database, query: str) -> list[tuple[Any, ...]]:
    with database.connect() as connection:
        return connection.execute(query.encode()).fetchall()


def fill(database: Database) -> Database:
    """Tables a and b of some rows, and an empty one."""
    for name in ("a", "b"):
        database.execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
            f"INSERT INTO {name} SELECT g, 'old' FROM generate_series(1, {ROWS}) g",
            f"ANALYZE {name}",
        )
    database.execute("CREATE TABLE c (id int PRIMARY KEY)")
    return database


@pytest.fixture
def each_filled(each_database: Database) -> Database:
    return fill(each_database)


@pytest.fixture
def filled(database: Database) -> Database:
    return fill(database)


@contextmanager
def job(database: Database, directory: Path, spark: SparkSession, **more: str) -> Iterator[Driven]:
    given = {"snapshot__mode": "initial", "signal__data__collection": "", **more}
    with driven(database, directory, spark, **given) as one:
        yield one


def finish(one: Driven, database: Database) -> None:
    one.until(lambda: not one.job.state.snapshot.tables)
    one.until_drained(database)


def values(one: Driven, table: str) -> list[tuple[int, dict[str, Any]]]:
    """The keys and values of a table's events, tombstones left out."""
    return [(event["key"]["id"], event["value"]) for event in one.events(table) if event["value"]]


def reads(one: Driven, table: str) -> list[int]:
    return [key for key, value in values(one, table) if value["op"] == "r"]


def marks(one: Driven, table: str) -> list[str]:
    return [value["source"]["snapshot"] for _key, value in values(one, table) if value["op"] == "r"]


def left_by(one: Driven, table: str) -> list[tuple[int, str]]:
    """The rows that the events leave, applied in order."""
    rows: dict[int, str] = {}
    for key, value in values(one, table):
        if value["op"] == "d":
            rows.pop(key, None)
        else:
            rows[key] = value["after"]["v"]
    return sorted(rows.items())


def check(one: Driven, database: Database, *tables: str) -> None:
    for table in tables:
        assert left_by(one, table) == rows_of(database, f"SELECT id, v FROM {table} ORDER BY id")


def change(database: Database, table: str) -> None:
    """Every kind of change, each of rows at both ends of a table."""
    database.execute(
        f"UPDATE {table} SET v = 'new' WHERE id IN (1, 20, 39)",
        f"DELETE FROM {table} WHERE id IN (2, 21, 38)",
        f"UPDATE {table} SET id = id + 60 WHERE id IN (3, 22, 37)",
        f"INSERT INTO {table} VALUES (70, 'new'), (0, 'new')",
    )


def interrupted(database: Database, directory: Path, spark: SparkSession, **more: str) -> None:
    """A job that was stopped in the middle of table a."""
    with job(database, directory, spark, **SMALL, **more) as one:
        one.until(lambda: len(reads(one, "a")) >= 10)
        assert not reads(one, "b")


class TestInitial:
    def test_rows_come_as_they_were_where_the_log_begins_and_then_the_log(self, each_filled, tmp_path, spark):
        with job(each_filled, tmp_path, spark) as one:
            change(each_filled, "a")
            change(each_filled, "b")
            finish(one, each_filled)

            check(one, each_filled, "a", "b")
            for table in ("a", "b"):
                operations = "".join(value["op"] for _key, value in values(one, table))
                assert operations == "r" * ROWS + "uuu" + "ddd" + "dc" * 3 + "cc"
                assert reads(one, table) == list(range(1, ROWS + 1))
                assert {v["after"]["v"] for _k, v in values(one, table) if v["op"] == "r"} == {"old"}

    def test_marks_places_and_times(self, filled, tmp_path, spark):
        with job(filled, tmp_path, spark, **SMALL) as one:
            finish(one, filled)

            assert marks(one, "a") == ["first"] + ["true"] * (ROWS - 2) + ["last_in_data_collection"]
            assert marks(one, "b") == (
                ["first_in_data_collection"] + ["true"] * (ROWS - 2) + ["last_in_data_collection"]
            )
            sources = [value["source"] for table in "ab" for _key, value in values(one, table)]
            assert len({(at["lsn"], at["txId"], at["ts_ms"], at["sequence"]) for at in sources}) == 1

    def test_the_log_waits_and_the_slot_keeps_it(self, filled, tmp_path, spark):
        with job(filled, tmp_path, spark, **SMALL) as one:
            filled.execute("INSERT INTO a VALUES (100, 'new')")
            begins = one.job.state.position
            one.until(lambda: reads(one, "b"))

            assert one.job.state.position == begins
            assert 100 not in [key for key, _value in values(one, "a")]
            finish(one, filled)
            check(one, filled, "a", "b")


class TestInterrupted:
    def test_what_is_left_is_read_while_the_log_is_streamed(self, each_filled, tmp_path, spark):
        interrupted(each_filled, tmp_path, spark)
        before = rows_of(each_filled, "SELECT slot_name FROM pg_replication_slots")
        change(each_filled, "a")
        change(each_filled, "b")

        with job(each_filled, tmp_path, spark, **SMALL) as one:
            finish(one, each_filled)

            check(one, each_filled, "a", "b")
            assert [key for key, count in Counter(reads(one, "a")).items() if count > 1] == []
            assert "last_in_data_collection" in marks(one, "b")
        assert rows_of(each_filled, "SELECT slot_name FROM pg_replication_slots") == before

    def test_or_everything_anew_where_that_is_asked_for(self, filled, tmp_path, spark, caplog):
        interrupted(filled, tmp_path, spark)
        filled.execute("UPDATE a SET v = 'new' WHERE id = 1")

        with job(filled, tmp_path, spark, tidemark__snapshot__restart="redo", **SMALL) as one:
            finish(one, filled)

            check(one, filled, "a", "b")
            assert Counter(reads(one, "a"))[1] == 2
            assert marks(one, "a").count("first") == 2
        assert "starts over; events of the previous one" in caplog.text

    def test_a_lost_checkpoint_loses_nothing(self, filled, tmp_path, spark):
        interrupted(filled, tmp_path / "lost", spark)
        change(filled, "a")

        with job(filled, tmp_path / "new", spark, **SMALL) as one:
            change(filled, "b")
            finish(one, filled)

            check(one, filled, "a", "b")
            assert set(marks(one, "b")) >= {"true"}

    def test_a_session_that_waits_to_change_a_table_is_let_through(self, filled, tmp_path, spark):
        with job(filled, tmp_path, spark, **SMALL) as one:
            one.until(lambda: len(reads(one, "a")) >= 10)
            with psycopg.connect(filled.dsn(), autocommit=True) as other, other.pipeline():
                other.execute("ALTER TABLE b ADD COLUMN w int DEFAULT 7")
                since = time.monotonic()
                one.until(lambda: not one.job._parts.source.holds_log(one.job.state))
                assert time.monotonic() - since < 30
            change(filled, "b")
            finish(one, filled)

            check(one, filled, "a", "b")
            assert {value["after"]["w"] for _key, value in values(one, "b") if value["op"] == "r"} == {7}

    def test_a_holder_that_was_killed_loses_nothing(self, filled, tmp_path, spark):
        with job(filled, tmp_path, spark, **SMALL) as one:
            one.until(lambda: len(reads(one, "a")) >= 10)
            filled.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tidemark'"
                " AND state = 'idle in transaction'",
            )
            change(filled, "a")
            change(filled, "b")
            finish(one, filled)

            check(one, filled, "a", "b")


class TestAlways:
    def test_every_start_reads_everything_while_the_log_goes_on(self, filled, tmp_path, spark):
        with job(filled, tmp_path, spark, snapshot__mode="always") as one:
            finish(one, filled)
        change(filled, "a")
        with job(filled, tmp_path, spark, snapshot__mode="always") as one:
            change(filled, "b")
            finish(one, filled)

            check(one, filled, "a", "b")
            assert Counter(reads(one, "a"))[10] == 2
            assert marks(one, "a").count("first") == 2

    def test_one_that_was_interrupted_is_gone_on_with(self, filled, tmp_path, spark):
        interrupted(filled, tmp_path, spark, snapshot__mode="always")
        with job(filled, tmp_path, spark, snapshot__mode="always", **SMALL) as one:
            finish(one, filled)

            check(one, filled, "a", "b")
            assert set(Counter(reads(one, "a")).values()) == {1}


def run_to_its_end(one: Driven) -> None:
    one.job.close()
    deadline = time.monotonic() + 60
    one.job.run(lambda: time.monotonic() > deadline)
    assert time.monotonic() < deadline


class TestAlone:
    def test_it_leaves_neither_slot_nor_publication_and_ends_by_itself(self, filled, tmp_path, spark):
        with job(filled, tmp_path, spark, snapshot__mode="initial_only") as one:
            run_to_its_end(one)

            assert sorted(reads(one, "a")) == list(range(1, ROWS + 1))
        assert rows_of(filled, "SELECT FROM pg_replication_slots") == []
        assert rows_of(filled, "SELECT FROM pg_publication") == []

        with job(filled, tmp_path, spark, snapshot__mode="initial_only") as one:
            run_to_its_end(one)

            assert len(reads(one, "a")) == ROWS

    def test_one_that_was_interrupted_begins_again(self, filled, tmp_path, spark, caplog):
        interrupted(filled, tmp_path, spark, snapshot__mode="initial_only")
        filled.execute("UPDATE a SET v = 'new' WHERE id = 1")
        with job(filled, tmp_path, spark, snapshot__mode="initial_only", **SMALL) as one:
            run_to_its_end(one)

            check(one, filled, "a", "b")
        assert "starts over: no log has the changes" in caplog.text


class TestLostLog:
    @pytest.fixture
    def lost(self, filled: Database, tmp_path: Path, spark: SparkSession) -> Database:
        with job(filled, tmp_path, spark) as one:
            finish(one, filled)
        filled.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        filled.execute("UPDATE a SET v = 'new' WHERE id < 10")
        return filled

    def test_stops_the_job(self, lost, tmp_path, spark):
        with pytest.raises(PositionLost), job(lost, tmp_path, spark):
            pass

    @pytest.mark.parametrize("mode", ["when_needed", "always"])
    def test_is_begun_anew_where_the_mode_says_so(self, lost, tmp_path, spark, caplog, mode):
        with job(lost, tmp_path, spark, snapshot__mode=mode) as one:
            finish(one, lost)

            check(one, lost, "a", "b")
        assert "rows deleted meanwhile are not reported" in caplog.text


def test_never_reads_nothing(filled, tmp_path, spark):
    with job(filled, tmp_path, spark, snapshot__mode="never") as one:
        filled.execute("INSERT INTO c VALUES (1)")
        one.until_drained(filled)

        assert [event["topic"] for event in one.events()] == ["tm.public.c"]


class TestStatements:
    def given(self, statement: str) -> dict[str, str]:
        return {
            "snapshot__select__statement__overrides": "public.a",
            "snapshot__select__statement__overrides__public__a": statement,
        }

    @pytest.mark.parametrize(
        ("statement", "expected"),
        [
            ("SELECT * FROM a WHERE id > 10 AND v ~ '[?]|old' -- odd", set(range(11, ROWS + 1))),
            ("SELECT v, id FROM a ORDER BY id DESC LIMIT 12", set(range(ROWS - 11, ROWS + 1))),
            ("SELECT id + 100 AS id, v FROM a", set(range(101, ROWS + 101))),
        ],
    )
    def test_a_table_s_rows_are_those_that_its_select_gives(
        self, filled, tmp_path, spark, statement, expected
    ):
        with job(filled, tmp_path, spark, **SMALL, **self.given(statement)) as one:
            finish(one, filled)

            assert sorted(reads(one, "a")) == sorted(expected)
            assert len(reads(one, "b")) == ROWS

    @pytest.mark.parametrize(
        ("statement", "problem"),
        [
            ("SELECT id FROM a", "does not give the table's columns 'v'"),
            ("SELECT nothing FROM a", "is refused"),
            ("DELETE FROM a RETURNING *", "is refused"),
        ],
    )
    def test_one_that_can_not_be_used_stops_the_job(self, filled, tmp_path, spark, statement, problem):
        with pytest.raises(ConfigError, match=problem), job(filled, tmp_path, spark, **self.given(statement)):
            pass

        assert rows_of(filled, "SELECT FROM pg_replication_slots") == []


class TestGeneratedColumns:
    """The log has none before PostgreSQL 18, and there only where the publication says so."""

    @pytest.fixture
    def generated(self, each_database: Database) -> Database:
        each_database.execute(
            "CREATE TABLE a (id int PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (id * 2) STORED)",
            "INSERT INTO a VALUES (1, 'old')",
        )
        return each_database

    def shown(self, one: Driven, database: Database) -> list[tuple[str, list[str]]]:
        """Each event's operation and the columns of its row."""
        finish(one, database)
        database.execute("INSERT INTO a VALUES (2, 'new')")
        one.until_drained(database)
        return [(value["op"], sorted(value["after"])) for _key, value in values(one, "a")]

    def test_rows_read_and_changes_have_the_same_columns(self, generated, tmp_path, spark):
        with job(generated, tmp_path, spark) as one:
            assert self.shown(one, generated) == [("r", ["id", "v"]), ("c", ["id", "v"])]

    def test_rows_read_have_stored_ones_where_that_is_asked_for(self, generated, tmp_path, spark):
        with job(generated, tmp_path, spark, **STORED) as one:
            assert self.shown(one, generated) == [("r", ["id", "twice", "v"]), ("c", ["id", "v"])]
            assert next(value["after"]["twice"] for _key, value in values(one, "a")) == 2

    @pytest.mark.parametrize("more", [{}, STORED])
    def test_both_have_them_where_they_are_published(self, database, tmp_path, spark, more):
        database.execute(
            "CREATE TABLE a (id int PRIMARY KEY, v text, twice int GENERATED ALWAYS AS (id * 2) STORED)",
            "INSERT INTO a VALUES (1, 'old')",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES WITH (publish_generated_columns = stored)",
        )
        with job(database, tmp_path, spark, **more) as one:
            columns = ["id", "twice", "v"]
            assert self.shown(one, database) == [("r", columns), ("c", columns)]

    def test_a_column_list_leaves_them_out(self, generated, tmp_path, spark):
        generated.execute("CREATE PUBLICATION dbz_publication FOR TABLE a (id, v)")
        with job(generated, tmp_path, spark, **STORED) as one:
            assert self.shown(one, generated)[0] == ("r", ["id", "v"])

    def test_a_select_must_give_them_too(self, generated, tmp_path, spark):
        statement = {
            "snapshot__select__statement__overrides": "public.a",
            "snapshot__select__statement__overrides__public__a": "SELECT id, v FROM a",
        }
        with (
            pytest.raises(ConfigError, match="does not give the table's columns 'twice'"),
            job(generated, tmp_path, spark, **STORED, **statement),
        ):
            pass


MANY = {"incremental__snapshot__chunk__size": "1500", "tidemark__window__max__chunks": "1"}


class TestWithoutKey:
    """A table without any key, too large to be read at once."""

    @pytest.fixture
    def keyless(self, database: Database) -> Database:
        database.execute(
            "CREATE TABLE k (v text)",
            "INSERT INTO k SELECT repeat(g::text, 50) FROM generate_series(1, 5000) g",
            "INSERT INTO k SELECT 'same' FROM generate_series(1, 3)",
        )
        return database

    def check(self, one: Driven, database: Database) -> None:
        found = sorted(event["value"]["after"]["v"] for event in one.events("k"))
        assert [(text,) for text in found] == sorted(rows_of(database, "SELECT v FROM k"))

    def test_is_cut_by_the_places_of_its_rows(self, keyless, tmp_path, spark):
        with job(keyless, tmp_path, spark, **MANY) as one:
            one.until(lambda: one.events("k"))
            keyless.execute("INSERT INTO k VALUES ('late')")
            assert one.job.state.snapshot.tables
            finish(one, keyless)

            self.check(one, keyless)

    def test_is_read_whole_once_its_snapshot_is_gone(self, keyless, tmp_path, spark, caplog):
        with job(keyless, tmp_path, spark, **MANY) as one:
            one.until(lambda: one.events("k"))
            before = len(one.events("k"))
        with job(keyless, tmp_path, spark, **MANY) as one:
            finish(one, keyless)

            assert len(one.events("k")) == before + 5003
        assert "has no key" in caplog.text


class Recent:
    """A user's snapshotter: reads the newest rows of table a, once."""

    def should_snapshot(self, standing: StartSituation) -> bool:
        return not standing.saved and standing.log is not Log.LOST

    def should_stream(self) -> bool:
        return True

    def statement(self, collection: CollectionId) -> str | None:
        return "SELECT * FROM a WHERE id > 30" if str(collection) == "public.a" else None


class TestCustom:
    def test_a_class_of_the_user_s_decides(self, filled, tmp_path, spark):
        mine = {"snapshot__mode": "custom", "snapshot__custom__class": f"{__name__}:Recent"}
        with job(filled, tmp_path, spark, **mine) as one:
            finish(one, filled)

            assert sorted(reads(one, "a")) == list(range(31, ROWS + 1))

    @pytest.mark.parametrize("name", ["nowhere:Mine", f"{__name__}:Nothing", "mine", f"{__name__}:run"])
    def test_one_that_is_none_is_refused(self, filled, tmp_path, spark, name):
        mine = {"snapshot__mode": "custom", "snapshot__custom__class": name}
        with pytest.raises(ConfigError, match="snapshotter"), job(filled, tmp_path, spark, **mine):
            pass


@pytest.mark.thorough
def test_a_thousand_small_tables_take_few_windows(database, tmp_path, spark, caplog):
    caplog.set_level(logging.INFO)
    with database.connect() as connection:
        for number in range(1000):
            connection.execute(f"CREATE TABLE t{number:04d} (id int PRIMARY KEY)".encode())
            connection.execute(f"INSERT INTO t{number:04d} VALUES (1), (2)".encode())
    windows = set()
    with job(database, tmp_path, spark) as one:

        def done() -> bool:
            if one.job.window:
                windows.add(one.job.window.id)
            return not one.job.state.snapshot.tables

        one.until(done, 300)

        assert len(one.events()) == 2000
        assert marks(one, "t0000") == ["first", "last_in_data_collection"]
        assert marks(one, "t0999") == ["first_in_data_collection", "last"]
    assert len(windows) <= 25


def test_tables_and_threads_are_as_the_settings_say(filled, tmp_path, spark):
    given = {"snapshot__include__collection__list": "public.b", "snapshot__max__threads": "1"}
    tracker = spark.sparkContext.statusTracker()
    tasks: list[int] = []
    with job(filled, tmp_path, spark, **SMALL, **given) as one:

        def done() -> bool:
            found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            tasks.extend(stage.numTasks for stage in found if stage)
            return not one.job.state.snapshot.tables

        one.until(done)
        filled.execute("INSERT INTO a VALUES (100, 'new')")
        one.until_drained(filled)

        assert reads(one, "a") == []
        assert len(reads(one, "b")) == ROWS
        assert [key for key, _value in values(one, "a")] == [100]
    assert set(tasks) <= {1}


def test_progress_is_in_the_state(filled, tmp_path, spark):
    with job(filled, tmp_path, spark, **SMALL) as one:
        one.until(lambda: len(reads(one, "b")) >= 5)

    newest = max((tmp_path / "state").glob("turn-*.json"))
    table = orjson.loads(newest.read_bytes())["state"]["snapshot"]["tables"][0]
    assert table["collection"] == ["public", "b"]
    assert table["place"] == [2, 3]
    assert table["progress"]["rows"] >= 10

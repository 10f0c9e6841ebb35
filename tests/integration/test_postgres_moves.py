"""Rows that leave the ranges still to be read for those already read, by the key that cuts the table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
UNAVAILABLE = "__debezium_unavailable_value"
ROWS = 1000
SMALL = {"tidemark__window__max__chunks": "2", "incremental__snapshot__chunk__size": "50"}
PLAIN = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
BY_N = PLAIN.replace("]}", '], "surrogate-key": "n"}')


def bodies(events: list[dict[str, Any]], key: str = "id") -> dict[Any, str]:
    """What a consumer has in the large column; one that an event leaves out is the one that the row had."""
    found: dict[Any, str] = {}
    for event in events:
        if event["value"] is None:
            continue
        row, gone = event["value"]["after"], event["value"]["before"]
        if row is None:
            found.pop(gone[key], None)
        elif row["body"] != UNAVAILABLE:
            found[row[key]] = row["body"]
        else:
            found.setdefault(row[key], UNAVAILABLE)
    return found


@pytest.fixture
def documents(each_database: Database) -> Database:
    """Rows with a large value, and two keys beside the primary one."""
    with each_database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute(
            "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, alt int NOT NULL, v int, body text)"
        )
        connection.execute("ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
        connection.execute("CREATE INDEX ON t (n)")
        connection.execute("CREATE UNIQUE INDEX t_alt ON t (alt)")
        connection.execute(
            "INSERT INTO t SELECT g, g, g, 0, repeat(g || ' large ', 500)"
            f" FROM generate_series(1, {ROWS}) g".encode()
        )
    return each_database


def after_some_windows(job: Driven, reads: int = 100) -> None:
    """Turn until some of the table has gone out; windows in progress are given up."""
    job.until(lambda: len(job.events("t")) >= reads)
    assert len(job.events("t")) < ROWS
    job.job.close()


def moved(
    database: Database, directory: Path, spark: Any, signal: str, *statements: str, **more: str
) -> Driven:
    """A job whose table was changed by these statements while half of it was read."""
    with driven(database, directory, spark, **SMALL, **more) as job, database.connect() as connection:
        connection.execute(signal.encode())
        after_some_windows(job)
        for statement in statements:
            connection.execute(statement.encode())
        job.until_answered("finished")
        job.until_drained(database)
        return job


class TestSurrogateKey:
    """The log has no old row where the primary key stays."""

    def test_a_row_that_moves_by_it_alone_is_read(self, documents, tmp_path, spark):
        move = f"UPDATE t SET n = -id WHERE id > {ROWS - 20}"
        found = bodies(moved(documents, tmp_path, spark, BY_N, move).events("t"))

        assert found == {g: f"{g} large " * 500 for g in range(1, ROWS + 1)}

    def test_and_one_that_moves_behind_the_greatest_key(self, documents, tmp_path, spark):
        move = f"UPDATE t SET n = {ROWS} + id WHERE id > {ROWS - 20}"
        found = bodies(moved(documents, tmp_path, spark, BY_N, move).events("t"))

        assert found == {g: f"{g} large " * 500 for g in range(1, ROWS + 1)}


class TestUsingIndex:
    """The log has the old values of the index alone, and the table is cut by its primary key."""

    def test_a_row_that_moves_by_its_primary_key_alone_is_read(self, documents, tmp_path, spark):
        with documents.connect() as connection:
            connection.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_alt")
        move = f"UPDATE t SET id = -id WHERE id > {ROWS - 20}"
        found = bodies(moved(documents, tmp_path, spark, PLAIN, move).events("t"), "alt")

        assert found == {g: f"{g} large " * 500 for g in range(1, ROWS + 1)}


class TestRowFilter:
    """A row that a change of its key brings into the published ones comes as an insert without its value."""

    FILTERED = "CREATE PUBLICATION dbz_publication FOR TABLE signals, t WHERE (n > 0)"

    def filtered(self, documents: Database) -> None:
        with documents.connect() as connection:
            connection.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, n)")
            connection.execute("UPDATE t SET n = -n WHERE id < 20")
            connection.execute(self.FILTERED)

    def test_it_is_read_when_it_comes_behind_the_reading(self, documents, tmp_path, spark):
        self.filtered(documents)
        come = "UPDATE t SET n = -n WHERE id < 20"
        found = bodies(moved(documents, tmp_path, spark, PLAIN, come).events("t"))

        assert found == {g: f"{g} large " * 500 for g in range(1, ROWS + 1)}

    def test_it_is_read_when_it_comes_while_the_last_rows_are_read(self, documents, tmp_path, spark):
        self.filtered(documents)
        with driven(documents, tmp_path, spark) as job, documents.connect() as connection:
            connection.execute(PLAIN)
            job.until(lambda: job.job.window is not None)
            connection.execute("UPDATE t SET n = -n WHERE id < 20")
            job.until_answered("finished")
            job.until_drained(documents)
            found = bodies(job.events("t"))

        assert found == {g: f"{g} large " * 500 for g in range(1, ROWS + 1)}


def test_rows_that_stay_where_they_are_are_read_once(documents, tmp_path, spark):
    touch = f"UPDATE t SET v = v + 1 WHERE id > {ROWS - 20}"
    job = moved(documents, tmp_path, spark, PLAIN, touch)
    reads: dict[int, int] = defaultdict(int)
    for event in job.events("t"):
        reads[event["value"]["after"]["id"]] += event["value"]["op"] == "r"

    assert set(reads.values()) == {1}

"""A row that changes all the time, and clocks that are wrong."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
LARGE = "large " * 1000


@pytest.fixture
def table(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v int, body text)")
        connection.execute("ALTER TABLE t ALTER body SET STORAGE EXTERNAL")
        connection.execute("INSERT INTO t SELECT g, 0, %s FROM generate_series(1, 20) g", [LARGE])
    return database


@contextmanager
def updating(database: Database, for_s: float) -> Iterator[None]:
    """One row is updated about 200 times a second, its large value left as it is."""

    def update() -> None:
        until_s = time.monotonic() + for_s
        with database.connect() as connection:
            while time.monotonic() < until_s:
                connection.execute("UPDATE t SET v = v + 1 WHERE id = 7")
                time.sleep(0.005)

    thread = threading.Thread(target=update, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(for_s + 10)


def test_a_row_that_is_hot_for_some_seconds_does_not_fail_its_table(table, tmp_path, spark):
    with driven(table, tmp_path, spark) as job:
        with updating(table, 5.0), table.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: len(job.answers) > 1)
        job.until_drained(table)
        bodies = {
            event["key"]["id"]: event["value"]["after"]["body"]
            for event in job.events("t")
            if event["value"]["after"]["body"] == LARGE
        }

        assert [answer.outcome for answer in job.answers] == ["accepted", "finished"]
        assert set(bodies) == set(range(1, 21))


def test_the_lag_is_told_by_the_server_s_clock(table, tmp_path, spark):
    with driven(table, tmp_path, spark) as job, table.connect() as connection:
        job.job._seams = replace(job.job._seams, now=lambda: time.time() + 60)
        connection.execute("INSERT INTO t VALUES (100, 1, 'x')")
        job.until(lambda: job.events("t"))

        assert job.job._lag_s < 30

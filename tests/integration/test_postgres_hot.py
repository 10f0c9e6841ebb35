"""A row that changes all the time, and clocks that are wrong."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from adapters.postgres.log.reader import PostgresLog
from tests.changed_parts import change_parts
from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.driven import Driven
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
def updating(database: Database, for_s: float) -> Iterator[threading.Event]:
    """One row is updated about 200 times a second, its large value left as it is; an event ends it early."""
    stop = threading.Event()

    def update() -> None:
        until_s = time.monotonic() + for_s
        with database.connect() as connection:
            while time.monotonic() < until_s and not stop.is_set():
                connection.execute("UPDATE t SET v = v + 1 WHERE id = 7")
                time.sleep(0.005)

    thread = threading.Thread(target=update, daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        thread.join(for_s + 10)


@pytest.mark.parametrize("strategy", ["visibility", "insert_insert"])
def test_a_row_that_never_rests_is_read_again_where_the_stream_waits_for_it(table, tmp_path, spark, strategy):
    with driven(table, tmp_path, spark, incremental__snapshot__watermarking__strategy=strategy) as job:
        with updating(table, 60.0) as stop, table.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: len(job.answers) > 1)
            # Nothing but the row itself brings the stream past this place.
            job.until(lambda: ops_of(job, 7)[-1:] == ["u"])
            stop.set()
        job.until_drained(table)
        with table.connect() as connection:
            newest = connection.execute("SELECT v FROM t WHERE id = 7").fetchone()
        read = {
            event["key"]["id"]: event["value"]["after"]["body"] == LARGE
            for event in job.events("t")
            if event["value"]["op"] == "r"
        }
        events = [event["value"] for event in job.events("t") if event["key"]["id"] == 7]
        values = [event["after"]["v"] for event in events]

        assert [answer.outcome for answer in job.answers] == ["accepted", "finished"]
        assert read == dict.fromkeys(range(1, 21), True)
        assert [event["op"] for event in events].count("r") == 1
        assert values == sorted(values)
        assert newest == (values[-1],)


def ops_of(job: Driven, id_: int) -> list[str]:
    return [event["value"]["op"] for event in job.events("t") if event["key"]["id"] == id_]


@pytest.mark.thorough
def test_a_log_that_is_held_goes_on_by_itself(table, tmp_path, spark):
    with driven(table, tmp_path, spark) as job, table.connect() as connection:
        log = job.job._session()
        assert isinstance(log, PostgresLog)
        log.hold()
        connection.execute("INSERT INTO t VALUES (100, 1, 'x')")
        began_s = time.monotonic()
        job.until(lambda: job.events("t"))

        assert time.monotonic() - began_s > 0.5


def test_the_lag_is_told_by_the_server_s_clock(table, tmp_path, spark):
    with driven(table, tmp_path, spark) as job, table.connect() as connection:
        change_parts(job.job, now=lambda: time.time() + 60)
        connection.execute("INSERT INTO t VALUES (100, 1, 'x')")
        job.until(lambda: job.events("t"))

        assert job.job._turns.lag_s < 30

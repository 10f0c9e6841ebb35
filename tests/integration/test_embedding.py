"""Jobs that a Python program starts, on a real server: signals, their ends, and jobs that share a session."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import tidemark
from engine.model import CollectionId
from tests.driven import SIGNAL_TABLE, properties, read_events, replayed_rows
from tests.memory_source import Change, MemoryDatabase
from tests.toys.memory import DATABASES
from tests.toys.shelf import SHELVES, Shelf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

ROWS = 300
T = CollectionId(("public", "t"))


def toy(name: str, directory: Path) -> dict[str, str]:
    """A job on a database and a shelf in memory."""
    return {
        "connector.class": "memory",
        "topic.prefix": name,
        "memory.database": name,
        "tidemark.sink": "shelf",
        "shelf.name": name,
        "tidemark.checkpoint": str(directory / name),
    }


def until(condition: Callable[[], Any], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def filled(database: Database) -> None:
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE a (id int PRIMARY KEY, body text)",
        f"INSERT INTO a SELECT i, 'v' || i FROM generate_series(1, {ROWS}) i",
    )


def test_a_program_takes_a_snapshot_with_a_job_of_its_own(
    database: Database, tmp_path: Path, spark: SparkSession
):
    filled(database)
    through_spark = {"tidemark__window__local__rows": "0"}
    said = properties(database, tmp_path, topic__prefix="embedded", **through_spark)
    with tidemark.start(said, spark=spark) as job:
        signal = job.signal("execute-snapshot", ["public.a"])
        result = job.wait(signal, timeout_s=300).check()
        with database.connect() as connection:
            connection.execute("UPDATE a SET body = 'new' WHERE id = 1")
        until(lambda: len(read_events(tmp_path / "events")) > ROWS)
        status = job.status()
        refused = job.wait(job.signal("execute-snapshot", ["public.nothing"]), timeout_s=300)
        with pytest.raises(tidemark.SignalError, match=r"was not done: rejected: .*nothing"):
            refused.check()
    rows = replayed_rows(read_events(tmp_path / "events"))

    assert [answer.outcome for answer in result.answers][-1] == "finished"
    assert result.answers[-1].collection == "public.a"
    assert (status.standing, status.failure, status.snapshots) == ("streaming", "", ())
    assert status.position is not None
    assert not job.running
    assert (len(rows), rows[1]["body"], rows[2]["body"]) == (ROWS, "new", "v2")
    pools = {pool.name() for pool in _pools(spark)}
    assert "embedded" in pools  # its windows were read in its own pool


def _pools(spark: SparkSession) -> list[Any]:
    found = spark.sparkContext._jsc.sc().getAllPools()
    return [found.apply(at) for at in range(found.size())]


def test_what_ends_a_job_reaches_the_program(database: Database, tmp_path: Path, spark: SparkSession):
    filled(database)
    job = tidemark.start(properties(database, tmp_path, database__user="nobody_at_all"), spark=spark)

    with pytest.raises(tidemark.ConfigError, match="nobody_at_all"):
        job.join(timeout_s=300)
    with pytest.raises(tidemark.SignalError, match="the job has ended"):
        job.signal("log", data={"message": "x"})
    assert not job.running
    assert job.status().standing == "stopped"


@pytest.mark.usefixtures("toys")
def test_a_slow_sink_and_a_failing_job_hold_no_other(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    databases = {name: MemoryDatabase() for name in ("slow", "good")}
    shelves = {"slow": Shelf(), "good": Shelf()}
    held, free = threading.Event(), threading.Event()
    real = shelves["slow"].turns

    class Slow(dict):  # type: ignore[type-arg]  # as the shelf's
        def __setitem__(self, turn, events):
            held.set()
            free.wait(600)
            real[turn] = events

    shelves["slow"].turns = Slow()
    for name, database in databases.items():
        monkeypatch.setitem(DATABASES, name, database)
        monkeypatch.setitem(SHELVES, name, shelves[name])
    jobs = {name: tidemark.start(toy(name, tmp_path), spark=spark) for name in ("slow", "failing", "good")}
    try:
        databases["slow"].commit(Change(T, 1, "v"))
        until(held.is_set)
        with pytest.raises(KeyError):
            jobs["failing"].join(300)  # its database does not exist
        databases["good"].commit(Change(T, 1, "v"))
        until(lambda: len(shelves["good"].events) == 1)
        jobs["good"].wait(jobs["good"].signal("execute-snapshot", ["public.t"]), 300).check()
        assert len(shelves["good"].events) == 2
        assert real == {}
        assert jobs["slow"].running
        free.set()
        until(lambda: sum(map(len, list(real.values()))) == 1)
    finally:
        free.set()
        for name in ("slow", "good"):
            jobs[name].stop()

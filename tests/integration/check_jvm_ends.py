"""A job whose JVM is killed, or has no memory: it ends with the reason, and a restart loses nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.command import Command
from tests.driven import SIGNAL_TABLE, properties, read_events, replayed_rows

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

ROWS = 200_000


def jvm_of(process: int) -> int:
    """The JVM that a job has started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = status.read_text().rsplit(")", 1)[1].split()
            command = (status.parent / "cmdline").read_bytes()
            if int(fields[1]) == process and b"java" in command.split(b"\0")[0]:
                return int(status.parent.name)
    raise AssertionError("no JVM")


def test_a_jvm_that_dies_under_load_ends_the_job_and_a_restart_loses_nothing(
    kafka: KafkaBroker, database: Database, tmp_path
):
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE loaded (id int PRIMARY KEY, v text)",
        f"INSERT INTO loaded SELECT g, repeat('x', 100) FROM generate_series(1, {ROWS}) g",
    )
    said = properties(
        database,
        tmp_path,
        topic__prefix=database.name,
        snapshot__mode="initial",
        tidemark__sink="kafka",
        tidemark__window__local__rows="0",
        tidemark__window__max__chunks="20",
        producer__bootstrap__servers=kafka.bootstrap,
    )
    name = f"{database.name}.public.loaded"
    with Command(said, tmp_path, "first") as job:
        job.until(lambda: kafka.partitions(name) and kafka.count(name))
        os.kill(jvm_of(job.process.pid), signal.SIGKILL)
        code, log = job.ended(60), job.log
    sent = kafka.count(name)
    with Command(said, tmp_path, "second") as job:
        with database.connect() as connection:
            connection.execute("INSERT INTO loaded VALUES (0, 'last')")
        job.until_said("public.loaded completed")
        job.until(lambda: b'{"id":0}' in {record.key() for record in kafka.records(name)})
    keys = {orjson.loads(record.key() or b"")["id"] for record in kafka.records(name)}

    assert code == 1
    assert "Traceback" not in log
    assert "Spark ended; start again; the job continues" in log
    assert 0 < sent < ROWS
    assert keys == set(range(ROWS + 1))


def test_a_jvm_without_memory_ends_the_job_with_its_reason_and_a_restart_goes_on(
    database: Database, tmp_path
):
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE wide (id int PRIMARY KEY, v text)",
        "INSERT INTO wide SELECT g, repeat('x', 1000) FROM generate_series(1, 2000) g",
        "INSERT INTO wide SELECT 0, repeat(md5('a'), 7000000)",
    )
    least = {"tidemark.spark.conf.spark.driver.memory": "512m"}
    said = properties(database, tmp_path, snapshot__mode="initial", tidemark__window__local__rows="0") | least
    with Command(said, tmp_path, "first") as job:
        code, log = job.ended(300), job.log
    with database.connect() as connection:
        connection.execute("DELETE FROM wide WHERE id = 0")
    with Command(said, tmp_path, "second") as job:
        job.until_said("public.wide completed")

    assert code == 1, log
    assert "Traceback" not in log
    assert "tidemark: SourceError: spark: Spark ended for lack of memory; give Spark more memory" in log
    assert replayed_rows(read_events(tmp_path / "events")).keys() == set(range(1, 2001))

"""A job on a Spark cluster whose workers share no disk with the driver.

Takes minutes, so `make test-cluster` runs it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from tests.clustered import completed, on_cluster, replayed_equal, rows_read, snapshot, until_drained
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.demo.tidemark import Folder, Tidemark, write_properties
from tests.servers.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ORDERS, STOCK = 60_000, 6_000
TIMEOUT_S = 480.0


def test_what_executors_lack_is_said_before_the_first_turn(
    database: Database, tmp_path: Path, cluster: SparkCluster
):
    """An archive without the application, as one that somebody has packed by hand."""
    (tmp_path / "empty.txt").touch()
    with tarfile.open(tmp_path / "wrong.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "empty.txt", "empty.txt")
    source.fill(database, orders=10, stock=10)
    folder = Folder(tmp_path)
    write_properties(folder, database, source.Login(database.server.user, database.server.password))
    on_cluster(folder, cluster, tmp_path / "wrong.tar.gz")

    command = [sys.executable, "-c", "from adapters.cli.app import main; main()", "run"]
    ended = subprocess.run(
        [*command, str(folder.properties)], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )

    said = [line for line in ended.stderr.splitlines() if line.startswith("  - executors on ")]
    assert ended.returncode == 2, ended.stderr
    assert any("lacks tidemark; ship the application" in line for line in said), ended.stderr
    assert any("lacks the package pyarrow" in line for line in said)
    assert "reading the log" not in ended.stderr


def test_executors_come_and_go(database: Database, tmp_path: Path, cluster: SparkCluster, application: Path):
    """Dynamic allocation: one while nothing is read, else two; none is released that keeps rows."""
    source.fill(database, orders=ORDERS, stock=STOCK)
    folder = Folder(tmp_path)
    login = source.Login(database.server.user, database.server.password)
    write_properties(folder, database, login)
    dynamic = {
        "enabled": "true",
        "minExecutors": "1",
        "maxExecutors": "2",
        "executorIdleTimeout": "3s",
        "schedulerBacklogTimeout": "1s",
    }
    more = {
        f"tidemark__spark__conf__spark__dynamicAllocation__{name}": value for name, value in dynamic.items()
    }
    more["tidemark__spark__conf__spark__executor__cores"] = "1"
    on_cluster(folder, cluster, application, tidemark__window__local__rows="0", **more)
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())

    seen = []
    with Tidemark(folder) as job, postgres_users(database, orders=ORDERS, stock=STOCK, per_s=20) as writers:
        job.until(lambda: job.state() is not None, TIMEOUT_S)
        for done in (2, 4):
            job.until(lambda: len(cluster.executors()) == 1, TIMEOUT_S)
            snapshot(database)
            deadline = time.monotonic() + TIMEOUT_S
            while completed(job) < done:
                job.check()
                assert time.monotonic() < deadline, job.last_lines()
                seen.append(len(cluster.executors()))
                time.sleep(0.05)
        writers.stop()
        until_drained(job, database, TIMEOUT_S)
        job.stop()

    assert 2 <= max(seen) <= 3  # Spark may start one while another, which it has given up, still ends
    assert replayed_equal(database, folder).operations["r"] > 1.5 * ORDERS
    assert "are lost" not in folder.log.read_text()


def test_executors_that_end_one_after_the_other_end_the_job(
    database: Database, tmp_path: Path, application: Path
):
    """The application does not fit on the executors' disks, so each of them ends while it is started."""
    source.fill(database, orders=10, stock=10)
    folder = Folder(tmp_path)
    write_properties(folder, database, source.Login(database.server.user, database.server.password))
    with SparkCluster(disk="200m") as cluster:
        on_cluster(folder, cluster, application)
        started = time.monotonic()
        ended = subprocess.run(
            [
                sys.executable,
                "-c",
                "from adapters.cli.app import main; main()",
                "run",
                str(folder.properties),
            ],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    # Spark may give the first question up by itself, if four attempts of its task ended with their executors.
    told = {
        1: "executors have ended one after the other",
        2: "no executor could run a task",
    }
    assert told.get(ended.returncode, "-") in ended.stderr, ended.stderr
    assert time.monotonic() - started < TIMEOUT_S / 2


def test_workers_that_stand_still_do_not_hold_a_window_up(
    database: Database, tmp_path: Path, cluster: SparkCluster, application: Path
):
    source.fill(database, orders=ORDERS, stock=STOCK)
    folder = Folder(tmp_path)
    login = source.Login(database.server.user, database.server.password)
    write_properties(folder, database, login)
    more = {"tidemark__spark__stalled__ms": "15000", "tidemark__window__max__chunks": "16"}
    on_cluster(folder, cluster, application, tidemark__window__local__rows="0", **more)
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())

    with Tidemark(folder) as job, postgres_users(database, orders=ORDERS, stock=STOCK, per_s=20) as writers:
        job.until(lambda: job.state() is not None, TIMEOUT_S)
        snapshot(database)
        job.until(lambda: rows_read(job), TIMEOUT_S)
        cluster.freeze_workers()
        job.until(lambda: completed(job) == 2, TIMEOUT_S)
        writers.stop()
        until_drained(job, database, TIMEOUT_S)
        job.stop()

    assert replayed_equal(database, folder).operations["r"] > 0.9 * ORDERS
    assert "it is cancelled" in folder.log.read_text()

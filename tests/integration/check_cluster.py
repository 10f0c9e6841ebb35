"""A job on a Spark cluster whose workers share no disk with the driver.

Takes minutes, so `make test-cluster` runs it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from tests import replay
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.demo.tidemark import PREFIX, Folder, Tidemark, write_properties

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database
    from tests.servers.spark_cluster import SparkCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ORDERS, STOCK = 60_000, 6_000
TIMEOUT_S = 480.0


def on_cluster(folder: Folder, cluster: SparkCluster, application: Path, **more: str) -> None:
    """Have the job of this folder run on the cluster. `__` in a name stands for a dot."""
    lines = {f"tidemark.spark.conf.{name}": value for name, value in cluster.settings.items()}
    lines |= {"tidemark.spark.master": cluster.url, "tidemark.spark.archive": str(application)}
    lines |= {name.replace("__", "."): value for name, value in more.items()}
    text = folder.properties.read_text("utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("tidemark.spark.master")]
    added = [f"{name}={value}" for name, value in lines.items()]
    folder.properties.write_text("\n".join([*kept, *added, ""]), "utf-8")


def drained(database: Database, end: str) -> bool:
    with database.connect() as connection:
        query = b"SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots WHERE slot_name = %s"
        row = connection.execute(query, [end, source.SLOT]).fetchone()
    return row is not None and row[0] is True


def rows_read(job: Tidemark) -> int:
    state = job.state()
    tables = state.snapshot.tables if state else ()
    return sum(table.progress.rows for table in tables if table.progress)


def finished(job: Tidemark) -> bool:
    state = job.state()
    return state is not None and not state.snapshot.tables


def snapshot(database: Database) -> None:
    """Ask for both tables by the signal table."""
    names = ", ".join(f'"{".".join(table)}"' for table in source.TABLES)
    with database.connect() as connection:
        connection.execute(
            f"INSERT INTO {source.SIGNALS} VALUES ('all', 'execute-snapshot', %s)".encode(),
            [f'{{"data-collections": [{names}]}}'],
        )


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


def test_snapshots_with_an_executor_killed_give_the_source(
    database: Database, tmp_path: Path, cluster: SparkCluster, application: Path
):
    source.fill(database, orders=ORDERS, stock=STOCK)
    folder = Folder(tmp_path)
    login = source.Login(database.server.user, database.server.password)
    write_properties(folder, database, login, mode="initial")
    on_cluster(folder, cluster, application, tidemark__window__max__chunks="16")
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())

    with Tidemark(folder) as job, postgres_users(database, orders=ORDERS, stock=STOCK, per_s=50) as writers:
        job.until(lambda: finished(job), TIMEOUT_S)
        snapshot(database)
        job.until(lambda: rows_read(job), TIMEOUT_S)
        cluster.kill_executor()
        job.until(lambda: rows_read(job) and len(cluster.executors()) == 2, TIMEOUT_S)
        job.until(lambda: finished(job), TIMEOUT_S)
        writers.stop()
        end = database.value("SELECT pg_current_wal_insert_lsn()::text FROM pg_current_xact_id()")
        job.until(lambda: drained(database, end), TIMEOUT_S)
        job.stop()

    with database.connect(options="-c timezone=UTC") as connection:
        shapes = {
            f"{PREFIX}.{'.'.join(table)}": replay.shape_of(connection, table) for table in source.TABLES
        }
        figures = replay.replay(connection, folder.events, shapes)
        for table in source.TABLES:
            assert replay.compare(connection, table).equal, replay.differences(connection, table)
    assert figures.operations["r"] > ORDERS

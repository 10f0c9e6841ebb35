"""A job on a Spark cluster whose workers share no disk with the driver: a sample of `make test-cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clustered import completed, on_cluster, replayed_equal, rows_read, snapshot, until_drained
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.demo.tidemark import Folder, Tidemark, write_properties

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database
    from tests.servers.spark_cluster import SparkCluster

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ORDERS, STOCK = 30_000, 2_000
TIMEOUT_S = 300.0


def test_an_initial_and_an_incremental_snapshot_with_an_executor_killed_give_the_source(
    database: Database, tmp_path: Path, cluster: SparkCluster, application: Path
):
    """The files are on a directory that the driver alone sees."""
    source.fill(database, orders=ORDERS, stock=STOCK)
    folder = Folder(tmp_path)
    login = source.Login(database.server.user, database.server.password)
    write_properties(folder, database, login, mode="initial")
    on_cluster(folder, cluster, application, tidemark__window__local__rows="0")
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())

    with Tidemark(folder) as job, postgres_users(database, orders=ORDERS, stock=STOCK, per_s=50) as writers:
        job.until(lambda: completed(job) == 2, TIMEOUT_S)
        snapshot(database)
        job.until(lambda: rows_read(job) or completed(job) > 2, TIMEOUT_S)
        cluster.kill_executor()
        job.until(lambda: completed(job) == 4, TIMEOUT_S)
        writers.stop()
        until_drained(job, database, TIMEOUT_S)
        job.stop()

    figures = replayed_equal(database, folder)
    assert figures.operations["r"] > 1.5 * ORDERS

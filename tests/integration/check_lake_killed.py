"""`tidemark run` with the sink `delta` or `iceberg`, killed again and again: `make lake-killed`; SINK, KILLS.

In the end the tables in the lake are compared with the source's, row by row.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from adapters.lakehouse.settings import LakeFormat
from tests.command import Command
from tests.driven import properties
from tests.integration.check_lake_job import Tables, lake_settings
from tests.integration.killed_tables import TABLES, ask, create, written
from tests.integration.test_jdbc_sink import everything

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
KILLS = int(os.environ.get("KILLS", "5"))
SINK = LakeFormat(os.environ.get("SINK", "delta"))
ROWS = 5_000
PAUSE_S = 0.2
"""Between transactions: a merge takes seconds, and much longer on a busy machine."""


def test_the_tables_are_equal_however_often_the_job_is_killed(
    database: Database, tmp_path: Path, lake_spark: SparkSession
):
    random, journal = Random(KILLS), tmp_path / "state" / "lake"
    given = lake_settings(SINK, tmp_path, incremental__snapshot__chunk__size="500")
    said = {name.replace("__", "."): value for name, value in given.items()}
    said = {**properties(database, tmp_path), **said, "tidemark.lease.ttl.ms": "1000"}
    with database.connect() as connection:
        create(connection, ROWS)
        with written(database, random, PAUSE_S):
            for number in range(KILLS):
                before = merged(journal)
                with Command(said, tmp_path, f"killed {number}") as job:
                    job.until(lambda: merged(journal) > before, timeout_s=240)  # noqa: B023  called at once
                    ask(connection, number)
                    time.sleep(random.uniform(0.5, 8.0))
        connection.execute("SELECT pg_current_xact_id()")
        end = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchone()
        with Command(said, tmp_path, "last") as job:
            slot = "SELECT confirmed_flush_lsn >= %s FROM pg_replication_slots"
            job.until(lambda: connection.execute(slot, end).fetchone() == (True,), timeout_s=240)
            job.until(lambda: not list(journal.glob("turn-*")), timeout_s=240)
    tables = Tables(lake_spark, properties(database, tmp_path, **given))
    for table in TABLES:
        found = sorted(tuple(row) for row in tables.read(f"tm_public_{table}").collect())
        assert found == sorted(everything(database, table, "1")), table
        assert found


def merged(journal: Path) -> int:
    """The turn up to which all tables are merged."""
    path = journal / ".merge" / "merged"
    return int(path.read_text()) if path.exists() else 0

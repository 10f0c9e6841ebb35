"""PYTHON.md's code for a Delta table, in a Spark session with Delta, downloaded by `make delta-table`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
TOPIC = "tm.public.t"
SETTINGS = {
    "value__converter__schemas__enable": "true",
    "snapshot__mode": "initial",
    "skipped__operations": "none",
}


def test_the_delta_table_of_the_documentation_equals_its_source_after_crashes(
    database: Database, tmp_path: Path, spark: SparkSession
):
    def replica() -> dict[str, Any]:
        command = [
            sys.executable,
            "-m",
            "tests.delta_replica",
            str(tmp_path / "events"),
            str(tmp_path / "lake"),
        ]
        # The program finds our packages where this one does.
        place = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run(
            [*command, TOPIC], check=False, capture_output=True, text=True, timeout=900, env=place
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, price numeric(12, 2), day date, note text)")
        insert = (
            "INSERT INTO t SELECT n, n / 4.0, date '2024-01-01' + n, 'note ' || n"
            " FROM generate_series({}, {}) n"
        )
        connection.execute(insert.format(1, 1000))
        with driven(database, tmp_path, spark, **SETTINGS) as job:
            job.until(lambda: not job.job.state.snapshot.tables)
            connection.execute("UPDATE t SET price = -price WHERE id % 3 = 0")
            connection.execute("DELETE FROM t WHERE id % 5 = 0")
            connection.execute("UPDATE t SET id = id + 10000, day = 'infinity' WHERE id < 20")
            job.until_drained(database)
            first, wanted = replica(), table_of(connection)
            assert first["rows"] == wanted
            connection.execute("DELETE FROM t WHERE id < 50")
            connection.execute("TRUNCATE t")
            connection.execute(insert.format(990, 1010))
            connection.execute("UPDATE t SET note = NULL WHERE id = 1000")
            job.until_drained(database)
            second, wanted = replica(), table_of(connection)

    assert second["rows"] == wanted
    assert len(wanted) == 21
    # Each batch was merged once, although each was given to Delta again after a crash.
    assert (first["merges"], second["merges"]) == (first["failures"], first["failures"] + second["failures"])
    assert min(first["failures"], second["failures"]) >= 1


def table_of(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    """The rows as the Delta table shows them."""
    cursor = connection.execute(
        "SELECT id, price::text, CASE WHEN isfinite(day) THEN day::text END,"
        " CASE WHEN NOT isfinite(day) THEN day::text END, note FROM t ORDER BY id"
    )
    return [dict(zip(("id", "price", "day", "day__text", "note"), row, strict=True)) for row in cursor]

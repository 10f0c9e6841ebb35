"""`tidemark run` with the sink `jdbc`, killed again and again under load and snapshots: `make jdbc-killed`.

In the end the target's tables are compared with the source's, row by row. KILLS says how often it is killed.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.command import Command
from tests.driven import properties
from tests.integration.killed_tables import TABLES, ask, create, written
from tests.integration.test_jdbc_sink import everything, settings, target

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database

__all__ = ["target"]
pytestmark = pytest.mark.integration

KILLS = int(os.environ.get("KILLS", "10"))
ROWS = 20_000


def test_the_tables_are_equal_however_often_the_job_is_killed(
    database: Database, target: Database, tmp_path: Path
):
    random = Random(KILLS)
    given = settings(target, snapshot__mode="initial", incremental__snapshot__chunk__size="1000")
    said = {name.replace("__", "."): value for name, value in given.items()}
    said = {**properties(database, tmp_path), **said, "tidemark.lease.ttl.ms": "1000"}
    with database.connect() as connection:
        create(connection, ROWS)
        with written(database, random):
            for number in range(KILLS):
                with Command(said, tmp_path, f"killed {number}") as job:
                    job.until(lambda: turn(target) is not None)
                    before = turn(target) or 0
                    job.until(lambda: (turn(target) or 0) > before)  # noqa: B023  called at once
                    ask(connection, number)
                    time.sleep(random.uniform(0.5, 6.0))
        with Command(said, tmp_path, "last") as job:
            job.until(lambda: equal(database, target), timeout_s=900)
        assert all(everything(target, f"tm_public_{table}", "1") for table in TABLES)


def turn(target: Database) -> int | None:
    """The newest turn in the target."""
    with target.connect() as connection:
        if connection.execute("SELECT to_regclass('tidemark_turns')").fetchone() == (None,):
            return None
        row: Any = connection.execute("SELECT turn FROM tidemark_turns").fetchone()
    return row[0] if row else None


def equal(source: Database, target: Database) -> bool:
    return all(
        everything(source, table, "1") == everything(target, f"tm_public_{table}", "1") for table in TABLES
    )

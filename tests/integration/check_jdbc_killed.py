"""`tidemark run` with the sink `jdbc`, killed again and again under load and snapshots: `make jdbc-killed`.

In the end the target's tables are compared with the source's, row by row. KILLS says how often it is killed.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.command import Command
from tests.driven import properties
from tests.integration.test_jdbc_sink import SIGNAL_TABLE, everything, settings, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.postgres import Database

__all__ = ["target"]
pytestmark = pytest.mark.integration

KILLS = int(os.environ.get("KILLS", "10"))
ROWS = 20_000
KEYS = 30_000
TABLES = ("a", "b", "c")
BIG = "repeat(md5(random()::text), 200)"
STATEMENTS = (
    (
        "INSERT INTO {table} SELECT n, 'new', 0, {big} FROM generate_series({key}, {key} + 20) n"
        " ON CONFLICT (id) DO UPDATE SET note = excluded.note, n = {table}.n + 1"
    ),
    "UPDATE {table} SET n = n + 1 WHERE id BETWEEN {key} AND {key} + 50",
    "UPDATE {table} SET big = {big} WHERE id BETWEEN {key} AND {key} + 3",
    "UPDATE {table} SET id = id + 1000000 WHERE id BETWEEN {key} AND {key} + 5 AND id < 1000000",
    "DELETE FROM {table} WHERE id BETWEEN {key} AND {key} + 10 OR id = {key} + 1000000",
)


@contextmanager
def written(source: Database, random: Random) -> Iterator[None]:
    """Transactions over all tables, until the end."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            with source.connect() as connection:
                while not stop.wait(0.02):
                    with connection.transaction():
                        for _ in range(random.randint(1, 5)):
                            table, key = random.choice(TABLES), random.randrange(KEYS)
                            if random.random() < 0.002:
                                connection.execute(f"TRUNCATE {table}".encode())
                            statement = random.choice(STATEMENTS).format(table=table, key=key, big=BIG)
                            connection.execute(statement.encode())
        except BaseException as error:  # noqa: BLE001  it is raised below
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not failures


def test_the_tables_are_equal_however_often_the_job_is_killed(
    database: Database, target: Database, tmp_path: Path
):
    random = Random(KILLS)
    given = settings(target, snapshot__mode="initial", incremental__snapshot__chunk__size="1000")
    said = {name.replace("__", "."): value for name, value in given.items()}
    said = {**properties(database, tmp_path), **said, "tidemark.lease.ttl.ms": "1000"}
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        for table in TABLES:
            connection.execute(
                f"CREATE TABLE {table} (id int PRIMARY KEY, note text, n int, big text)".encode()
            )
            connection.execute(
                f"INSERT INTO {table} SELECT n, 'first', 0, CASE WHEN n % 20 = 0 THEN {BIG} END"
                f" FROM generate_series(1, {ROWS}) n".encode()
            )
        names = ", ".join(f'"public.{table}"' for table in TABLES)
        with written(database, random):
            for number in range(KILLS):
                with Command(said, tmp_path, f"killed {number}") as job:
                    job.until(lambda: turn(target) is not None)
                    before = turn(target) or 0
                    job.until(lambda: (turn(target) or 0) > before)  # noqa: B023  called at once
                    data = f'{{"data-collections": [{names}]}}'
                    connection.execute(
                        "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", [str(number), data]
                    )
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

"""A real job on the stand-in for SQL Server, turned by hand."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.job import job_of
from adapters.sqlserver.server.position import positions_of
from engine.config import parse
from tests.driven import DrivenThroughFaults, driving, files_sink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.sqlserver import SqlServer, StandInDatabase

SIGNALS = (
    "CREATE TABLE dbo.signals"
    " (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048) NULL)"
)


def properties(server: SqlServer, directory: Path, **more: str) -> dict[str, str]:
    """A connector's properties, with a files sink and a checkpoint; `__` in a name stands for a dot."""
    return {
        **server.properties(),
        "topic.prefix": "tm",
        "snapshot.mode": "schema_only",
        "tombstones.on.delete": "false",
        "include.schema.changes": "false",
        **files_sink(directory),
        **{name.replace("__", "."): value for name, value in more.items()},
    }


class DrivenSqlServer(DrivenThroughFaults):
    """A job on the stand-in."""

    def until_streamed(self, *databases: StandInDatabase) -> None:
        """Turn until everything that was captured by now has been streamed."""
        ends = [database.max_lsn() for database in databases]

        def passed() -> bool:
            position = self.job.state.position
            places = positions_of(position) if position else ()
            return len(places) == len(ends) and all(
                place.commit >= end and place.whole for place, end in zip(places, ends, strict=True)
            )

        self.until(passed)

    def ops(self, table: str) -> list[tuple[str, Any]]:
        """The operations on a table, each with the row after it (the row before of a delete)."""
        values = [event["value"] for event in self.events(table) if event["value"] is not None]
        return [(value["op"], value["after"] or value["before"]) for value in values]


def driven_sqlserver(
    server: SqlServer, directory: Path, spark: SparkSession, **more: str
) -> AbstractContextManager[DrivenSqlServer]:
    """A job that has opened its log and waits to be turned."""
    settings = parse(properties(server, directory, **more))
    build = partial(job_of(lambda _settings: server.reach).building, settings, spark)
    return driving(DrivenSqlServer, directory, build)


class Writer(threading.Thread):
    """Inserts, updates, deletes and moves rows `(id, v)` of a table at random until stopped."""

    def __init__(
        self, database: StandInDatabase, table: str, *, seed: int, keys: int, pause_s: float
    ) -> None:
        super().__init__(daemon=True)
        self._database, self._table = database, table
        self._random, self._keys, self._pause_s = Random(seed), keys, pause_s
        self.ending = threading.Event()
        self.writes = 0

    def run(self) -> None:
        """Write until told to end."""
        while not self.ending.is_set():
            with suppress(Exception), self._database.transaction() as session:
                for _row in range(self._random.randint(1, 3)):
                    session.execute(self._statement())
                self.writes += 1
            time.sleep(self._pause_s)

    def _statement(self) -> str:
        key, value = self._random.randrange(self._keys), self._random.randrange(10**6)
        match self._random.randrange(8):
            case 0:
                return f"DELETE FROM {self._table} WHERE id = {key}"
            case 1:
                return f"INSERT INTO {self._table} (id, v) VALUES ({self._keys + value}, N'new {value}')"
            case 2:
                new = 2 * self._keys + value
                return f"UPDATE {self._table} SET id = {new} WHERE id = {key}"
            case _:
                return f"UPDATE {self._table} SET v = N'set {value}' WHERE id = {key}"


@contextmanager
def writing(
    database: StandInDatabase, table: str, *, seed: int = 1, keys: int, pause_s: float = 0.002
) -> Iterator[Writer]:
    """A writer that is at work for the length of the block."""
    writer = Writer(database, table, seed=seed, keys=keys, pause_s=pause_s)
    writer.start()
    try:
        yield writer
    finally:
        writer.ending.set()
        writer.join()

"""A real job on a real server, turned by hand: every step at the moment that a test chooses."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from psycopg.rows import dict_row

from adapters.postgres.job import building
from adapters.source.assembly.supplied import Onlookers
from engine.config import parse
from engine.errors import PositionLost, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job.loop import Job
    from signals.answers import Answer
    from tests.servers.postgres import Database

SIGNAL_TABLE = "CREATE TABLE signals (id text, type text, data text)"
TIMEOUT_S = 120.0
"""How long a test waits for what must come. The servers and Spark share a busy machine."""
AnyDriven = TypeVar("AnyDriven")


def properties(database: Database, directory: Path, **more: str) -> dict[str, str]:
    """A connector's properties for a database, with a files sink and a checkpoint in `directory`.

    `__` in a name stands for a dot.
    """
    server = database.server
    return {
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": database.name,
        "topic.prefix": "tm",
        "plugin.name": "pgoutput",
        "slot.name": f"slot_{database.name}",
        "snapshot.mode": "never",
        "signal.data.collection": "public.signals",
        **files_sink(directory),
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def files_sink(directory: Path) -> dict[str, str]:
    """The properties of a job with a files sink and a checkpoint in `directory`."""
    return {
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "tidemark.sink": "files",
        "tidemark.sink.files.dir": str(directory / "events"),
        "tidemark.checkpoint": str(directory / "state"),
    }


def read_events(directory: Path) -> list[dict[str, Any]]:
    """What the files sink has committed, in order."""
    return [event for turn in sorted(directory.glob("turn-*")) for event in read_parts(turn)]


def read_parts(turn: Path) -> list[dict[str, Any]]:
    """A turn's events, in order."""
    return [
        orjson.loads(line)
        for part in sorted(turn.glob("part-*.jsonl"))
        for line in part.read_bytes().splitlines()
    ]


def replayed_rows(events: list[dict[str, Any]], *key: str) -> dict[Any, Any]:
    """What a consumer of one table's events has: rows by their key, which is `id` unless named."""
    names = key or ("id",)
    rows: dict[Any, Any] = {}
    for event in events:
        if event["key"] is None:
            rows = {} if event["value"] and event["value"]["op"] == "t" else rows
            continue
        found = tuple(event["key"][name] for name in names)
        at = found[0] if len(found) == 1 else found
        if event["value"] is None or event["value"]["op"] == "d":
            rows.pop(at, None)
        else:
            rows[at] = event["value"]["after"]
    return rows


def rows_of(database: Database, table: str) -> dict[Any, dict[str, Any]]:
    """What `replayed_rows` should give: a table's rows by their `id`."""
    with database.connect() as connection, connection.cursor(row_factory=dict_row) as cursor:
        return {row["id"]: row for row in cursor.execute(f"SELECT * FROM {table}".encode())}


@dataclass
class Driven:
    """A started job and what it has answered."""

    job: Job
    directory: Path
    answers: list[Answer] = field(default_factory=list)

    def until(self, condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> None:
        """Turn until the condition holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {timeout_s} s; state: {self.job.state}"
            self.job.turn()

    def until_answered(self, outcome: str, count: int = 1) -> None:
        """Turn until so many answers have this outcome."""
        self.until(lambda: len(self.answered(outcome)) >= count)

    def answered(self, outcome: str) -> list[Answer]:
        """The answers of this outcome so far."""
        return [answer for answer in self.answers if answer.outcome == outcome]

    def until_drained(self, database: Database) -> None:
        """Turn until everything committed by now has been streamed."""
        with database.connect() as connection:
            # An empty transaction flushes the log, so that the stream gets there.
            row = connection.execute(
                "SELECT pg_current_wal_insert_lsn() - '0/0' FROM pg_current_xact_id()"
            ).fetchone()
        end = int(row[0]) if row else 0
        self.until(
            lambda: self.job.state.position is not None and int(self.job.state.position.order[0]) >= end
        )

    def events(self, table: str | None = None) -> list[dict[str, Any]]:
        """The committed events, of one table's topic if that is named."""
        found = read_events(self.directory / "events")
        return [event for event in found if table is None or event["topic"].endswith(f".{table}")]


class DrivenThroughFaults(Driven):
    """The same, through the faults that a job of its own would live through."""

    def until(self, condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> None:
        """Turn until the condition holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            said = f"not within {timeout_s} s; state: {self.job.state}; answers: {self.answers}"
            assert time.monotonic() < deadline, said
            try:
                self.job.start()
                self.job.turn()
            except PositionLost:
                raise
            except SourceError:
                self.job.close()
                self.job.settle()
                time.sleep(0.1)


def driven(
    database: Database, directory: Path, spark: SparkSession, **more: str
) -> AbstractContextManager[Driven]:
    """A job that has opened its log and waits to be turned."""
    settings = parse(properties(database, directory, **more))
    return driving(Driven, directory, partial(building, settings, spark))


@contextmanager
def driving(
    kind: Callable[[Job, Path, list[Answer]], AnyDriven],
    directory: Path,
    building: Callable[[Onlookers], AbstractContextManager[Job]],
) -> Iterator[AnyDriven]:
    """The same of any source; `building` builds its job."""
    answers: list[Answer] = []
    with started(building(Onlookers(observe=lambda _seen: None, answer=answers.append))) as job:
        yield kind(job, directory, answers)


@contextmanager
def started(built: AbstractContextManager[Job]) -> Iterator[Job]:
    """A job that has opened its log; it is closed at the end of the context."""
    with built as job:
        job.settle()
        job.start()
        try:
            yield job
        finally:
            job.close()

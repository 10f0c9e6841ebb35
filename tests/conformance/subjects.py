"""The sources under test: one small way to write to each, and to read what it says.

A further source joins by a class like these and a name in `SUBJECTS`. Each offers one collection of
rows with an integer key and a text value, and every session sees what was committed before it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import orjson

from adapters.mongodb.job import make_source
from adapters.postgres.drivers import jdbc_properties, jdbc_url, make_server
from adapters.postgres.events.relations import Relations
from adapters.postgres.events.span_encoder import PostgresSpans
from adapters.postgres.log_opening import LogOpening
from adapters.postgres.server.watches.lock_watch import LockWatch
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.chunk_reader import ChunkReader, Jdbc
from adapters.postgres.snapshot.initial import SlotTools
from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot
from adapters.postgres.source import PostgresSource
from adapters.postgres.tools import SourceTools
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.assembly.supplied import Locations
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.spark.executors import LocalExecutors, SparkExecutors
from adapters.staging.file_blocks import FileBlocks
from adapters.system import system_clock
from engine.config import parse
from engine.errors import SourceError
from engine.model import CollectionId, Position, Target
from tests.driven import properties
from tests.memory_source import Change, MemoryDatabase, MemorySource
from tests.staged import files_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pymongo.client_session import ClientSession
    from pyspark.sql import SparkSession

    from adapters.mongodb.source import MongoSource
    from engine.job.saved.state import State
    from engine.ports.log import LogReader
    from engine.ports.source import Source
    from tests.servers.mongodb import MongoServer
    from tests.servers.postgres import Database

T = CollectionId(("public", "t"))
TIMEOUT_S = 60.0
Row = tuple[int, str | None]
"""A key and its value; None: the row is gone."""


def places_in(directory: Path, spark: SparkSession) -> Locations:
    """Places for all that a source keeps."""
    staging = str(directory / "staging")
    return Locations(
        str(directory / "checkpoint"),
        staging,
        files_in(staging),
        FileBlocks(staging),
        SparkExecutors(spark),
        system_clock(),
    )


class Subject(Protocol):
    """A database with a collection `T`, and how the engine reaches it."""

    span_slack: int
    """How many entries a span may hold beyond its bound."""
    keeps_place: bool
    """Whether the database itself keeps where a reader of its log stands."""
    target: Target
    """The collection as a signal asks for it."""
    exact: bool
    """Whether a window's rows are those of one moment, so that what they contain can be told."""

    def commit(self, *changes: Change) -> None:
        """Commit one transaction; what it wrote is in the log when this returns."""

    def source(self, *, span_rows: int = 1000) -> Source:
        """The source, to be opened; the one before is closed."""

    def row(self, event: dict[str, Any]) -> Row | None:
        """What an event says of a row of `T`, read or changed; None for any other event."""

    def end(self) -> Position:
        """Where the log ends now."""

    def acknowledged(self) -> Position:
        """Up to where the database may forget the log."""


@dataclass
class MemorySubject:
    directory: Path
    span_slack = 0
    keeps_place = True
    target = Target(T)
    exact = True

    def __post_init__(self) -> None:
        self.database = MemoryDatabase()

    def commit(self, *changes: Change) -> None:
        self.database.commit(*changes)

    def source(self, *, span_rows: int = 1000) -> Source:
        made: Any = MemorySource(self.database, str(self.directory / "staging"), span_rows=span_rows)
        return cast("Source", made)

    def row(self, event: dict[str, Any]) -> Row | None:
        if event["topic"] != str(T) or event["key"] is None:
            return None
        return orjson.loads(event["key"]), orjson.loads(event["value"])["value"]

    def end(self) -> Position:
        return Position((len(self.database.log),))

    def acknowledged(self) -> Position:
        return Position((self.database.acknowledged,))


class OpenSource(Protocol):
    """A source that its subject has opened."""

    def close(self) -> None:
        """Release everything."""


class SubjectOnServer:
    """Closes one source before it opens the next."""

    _opened: OpenSource | None = None

    def close_source(self) -> None:
        """Close what was opened."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class PostgresSubject(SubjectOnServer):
    """The adapter on an embedded server; chunks are read through Spark."""

    span_slack = 2000
    keeps_place = True
    target = Target(T)
    exact = True

    def __init__(self, database: Database, directory: Path, spark: SparkSession) -> None:
        self._database, self._directory, self._spark = database, directory, spark
        self._writer = database.connect()
        self._writer.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")

    def commit(self, *changes: Change) -> None:
        with self._writer.transaction():
            for change in changes:
                self._write(change)

    def _write(self, change: Change) -> None:
        key, value = change.key, change.value
        if key is None:
            self._writer.execute("TRUNCATE t")
        elif value is None:
            self._writer.execute("DELETE FROM t WHERE id = %s", [key])
        elif change.old is not None:
            self._writer.execute("UPDATE t SET id = %s, v = %s WHERE id = %s", [key, value, change.old])
        else:
            self._writer.execute(
                "INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v", [key, value]
            )

    def source(self, *, span_rows: int = 1000) -> PostgresSource:
        self.close_source()
        bounds = {"tidemark__span__max__rows": str(span_rows), "tidemark__window__max__chunks": "1000"}
        given = properties(self._database, self._directory, tombstones__on__delete="false", **bounds)
        del given["signal.data.collection"]
        settings = parse(given)
        jdbc = Jdbc(
            jdbc_url(settings.source_as(PostgresSettings)),
            jdbc_properties(settings.source_as(PostgresSettings)),
        )
        staging = str(self._directory / "staging")
        encoder = SpanEncoder(LocalExecutors(), FileBlocks(staging), local_rows=1_000_000)
        reader = ChunkReader(self._spark, jdbc, files_in(staging), slots=lambda: 2)
        server, clock = make_server(settings.source_as(PostgresSettings)), system_clock()
        spans = PostgresSpans(settings.events, encoder, clock)
        chosen = snapshotter(settings.snapshot)
        first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
            settings.snapshot, chosen, "a run", clock.sleep
        )
        slot = SlotTools(settings, server, chosen, clock, LockWatch(server.open, clock.monotonic))
        tools = SourceTools(spans, reader, first, slot, clock, self._directory)
        relations = partial(Relations, settings=settings.events)
        self._opened = source = PostgresSource(
            settings, tools, LogOpening(settings, server, tools, relations)
        )
        return source

    def row(self, event: dict[str, Any]) -> Row | None:
        if not event["topic"].endswith(".public.t") or event["key"] is None:
            return None
        after = orjson.loads(event["value"])["after"]
        return orjson.loads(event["key"])["id"], None if after is None else after["v"]

    def end(self) -> Position:
        row = self._writer.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchone()
        return Position((row[0] if row else 0, 0))

    def acknowledged(self) -> Position:
        row = self._writer.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE database = %s",
            [self._database.name],
        ).fetchone()
        return Position((row[0] if row else 0, 0))

    def close(self) -> None:
        self.close_source()
        self._writer.close()


class MongoSubject(SubjectOnServer):
    """The adapter on an embedded replica set; documents are read by Spark's tasks."""

    span_slack = 10
    keeps_place = False
    target = Target(T)
    exact = True

    def __init__(self, server: MongoServer, directory: Path, spark: SparkSession) -> None:
        self._server, self._directory, self._spark = server, directory, spark
        self._client = server.connect()
        database, name = T.parts
        self._collection = self._client[database].create_collection(name)

    def commit(self, *changes: Change) -> None:
        with self._client.start_session() as session, session.start_transaction():
            for change in changes:
                self._write(change, session)

    def _write(self, change: Change, session: ClientSession) -> None:
        key, value = change.key, change.value
        if value is None or change.old is not None:
            gone = key if change.old is None else change.old
            self._collection.delete_one({"_id": gone}, session=session)
        if value is not None:
            self._collection.replace_one({"_id": key}, {"v": value}, upsert=True, session=session)

    def source(self, *, span_rows: int = 1000) -> MongoSource:
        self.close_source()
        settings = parse(
            {
                "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
                "mongodb.connection.string": self._server.uri,
                "topic.prefix": "tm",
                "snapshot.mode": "never",
                "tombstones.on.delete": "false",
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
                "tidemark.sink": "null",
                "tidemark.span.max.rows": str(span_rows),
                "tidemark.window.max.chunks": "1000",
            }
        )
        self._opened = source = make_source(settings, self._spark, places_in(self._directory, self._spark))
        return source

    def row(self, event: dict[str, Any]) -> Row | None:
        if not event["topic"].endswith(".public.t") or event["key"] is None:
            return None
        after = orjson.loads(event["value"])["after"]
        key = int(orjson.loads(event["key"])["id"])
        return key, None if after is None else orjson.loads(after)["v"]

    def end(self) -> Position:
        stamp = self._client.admin.command("ping")["operationTime"]
        return Position((f"82{stamp.time:08X}{stamp.inc:08X}", "", 0))

    def acknowledged(self) -> Position:
        return Position(("~", "", 0))  # the oplog waits for nobody

    def close(self) -> None:
        self.close_source()
        self._client.close()


def open_log(source: Source, state: State) -> tuple[State, LogReader]:
    """Open the log as a job does: again, while the database still holds the session before."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return source.open_log(state)
        except SourceError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S} s"
        time.sleep(0.01)

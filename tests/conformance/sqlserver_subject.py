"""SQL Server's stand-in as a source under test: what was committed is captured at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from adapters.sqlserver.job import make_source
from adapters.sqlserver.server.position import ZERO, LogPosition, position_of
from engine.config import parse
from engine.model import CollectionId, Target
from tests.conformance.subjects import SubjectOnServer, places_in
from tests.driven_sqlserver import SIGNALS, properties

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from adapters.sqlserver.source import SqlServerSource
    from engine.model import Position
    from tests.conformance.subjects import Row
    from tests.memory_source import Change
    from tests.servers.sqlserver import Session, SqlServer

_ENABLED = ("dbo.t", "dbo.signals")


class SqlServerSubject(SubjectOnServer):
    """The adapter on the stand-in; change rows and chunks are read through Spark where they are many."""

    span_slack = 2
    keeps_place = False
    exact = False
    target = Target(CollectionId(("shop", "dbo", "t")))

    def __init__(self, server: SqlServer, directory: Path, spark: SparkSession) -> None:
        self._server, self._directory, self._spark = server, directory, spark
        self._database = server.create_database("shop")
        self._database.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(100) NULL)")
        self._database.execute(SIGNALS)
        for table in _ENABLED:
            self._database.enable_cdc(table)

    def commit(self, *changes: Change) -> None:
        """Commit one transaction, and capture it."""
        with self._database.transaction() as session:
            for change in changes:
                _write(session, change)
        self._database.capture()

    def source(self, *, span_rows: int = 1000) -> SqlServerSource:
        """The source, to be opened; the one before is closed."""
        self.close_source()
        settings = parse(
            properties(
                self._server,
                self._directory,
                signal__data__collection="shop.dbo.signals",
                tidemark__sink="null",
                tidemark__span__max__rows=str(span_rows),
                tidemark__window__max__chunks="1000",
            )
        )
        self._server.start_capture(0.01)
        self._opened = source = make_source(
            settings,
            self._spark,
            places_in(self._directory, self._spark),
            reach=lambda _settings: self._server.reach,
        )
        return source

    def row(self, event: dict[str, Any]) -> Row | None:
        """What an event says of a row."""
        if not event["topic"].endswith(".dbo.t") or event["key"] is None:
            return None
        after = orjson.loads(event["value"])["after"]
        return orjson.loads(event["key"])["id"], None if after is None else after["v"]

    def end(self) -> Position:
        """The greatest LSN captured."""
        return position_of([LogPosition(self._database.max_lsn() or ZERO)])

    def acknowledged(self) -> Position:
        """Change tables wait for nobody."""
        return position_of([LogPosition("~")])

    def close_source(self) -> None:
        """Close what was opened."""
        self._server.stop_capture()
        super().close_source()

    def close(self) -> None:
        """The same; the stand-in is the session's."""
        self.close_source()


def _write(session: Session, change: Change) -> None:
    key, value = change.key, change.value
    if value is None:
        session.execute(f"DELETE FROM dbo.t WHERE id = {key}")
    elif change.old is not None:
        session.execute(f"UPDATE dbo.t SET id = {key}, v = N'{value}' WHERE id = {change.old}")
    elif session.query(f"SELECT id FROM dbo.t WHERE id = {key}"):
        session.execute(f"UPDATE dbo.t SET v = N'{value}' WHERE id = {key}")
    else:
        session.execute(f"INSERT INTO dbo.t VALUES ({key}, N'{value}')")

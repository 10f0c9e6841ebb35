"""Changes definitions and captures of SQL Server tables, one at a time.

A table's younger capture instance takes over while histories are played. The older one is dropped, and a
table loses its capture ("dark"), once everything in them has been streamed: the server reports nothing of
what is lost with them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from tests.servers.sqlserver.catalog_writer import CatalogWriter
from tests.servers.sqlserver.cdc import Capturing
from tests.servers.sqlserver.server import Session
from tests.torture.script import collections
from tests.torture.sqlserver_oracle import CAME, DARK, LIGHT
from tests.torture.sqlserver_truth import number, table_rows
from tests.torture.truth import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.servers.sqlserver import SqlServer
    from tests.torture.sqlserver_oracle import SqlServerOracle
    from tests.torture.sqlserver_truth import Connection, Truth
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

LSN = "SELECT encode(mssql.lsn_of({}), 'hex')"
"""The hexadecimal digits of a number's LSN."""
_SETTINGS = "-c lock_timeout=2000 -c deadlock_timeout=100"


def one(connection: Connection, query: str) -> Any:
    """The single value of a query."""
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


@dataclass(slots=True)
class Captured:
    """A table's capture: its instances, the older first; none while it is dark."""

    shape: TableShape
    instances: list[str] = field(default_factory=list)
    made: int = 0
    darkens: bool = False

    @property
    def name(self) -> str:
        """The name in events."""
        return collections(self.shape)[0]

    @property
    def table(self) -> str:
        """The name in its database."""
        return f"dbo.{self.shape.name}"


@dataclass(slots=True)
class Clerk:
    """Defines the tables of a script. `truths` get what no change table contains."""

    server: SqlServer
    tables: Sequence[TableShape]
    oracle: SqlServerOracle
    truths: Mapping[str, Truth]
    random: Random
    captured: list[Captured] = field(init=False)
    _defining: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.captured = [Captured(shape) for shape in self.tables]

    def enable(self, captured: Captured) -> None:
        """Capture a table from now on."""
        with self._session(captured) as session:
            instance = self._enable(session, captured)
        captured.instances.append(instance)

    def define(self, step: Step) -> None:
        """Change a table or its capture. A dark table is always captured again."""
        verb, place, *rest = step
        captured = self.captured[place]
        with self._defining:
            if not captured.instances:
                self._light(captured)
            elif verb == "dark":
                captured.darkens = True
            elif verb == "sql" or len(captured.instances) == 1:
                self._alter(captured, rest[0], switch=verb == "switch")

    def _alter(self, captured: Captured, text: str, *, switch: bool) -> None:
        with self._session(captured) as session:
            self._lock(session, captured)
            if text:
                session.execute(text.format(table=captured.table))
            instance = self._enable(session, captured) if switch else ""
        captured.instances += [instance] if switch else []
        if "DROP COLUMN" in text:
            self.oracle.drop_column(captured.name, text.rpartition(" ")[2])

    def _light(self, captured: Captured) -> None:
        with self._session(captured) as session:
            self._lock(session, captured)
            instance = self._enable(session, captured)
            start = one(session.connection, LSN.format("mssql.numbered()"))
            rows = table_rows(session.connection, captured.table)
        captured.instances.append(instance)
        place, named = number(start), (captured.name,)
        came = [Entry(place, CAME, named, new=row) for row in rows]
        self.truths[captured.shape.database].keep([Entry(place, LIGHT, named), *came])

    @staticmethod
    def _lock(session: Session, captured: Captured) -> None:
        """Lock the table as the server does for DDL: no writer has uncommitted changes."""
        session.connection.execute(f"LOCK TABLE {captured.table} IN ACCESS EXCLUSIVE MODE".encode())

    def _enable(self, session: Session, captured: Captured) -> str:
        captured.made += 1
        instance = f"{captured.shape.name}_{captured.made}"
        capturing = Capturing(CatalogWriter(session.connection, self.server.collation))
        capturing.enable("dbo", captured.shape.name, instance, None)
        return instance

    def tidy(self) -> None:
        """Drop what is to be dropped, now that everything has been streamed."""
        for captured in self.captured:
            if captured.darkens:
                captured.darkens = False
                self._drop(captured, len(captured.instances))
            elif len(captured.instances) > 1 and self.random.random() < 0.8:
                self._drop(captured, 1)

    def _drop(self, captured: Captured, count: int) -> None:
        with self._session(captured) as session:
            for instance in captured.instances[:count]:
                Capturing(CatalogWriter(session.connection, self.server.collation)).disable(instance)
            lsn = one(session.connection, LSN.format("nextval('mssql.lsn')"))
        del captured.instances[:count]
        if not captured.instances:
            self.truths[captured.shape.database].keep([Entry(number(lsn), DARK, (captured.name,))])

    @contextmanager
    def _session(self, captured: Captured) -> Iterator[Session]:
        database = captured.shape.database
        with self.server.postgres.connect(database, autocommit=False, options=_SETTINGS) as connection:
            yield Session(self.server.databases[database], connection)

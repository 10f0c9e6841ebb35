"""Concurrent writers on the stand-in's databases, including definitions, and the capture job.

A transaction that fails (a duplicate key, a deadlock, a lock timeout) is rolled back. Writers wait for a
server that goes away.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import psycopg

from tests.torture.postgres_writers import run_steps
from tests.torture.sqlserver_tables import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.servers.sqlserver import SqlServer
    from tests.torture.script import Transaction
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

DEFINITIONS = frozenset({"switch", "sql", "dark"})
_SETTINGS = "-c lock_timeout=1500 -c deadlock_timeout=100"
_PATIENCE_S = 60.0


@dataclass(slots=True)
class Sessions:
    """A connection to each database, reopened after a server restart."""

    server: SqlServer
    stop: threading.Event
    _open: dict[str, psycopg.Connection[Any]] = field(default_factory=dict)

    def get(self, database: str) -> psycopg.Connection[Any]:
        """The connection, reopened if it was lost."""
        until = time.monotonic() + _PATIENCE_S
        while database not in self._open or self._open[database].closed:
            try:
                self._open[database] = self.server.postgres.connect(
                    database, options=_SETTINGS, connect_timeout=5
                )
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                self.stop.wait(0.05)
        return self._open[database]

    def close(self) -> None:
        """Close them."""
        for connection in self._open.values():
            connection.close()


@dataclass(slots=True)
class SqlServerWriter:
    """One session's transactions in one round. `define` carries out definitions."""

    server: SqlServer
    tables: Sequence[TableShape]
    transactions: Sequence[Transaction]
    stop: threading.Event
    define: Callable[[Step], None]
    committed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)
    failed: int = 0

    def run(self) -> None:
        """Run them all in sequence."""
        sessions = Sessions(self.server, self.stop)
        try:
            for transaction in self.transactions:
                if self.stop.is_set():
                    break
                try:
                    self._attempt(sessions, transaction)
                except psycopg.Error:
                    self.failed += 1
                self.stop.wait(transaction.pause_s)
        finally:
            sessions.close()

    def _attempt(self, sessions: Sessions, transaction: Transaction) -> None:
        first = transaction.steps[0]
        if first[0] in DEFINITIONS:
            self.define(first)
            return
        connection = sessions.get(self.tables[first[1]].database)
        try:
            self._run(connection, transaction)
        except psycopg.Error:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            raise

    def _run(self, connection: psycopg.Connection[Any], transaction: Transaction) -> None:
        run = connection.execute
        run("BEGIN")
        run_steps(connection, transaction, lambda step: statements(step, self.tables))
        run(transaction.ending.upper().encode())
        self.committed += transaction.ending == "commit"


@dataclass(slots=True)
class Capturer:
    """CDC's capture job with varying delay, and occasional dummy entries as on an idle database."""

    server: SqlServer
    databases: Sequence[str]
    delay_s: float
    random: Random
    stop: threading.Event = field(default_factory=threading.Event)
    held: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name="capture", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self.stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        sessions = Sessions(self.server, self.stop)
        while not self.stop.wait(self.random.uniform(0.0, 2 * self.delay_s)):
            if self.held.is_set():
                continue
            for name in self.databases:
                with contextlib.suppress(psycopg.Error):
                    self._pass(sessions.get(name))
        sessions.close()

    def _pass(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute("SELECT mssql.capture()")
        if self.random.random() < 0.2:
            connection.execute("SELECT mssql.dummy_entry()")

"""Concurrent sessions that write to the database, each with its own transactions; failures are ignored.

A transaction that fails (a duplicate key, a deadlock, a dropped column) is rolled back. Writers wait for a
server that goes away.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from tests.torture.large import is_large
from tests.torture.statements import statements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.servers.postgres import Database
    from tests.torture.script import Transaction
    from tests.torture.statements import Step
    from tests.torture.tables import TableShape

_PATIENCE_S = 60.0
_COUNTED = frozenset({"exchange", "slide", "rekey"})
_SETTINGS = "-c lock_timeout=1500 -c deadlock_timeout=100 -c extra_float_digits=1"


def run_steps(
    connection: psycopg.Connection[Any], transaction: Transaction, sql_of: Callable[[Step], Sequence[str]]
) -> None:
    """Execute the steps of an open transaction; what comes after its savepoint is rolled back."""
    for place, step in enumerate(transaction.steps):
        if place == transaction.savepoint:
            connection.execute("SAVEPOINT here")
        for statement in sql_of(step):
            connection.execute(statement.encode())
    if transaction.savepoint is not None:
        connection.execute("ROLLBACK TO here")


@dataclass(slots=True)
class Session:
    """A connection that is reopened after a server restart."""

    database: Database
    stop: threading.Event
    connection: psycopg.Connection[Any] | None = None

    def get(self) -> psycopg.Connection[Any]:
        """The connection, reopened if it was lost."""
        until = time.monotonic() + _PATIENCE_S
        while self.connection is None or self.connection.closed:
            try:
                self.connection = self.database.connect(options=_SETTINGS, connect_timeout=5)
            except psycopg.OperationalError:
                if time.monotonic() > until:
                    raise
                self.stop.wait(0.05)
        return self.connection

    def close(self) -> None:
        """Close it."""
        if self.connection is not None:
            self.connection.close()


@dataclass(slots=True)
class Writer:
    """One session's transactions in one round."""

    name: str
    database: Database
    tables: Sequence[TableShape]
    transactions: Sequence[Transaction]
    stop: threading.Event
    committed: int = 0
    done: Counter[str] = field(default_factory=Counter)
    altered: set[str] = field(default_factory=set)
    failed: int = 0
    prepared: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Run them all in sequence."""
        session = Session(self.database, self.stop)
        try:
            for number, transaction in enumerate(self.transactions):
                if self.stop.is_set():
                    break
                if transaction.ending == "apart":
                    self._apart(session, transaction)
                else:
                    self._attempt(session, number, transaction)
                self.stop.wait(transaction.pause_s)
            with contextlib.suppress(psycopg.Error):
                self._settle(session.get(), 0)
        finally:
            session.close()

    def _apart(self, session: Session, transaction: Transaction) -> None:
        """Run each step in its own transaction. A failing step does not stop the others."""
        for step in transaction.steps:
            connection = session.get()
            with contextlib.suppress(psycopg.Error), connection.transaction():
                for statement in statements(step, self.tables):
                    connection.execute(statement.encode())
                self.done[step[0]] += 1
            self.stop.wait(transaction.pause_s)

    def _attempt(self, session: Session, number: int, transaction: Transaction) -> None:
        connection = session.get()
        try:
            self._run(connection, number, transaction)
            self._settle(connection, 1)
        except psycopg.Error:
            self.failed += 1
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")

    def _run(self, connection: psycopg.Connection[Any], number: int, transaction: Transaction) -> None:
        run = connection.execute
        run("BEGIN")
        if transaction.asynchronous:
            run("SET LOCAL synchronous_commit = off")
        run_steps(connection, transaction, lambda step: statements(step, self.tables))
        self._end(connection, number, transaction.ending)
        self.done.update(step[0] for step in transaction.steps if step[0] in _COUNTED)
        if is_large(transaction):
            ended = "rolled back" if transaction.ending.endswith("rollback") else "committed"
            self.done[f"large transactions {ended}"] += 1

    def _end(self, connection: psycopg.Connection[Any], number: int, ending: str) -> None:
        if ending.startswith("prepare"):
            name = f"{self.name}-{number}-{ending}"
            connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
            self.prepared.append(name)
        else:
            connection.execute(ending.upper().encode())
            self.committed += ending == "commit"

    def _settle(self, connection: psycopg.Connection[Any], keep: int) -> None:
        """End all prepared transactions but the newest `keep`, according to their names."""
        while len(self.prepared) > keep:
            name = self.prepared.pop(0)
            settle_prepared(connection, name)
            self.done["two-phase commits"] += not name.endswith("rollback")


def settle_prepared(connection: psycopg.Connection[Any], name: str) -> None:
    """End a prepared transaction according to its name."""
    verb = "ROLLBACK" if name.endswith("rollback") else "COMMIT"
    connection.execute(f"{verb} PREPARED '{name}'".encode())


def settle_all_prepared(connection: psycopg.Connection[Any]) -> None:
    """End what interrupted writers have left behind."""
    found = connection.execute("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
    for (name,) in found.fetchall():
        settle_prepared(connection, name)

"""Connections to PostgreSQL, and which server answers there.

Owns the connection string, the settings of a session, how long an answer may take, and the server's identity.
What is asked over a connection is in `questions`, except for replication commands.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.postgres.server.answering import AnsweringConnection
from adapters.postgres.server.failures import source_errors
from adapters.postgres.server.questions.locks import Locks
from adapters.postgres.server.questions.questions import Questions
from adapters.postgres.server.replication import command, connect_replication, refusal
from adapters.postgres.server.text_settings import reader_name, startup_options
from adapters.postgres.server.visibility import parse_lsn
from adapters.source.admission import admission
from engine.config.text.references import may_change, resolve_again
from engine.errors import (
    ConfigError,
    OtherServer,
    SourceError,
    StateError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from psycopg import pq


_log = logging.getLogger("adapters")
_LOCK_TIMEOUT_MS = 250
_ON_ITS_WAY_S = 30.0
_PROBE_S = 5
"""Seconds for asking whether a connection's process is alive."""
_LEAST_SILENCE_S, _MOST_SILENCE_S = 30.0, 300.0
"""The second applies if the server sets no timeout for a reader of its log: it may be busy for long, too."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A server's identity: system, timeline, database, and where its log ends; `lsn` None: not asked."""

    system: str
    timeline: int
    database: str
    lsn: int | None = None

    def to_json(self) -> dict[str, str]:
        """The form in the saved state."""
        return {"system": self.system, "timeline": str(self.timeline), "database": self.database}


class Server:
    """One database on one server; it opens all connections of the adapter.

    `owner` is the holder of the job's lease; it is in the application name of the log's reader. A statement
    may take `query_timeout_s` seconds (0: no bound), and its answer _ON_ITS_WAY_S seconds more.
    """

    def __init__(
        self,
        parameters: Mapping[str, str],
        initial_statements: Sequence[str] = (),
        owner: str = "",
        query_timeout_s: float = 0.0,
    ) -> None:
        self._parameters = dict(parameters)
        self._owner = owner
        self._initial_statements = tuple(initial_statements)
        self._query_timeout_s = query_timeout_s
        self._times_lost = 0
        self.database = parameters.get("dbname", "")
        self._login = tuple(str(parameters.get(name)) for name in ("host", "port", "dbname"))
        make_conninfo("", **self._parameters)  # refuses parameters that libpq does not know

    @property
    def conninfo(self) -> str:
        """The connection string, with the current credentials. Raises SourceError without them."""
        return self._conninfo("tidemark")

    @property
    def log_conninfo(self) -> str:
        """The connection string for replication connections."""
        return self._conninfo(reader_name(self._owner))

    def _conninfo(self, application: str) -> str:
        parameters = {name: resolve_again(value) for name, value in self._parameters.items()}
        return make_conninfo("", **{**parameters, "application_name": application})

    def admission(self) -> AbstractContextManager[None]:
        """Open connections inside; see `admission`."""
        return admission(self._login, renewable=any(map(may_change, self._parameters.values())))

    @contextmanager
    def replication(self) -> Iterator[pq.abc.PGconn]:
        """A connection for replication commands, closed at the end."""
        with self.admission():
            connection = connect_replication(self.log_conninfo)
        try:
            yield connection.pgconn
        finally:
            connection.close()

    def give_up(self) -> None:
        """Fail all connections that wait for the server now. Later connections may work again."""
        self._times_lost += 1

    @staticmethod
    def silence_s(patience_s: float) -> float:
        """How long the server may leave a question unanswered: as long as it tolerates a silent reader."""
        return max(_LEAST_SILENCE_S, patience_s) if patience_s else _MOST_SILENCE_S

    def open(self, *, within_s: float | None = None) -> Questions:
        """Open a connection to ask over; `within_s` bounds its answers, if given. Raises SourceError."""
        return Questions(self.connect(within_s=within_s))

    def connect(
        self, *, autocommit: bool = True, options: str = "", within_s: float | None = None
    ) -> psycopg.Connection:
        """Open a connection with the settings that define values' texts, and with further start-up options.

        `within_s` bounds its answers, if given.
        """
        with source_errors("connection"):
            with self.admission():
                connection = self._open(options)
            if within_s is not None:
                connection.within_s = within_s
            self._set_up(connection)
            connection.autocommit = autocommit
        return connection

    def _set_up(self, connection: psycopg.Connection) -> None:
        """Run the user's statements, which make the session. They ask nothing: their answers are dropped."""
        for statement in self._initial_statements:
            connection.execute(statement.encode())

    def _open(self, more: str) -> AnsweringConnection:
        try:
            # Waiting for a lock here would hold up the stream.
            options = (
                f"{startup_options()} -c lock_timeout={_LOCK_TIMEOUT_MS}"
                f" -c statement_timeout={int(self._query_timeout_s * 1000)} {more}"
            )
            connection = AnsweringConnection.connect(self.conninfo, options=options, autocommit=True)
        except psycopg.OperationalError as error:
            if refused := refusal(str(error)):
                raise refused from error
            raise
        if self._query_timeout_s:
            # Leaves the server time to report its own timeout first.
            connection.within_s = self._query_timeout_s + _ON_ITS_WAY_S
        times_lost = self._times_lost
        connection.lost = lambda: self._times_lost != times_lost
        connection.ask_s, connection.served = self.ask_s, self.serves
        return connection

    @property
    def ask_s(self) -> float:
        """After how many silent seconds to ask whether a connection's process is alive."""
        return _LEAST_SILENCE_S

    def serves(self, backend: int) -> bool:
        """Whether a connection's process exists, as far as another connection can tell."""
        try:
            with AnsweringConnection.connect(
                self.conninfo, autocommit=True, connect_timeout=_PROBE_S
            ) as connection:
                connection.within_s = _PROBE_S
                return Locks(connection).serves(backend)
        except psycopg.errors.ConnectionTimeout:
            return False
        except (psycopg.Error, SourceError):
            return True  # the server answers, though the answer does not help

    def identity(self, *, replicates: bool = True) -> Identity:
        """What distinguishes this database from every other one, and where its log ends.

        Asked over a replication connection, because SQL shows the timeline of the last checkpoint, and a
        promoted server has not made one yet. Without `replicates` neither the log nor the right to read it is
        needed.
        """
        if not replicates:
            with self.open() as questions:
                return Identity(*questions.transactions.identity(), self.database)
        with self.replication() as connection:
            ((system, timeline, lsn, _database),) = command(connection, "IDENTIFY_SYSTEM")
        return Identity(system or "", int(timeline or 0), self.database, parse_lsn(lsn or "0/0"))

    def history(self, timeline: int) -> str:
        """The history file of a timeline, which names its ancestors; the first timeline has none."""
        if timeline <= 1:
            return ""
        with self.replication() as connection:
            ((_name, content),) = command(connection, f"TIMELINE_HISTORY {timeline}")
        return content or ""

    def refuse_standby(self) -> None:
        """Refuse a standby. It shows transactions in progress as visible, so no snapshot of it is exact."""
        with self.open() as questions:
            if questions.transactions.in_recovery():
                raise ConfigError("the server is a standby", hint="connect to the primary")


def check_identity(saved: Mapping[str, str], found: Identity) -> None:
    """Raise StateError if a state was saved for another database; OtherServer if only the server differs."""
    now = found.to_json()
    other = [
        f"{name} {saved[name]!r}, now {now[name]!r}"
        for name in ("system", "database")
        if saved and saved[name] != now[name]
    ]
    if other:
        kind = OtherServer if saved["database"] == now["database"] else StateError
        raise kind(
            f"the saved state belongs to another database: {', '.join(other)}",
            hint="use the right server, or an empty checkpoint",
        )

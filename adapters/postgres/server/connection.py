"""Ordinary connections to PostgreSQL, and what the server must have before the log can be read.

Owns the connection string, the server's identity, and the replication slot: it is found, created if the
settings ask for it, or reported. `reader.py` reads the log, `catalog.py` the catalog.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString

import psycopg
from psycopg.conninfo import make_conninfo

from adapters.postgres.server.answering import AnsweringConnection
from adapters.postgres.server.failures import said
from adapters.postgres.server.replication import command, connect_replication, refusal
from adapters.postgres.server.text_settings import startup_options
from adapters.postgres.server.visibility import format_lsn, parse_lsn
from engine.config.references import fresh, may_change, refuse
from engine.errors import (
    ConfigError,
    LoginRefused,
    PositionLost,
    SchemaChanged,
    SourceError,
    StateError,
    TableBusy,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from psycopg import pq

    from engine.clock import Clock
    from engine.model import CollectionId, Position

_log = logging.getLogger("adapters")
_LOCK_NOT_AVAILABLE = "55P03"
_NOT_THE_TABLES_FAULT = frozenset({"08", "53", "57", "58", "XX"})
"""SQLSTATE classes: connection, resources, operator intervention, system, internal."""
_LOCK_TIMEOUT_MS = 250
_ENDED_WITHIN_S = 5.0
_ON_ITS_WAY_S = 30.0
_PROBE_S = 5
"""Seconds for asking whether a connection's process is alive."""
_SERVED: LiteralString = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = %s)"
_LEAST_SILENCE_S, _MOST_SILENCE_S = 30.0, 300.0
"""The second applies if the server sets no timeout for a reader of its log: it may be busy for long, too."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot, by the LSN where its changes begin."""

    confirmed_lsn: int


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

    _admitted: ClassVar[set[tuple[str, ...]]] = set()
    """The databases that have accepted a login of this process."""

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
        self._place = tuple(str(parameters.get(name)) for name in ("host", "port", "dbname"))
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
        parameters = {name: fresh(value) for name, value in self._parameters.items()}
        return make_conninfo("", **{**parameters, "application_name": application})

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Open connections inside: an expired credential is renewed, not reported as a wrong setting.

        While credentials change, both the old and the new one may be refused for a while; such a refusal is
        retried. A credential that has never worked is a wrong setting.
        """
        try:
            yield
        except ConfigError as error:
            if self._place not in self._admitted or not any(map(may_change, self._parameters.values())):
                raise
            refuse()
            raise LoginRefused(str(error), place="postgresql") from error
        self._admitted.add(self._place)

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

    def silence_s(self, connection: psycopg.Connection) -> float:
        """How long the server may leave a question unanswered: as long as it tolerates a silent reader."""
        with source_errors("asking for wal_sender_timeout"):
            row = connection.execute(
                "SELECT setting::float8 / 1000 FROM pg_settings WHERE name = 'wal_sender_timeout'"
            ).fetchone()
        patience_s = float(row[0]) if row else 0.0
        return max(_LEAST_SILENCE_S, patience_s) if patience_s else _MOST_SILENCE_S

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
            for statement in self._initial_statements:
                connection.execute(statement.encode())
            connection.autocommit = autocommit
        return connection

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
        connection.ask_s, connection.served = _LEAST_SILENCE_S, self._serves
        return connection

    def _serves(self, backend: int) -> bool:
        """Whether a connection's process exists, as far as another connection can tell."""
        try:
            with AnsweringConnection.connect(
                self.conninfo, autocommit=True, connect_timeout=_PROBE_S
            ) as connection:
                connection.within_s = _PROBE_S
                row = connection.execute(_SERVED, [backend]).fetchone()
        except psycopg.errors.ConnectionTimeout:
            return False
        except (psycopg.Error, SourceError):
            return True  # the server answers, though the answer does not help
        return row is not None and bool(row[0])

    def identity(self, *, replicates: bool = True) -> Identity:
        """What distinguishes this database from every other one, and where its log ends.

        Asked over a replication connection, because SQL shows the timeline of the last checkpoint, and a
        promoted server has not made one yet. Without `replicates` neither the log nor the right to read it is
        needed.
        """
        if not replicates:
            return self._identity_by_sql()
        with self.replication() as connection:
            ((system, timeline, lsn, _database),) = command(connection, "IDENTIFY_SYSTEM")
        return Identity(system or "", int(timeline or 0), self.database, parse_lsn(lsn or "0/0"))

    def _identity_by_sql(self) -> Identity:
        with self.connect() as connection, source_errors("identity"):
            row = connection.execute(
                "SELECT system_identifier::text, timeline_id"
                " FROM pg_control_system(), pg_control_checkpoint()"
            ).fetchone()
        if row is None:
            raise SourceError("the server does not tell its identity")
        return Identity(row[0], int(row[1]), self.database)

    def history(self, timeline: int) -> str:
        """The history file of a timeline, which names its ancestors; the first timeline has none."""
        if timeline <= 1:
            return ""
        with self.replication() as connection:
            ((_name, content),) = command(connection, f"TIMELINE_HISTORY {timeline}")
        return content or ""

    def refuse_standby(self) -> None:
        """Refuse a standby. It shows transactions in progress as visible, so no snapshot of it is exact."""
        with self.connect() as connection, source_errors("recovery check"):
            row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
        if row and row[0]:
            raise ConfigError("the server is a standby", hint="connect to the primary")


@contextmanager
def source_errors(what: str) -> Iterator[None]:
    """Turn a driver's exception into SourceError."""
    try:
        yield
    except psycopg.Error as error:
        raise SourceError(f"{what} failed: {said(error)}", place="postgresql") from error


@contextmanager
def table_errors(what: str, collection: CollectionId) -> Iterator[None]:
    """Turn a driver's exception into TableBusy or SchemaChanged for one table, or else into SourceError."""
    try:
        yield
    except psycopg.Error as error:
        message = f"{what} failed: {said(error)}"
        state = error.sqlstate or ""
        if state == _LOCK_NOT_AVAILABLE:
            raise TableBusy(message, place=collection, hint="another session holds it locked") from error
        if not state or state[:2] in _NOT_THE_TABLES_FAULT:
            raise SourceError(message, place="postgresql") from error
        raise SchemaChanged(message, place=collection) from error


def reader_name(owner: str) -> str:
    """The application name of the log's reader, for this owner of a lease."""
    return f"tidemark {owner[:12]}".strip()


_SLOT: LiteralString = (
    "SELECT plugin, database, active_pid, wal_status, confirmed_flush_lsn::text,"
    " to_jsonb(s) ->> 'invalidation_reason',"
    " (SELECT application_name FROM pg_stat_activity WHERE pid = active_pid)"
    " FROM pg_replication_slots s WHERE slot_name = %s"
)


def _once_free(connection: psycopg.Connection, slot: str, clock: Clock) -> tuple[Any, ...] | None:
    """The slot's row as soon as nobody reads the slot, or as it is after some seconds."""
    until = clock.monotonic() + _ENDED_WITHIN_S
    while True:
        row = connection.execute(_SLOT, [slot]).fetchone()
        if row is None or row[2] is None or clock.monotonic() >= until or clock.sleep(0.05):
            return row


def find_slot(server: Server, name: str, clock: Clock, previous: str = "") -> Slot | None:
    """Find the slot; None if there is none.

    If the reader of `previous`, whose lease was taken over, is still connected, it is ended, since it may
    hang for good. Raises ConfigError if a slot of that name can't serve, PositionLost if the server
    invalidated it.
    """
    with server.connect() as connection, source_errors("replication slot"):
        row = connection.execute(_SLOT, [name]).fetchone()
        if row is not None and previous and row[-1] == reader_name(previous):
            _log.warning("ending process %d, which reads slot %s for a job that lost its lease", row[2], name)
            connection.execute("SELECT pg_terminate_backend(%s)", [row[2]])
            row = _once_free(connection, name, clock)
    if row is None:
        return None
    plugin, of, reader, wal_status, confirmed, reason, application = row
    if plugin != "pgoutput" or of != server.database:
        raise ConfigError(
            f"slot {name!r} belongs to plugin {plugin!r} and database {of!r}", hint="set another slot.name"
        )
    if wal_status == "lost":
        raise PositionLost(
            f"the server no longer keeps the log of slot {name!r}" + (f" ({reason})" if reason else ""),
            hint="drop the slot, start with an empty checkpoint and an empty sink directory,"
            " and take snapshots again",
        )
    if reader is not None:
        raise SourceError(
            f"slot {name!r} is in use by process {reader} ({application or 'unknown'})",
            hint="stop the other reader",
        )
    return Slot(parse_lsn(confirmed))


def drop_slot(server: Server, name: str) -> None:
    """Drop the slot if it exists and is not being read; the log that it kept is gone."""
    statement = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
    with server.connect() as connection, source_errors("dropping the replication slot"):
        if connection.execute(statement, [name]).rowcount:
            _log.info("dropped replication slot %s", name)


def check_slot(slot: Slot | None, name: str, saved: Position) -> Slot:
    """Refuse a slot that was moved past the saved position: PostgreSQL would silently skip changes."""
    lsn = int(saved.order[0])
    if slot is None or slot.confirmed_lsn > lsn:
        begins = (
            f"begins at {format_lsn(slot.confirmed_lsn)}, past" if slot else "does not exist; it must hold"
        )
        again = "changes after it are lost: start with an empty checkpoint and an empty sink directory,"
        again += " and take snapshots again"
        other = "set slot.name to the slot that this checkpoint was saved with; if that one was dropped, "
        raise PositionLost(
            f"slot {name!r} {begins} the saved position {format_lsn(lsn)}",
            hint=again if slot else other + again,
        )
    return slot


def check_identity(saved: Mapping[str, str], found: Identity) -> None:
    """Refuse a state that was saved for another server or database."""
    now = found.to_json()
    other = [
        f"{name} {saved[name]!r}, now {now[name]!r}"
        for name in ("system", "database")
        if saved and saved[name] != now[name]
    ]
    if other:
        raise StateError(
            f"the saved state belongs to another database: {', '.join(other)}",
            hint="use the right server, or an empty checkpoint",
        )

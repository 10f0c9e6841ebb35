"""The snapshot that an initial snapshot reads: held until all is read, shared by all readers.

A replication slot is created together with a snapshot that shows exactly what the log will not contain: every
transaction up to the slot's first position. The session that creates the slot can hold it only for a moment,
so a transaction that locks the tables adopts it and exports it again. Callers decide which tables to read and
when to release it.
"""

from __future__ import annotations

import logging
import select
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import pq

from adapters.postgres.log.slots.slot import drop_slot, refuse_without_failover
from adapters.postgres.server.answering import no_answer
from adapters.postgres.server.failures import source_errors
from adapters.postgres.server.position import position_at
from adapters.postgres.server.session_pool import Sessions
from adapters.postgres.server.sql import quote_ident
from adapters.postgres.server.visibility import format_lsn, parse_lsn
from adapters.postgres.snapshot.watermark import ExportedSnapshot, HoldSettings
from engine.errors import ConfigError, SchemaChanged, SourceError, TableBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adapters.postgres.server.connection import Server
    from adapters.postgres.server.visibility import Visibility
    from adapters.postgres.server.watches.lock_watch import LockWatch
    from engine.clock import Clock
    from engine.model import CollectionId, Position

_log = logging.getLogger("adapters")
_TOLD_AFTER_S, _LOOK_S = 5.0, 0.05
_REFUSED = {"42501", "53400"}
"""SQLSTATEs: insufficient privilege, no free slot."""


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A snapshot of `tables`, held for the readers, taken at `ts_ms`; `lsn` is where the log begins."""

    snapshot: ExportedSnapshot
    tables: tuple[CollectionId, ...]
    lsn: int
    ts_ms: int

    def is_alive(self) -> bool:
        """Ask whether the session that holds it is still alive."""
        return self.snapshot.is_alive()

    @property
    def position(self) -> Position:
        """Where the log begins."""
        return position_at(self.lsn)

    @property
    def begins_at(self) -> int:
        """The same, as the state has it."""
        return self.lsn

    @property
    def collections(self) -> tuple[CollectionId, ...]:
        """The tables."""
        return self.tables

    def close(self) -> None:
        """Release the snapshot and its locks."""
        self.snapshot.close()

    def __str__(self) -> str:
        return format_lsn(self.lsn)


def hold(server: Server, tables: Sequence[CollectionId], lock_timeout_ms: int, clock: Clock) -> HeldSnapshot:
    """Take a snapshot that belongs to no log."""
    held = _export_snapshot(server, tables, HoldSettings(lock_timeout_ms), clock)
    return HeldSnapshot(held, tuple(tables), held.exported.horizon, clock.now_ms)


@dataclass(frozen=True, slots=True)
class LogStart:
    """How to begin a log: the slot's name, how long to wait for a table's lock.

    `watch` makes the snapshot give way to sessions that wait for the tables while it is held. With `failover`
    standbys may synchronise the slot. `confirm` raises LeaseLost if another job holds the lease by now, and
    may have taken over the slot.
    """

    slot: str
    lock_timeout_ms: int
    clock: Clock
    watch: LockWatch | None = None
    failover: bool = False
    confirm: Callable[[], None] = lambda: None


def begin_log(
    server: Server, beginning: LogStart, tables: Callable[[], Sequence[CollectionId]]
) -> HeldSnapshot:
    """Create a slot and hold its snapshot; if the snapshot can't be held, the slot is dropped.

    `tables` is called once the slot exists: a table created later has no rows in the snapshot. Raises
    ConfigError if the role may not create a slot, SourceError if a lock is not granted.
    """
    slot = beginning.slot
    with _new_slot(server, beginning) as (lsn, name):
        try:
            listed = tuple(tables())
            holding = HoldSettings(beginning.lock_timeout_ms, adopt=name)
            held = _export_snapshot(server, listed, holding, beginning.clock, beginning.watch)
        except Exception:
            beginning.confirm()
            drop_slot(server, slot)
            raise
    _log.info("created replication slot %s at %s, its snapshot held", slot, format_lsn(lsn))
    return HeldSnapshot(held, listed, lsn, beginning.clock.now_ms)


def _export_snapshot(
    server: Server,
    tables: Sequence[CollectionId],
    holding: HoldSettings,
    clock: Clock,
    watch: LockWatch | None = None,
) -> ExportedSnapshot:
    try:
        held = ExportedSnapshot(Sessions(server.open, clock.monotonic, kept=0), tables, holding, watch)
    except TableBusy as error:
        hint = "another session holds it locked; snapshot.lock.timeout.ms says how long to wait"
        raise error.recast(SourceError, hint) from error
    except SchemaChanged as error:
        raise error.recast(SourceError) from error
    try:
        _refuse_rewritten(held)
    except SourceError:
        held.close()
        raise
    return held


def _refuse_rewritten(held: ExportedSnapshot) -> None:
    """Refuse a table rewritten or truncated between snapshot and lock: the snapshot shows it empty."""
    rewritten = held.session.snapshots.rewritten()
    if rewritten:
        raise SourceError(
            f"rewritten while the snapshot began: {', '.join(rewritten)}", hint="it is begun again"
        )


def create_slot(server: Server, beginning: LogStart) -> int:
    """Create a slot without holding its snapshot, and return its first position.

    Returns once every new snapshot shows what precedes that position. The log will not bring it, and a window
    that did not show it would miss it. A committed transaction may be invisible while it waits for a standby.

    The server first waits for the transactions that are writing now, however long they take. SQL's function
    for this is not used because lock and statement timeouts apply to it. Raises ConfigError if the role may
    not create a slot, SourceError if the job is to stop meanwhile.
    """
    with _new_slot(server, beginning) as (lsn, name), server.open() as questions:
        _log.info("created replication slot %s at %s", beginning.slot, format_lsn(lsn))
        questions.snapshots.begin()
        questions.snapshots.adopt(name)
        before, _now_s = questions.transactions.visible()
    _await_shown(server, before, beginning)
    return lsn


def _await_shown(server: Server, before: Visibility, beginning: LogStart) -> None:
    """Wait until new snapshots show all that a slot's own snapshot shows."""
    clock = beginning.clock
    tell_at = clock.monotonic() + _TOLD_AFTER_S
    with server.open() as questions:
        while not questions.transactions.visible()[0].shows_all(before):
            if clock.sleep(_LOOK_S):
                raise SourceError("stopped while the replication slot was made")
            if clock.monotonic() >= tell_at:
                tell_at = float("inf")
                _log.warning("the slot waits for committed transactions to become visible")


@contextmanager
def _new_slot(server: Server, beginning: LogStart) -> Iterator[tuple[int, str]]:
    """Create a slot; yields its first position and its snapshot's name, which is valid inside the block."""
    with server.replication() as connection:
        name = quote_ident(beginning.slot)
        if not beginning.failover:
            command = f"CREATE_REPLICATION_SLOT {name} LOGICAL pgoutput EXPORT_SNAPSHOT"
        else:
            refuse_without_failover(connection.server_version)
            command = f"CREATE_REPLICATION_SLOT {name} LOGICAL pgoutput (SNAPSHOT 'export', FAILOVER)"
        connection.send_query(command.encode())
        result = _answer(server, connection, beginning)
        _, lsn, exported, *_ = (result.get_value(0, column) for column in range(result.nfields))
        yield parse_lsn((lsn or b"").decode()), (exported or b"").decode()


def _answer(server: Server, connection: pq.abc.PGconn, beginning: LogStart) -> pq.abc.PGresult:
    """The command's result, which comes once all transactions that are writing now have ended."""
    clock = beginning.clock
    begun = clock.monotonic()
    tell_at, ask_at = begun + _TOLD_AFTER_S, begun + server.ask_s
    while connection.is_busy():
        select.select([connection.socket], [], [], 1.0)
        with source_errors("creating the replication slot"):
            connection.consume_input()
        if clock.sleep(0.0):
            with suppress(SourceError), source_errors("cancelling the creation of the replication slot"):
                connection.get_cancel().cancel()
            raise SourceError("stopped while the replication slot was made")
        if clock.monotonic() >= tell_at:
            tell_at = float("inf")
            _log.warning("the slot waits for transactions to end: %s", _waited_for(server))
        if clock.monotonic() >= ask_at:
            _refuse_lost(server, connection, clock.monotonic() - begun)
            ask_at = clock.monotonic() + server.ask_s
    result = connection.get_result()
    if result is None or result.status != pq.ExecStatus.TUPLES_OK:
        raise _refusal(result, connection)
    return result


def _refuse_lost(server: Server, connection: pq.abc.PGconn, silent_s: float) -> None:
    """Raise SourceError if nobody will answer: the wait has no bound, and a lost connection looks like it."""
    if not server.serves(connection.backend_pid):
        raise SourceError(no_answer(silent_s), where="replication connection")


def _waited_for(server: Server) -> str:
    with server.open() as questions:
        return questions.locks.writing() or "none that can be seen"


def _refusal(result: pq.abc.PGresult | None, connection: pq.abc.PGconn) -> Exception:
    said = (result.error_message if result else connection.error_message).decode(errors="replace").strip()
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) if result else b"") or b""
    if state.decode() in _REFUSED:
        hint = "run as a superuser: ALTER ROLE … REPLICATION, or raise max_replication_slots"
        return ConfigError(f"the replication slot can't be created: {said}", hint=hint)
    return SourceError(f"the replication slot can't be created: {said}", where="postgresql")

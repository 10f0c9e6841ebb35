"""The replication slot: found, judged, freed from a reader that lost its lease, dropped."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.postgres.server.position import lsn_of
from adapters.postgres.server.replication import command
from adapters.postgres.server.sql import quote_ident
from adapters.postgres.server.text_settings import reader_name
from adapters.postgres.server.visibility import format_lsn
from engine.errors import ConfigError, Loss, PositionLost, SourceError

if TYPE_CHECKING:
    from adapters.postgres.log.forks import Fork
    from adapters.postgres.server.connection import Server
    from adapters.postgres.server.questions.slots import FoundSlot, Slots
    from engine.clock import Clock
    from engine.model import Position

_log = logging.getLogger("adapters")
_ENDED_WITHIN_S = 5.0
_LOOK_S = 0.05
_FAILOVER_SINCE = 170_000


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot, by the LSN where its changes begin."""

    confirmed_lsn: int


def find_slot(server: Server, name: str, clock: Clock, previous: str = "") -> Slot | None:
    """Find the slot; None if there is none.

    If the reader of `previous`, whose lease was taken over, is still connected, it is ended, since it may
    hang for good. Raises ConfigError if a slot of that name can't serve, PositionLost if the server
    invalidated it.
    """
    with server.open() as questions:
        found = questions.slots.find(name)
        if found is not None and previous and found.application == reader_name(previous) and found.reader:
            _log.warning(
                "ending process %d, which reads slot %s for a job that lost its lease", found.reader, name
            )
            questions.slots.end_reader(found.reader)
            found = _once_free(questions.slots, name, clock)
    return None if found is None else _judged(found, name, server.database)


def _once_free(slots: Slots, name: str, clock: Clock) -> FoundSlot | None:
    """The slot as soon as nobody reads it, or as it is after some seconds."""
    until_s = clock.monotonic() + _ENDED_WITHIN_S
    while True:
        found = slots.find(name)
        if found is None or found.reader is None or clock.monotonic() >= until_s or clock.sleep(_LOOK_S):
            return found


def _judged(found: FoundSlot, name: str, database: str) -> Slot:
    """The slot, if this job can read it."""
    if found.plugin != "pgoutput" or found.database != database:
        raise ConfigError(
            f"slot {name!r} belongs to plugin {found.plugin!r} and database {found.database!r}",
            hint="set another slot.name",
        )
    if found.two_phase:
        raise ConfigError(
            f"slot {name!r} was made for two-phase commit: it sends prepared transactions before they commit",
            hint="set another slot.name, or drop the slot and let the job make it",
        )
    if found.wal_status == "lost":
        raise PositionLost(
            f"the server no longer keeps the log of slot {name!r}"
            + (f" ({found.reason})" if found.reason else ""),
            hint="drop the slot, start with an empty checkpoint and an empty sink directory,"
            " and take snapshots again",
            loss=Loss.SLOT_INVALIDATED,
        )
    if found.reader is not None:
        raise SourceError(
            f"slot {name!r} is in use by process {found.reader} ({found.application or 'unknown'})",
            hint="stop the other reader",
        )
    return Slot(found.confirmed_lsn)


def refuse_without_failover(version: int) -> None:
    """Raise ConfigError if a server of this version (180000 is 18.0) can't synchronise slots."""
    if version < _FAILOVER_SINCE:
        raise ConfigError(
            "'slot.failover' needs PostgreSQL 17 or later", hint="leave it out; standbys get no slot then"
        )


def allow_failover(server: Server, name: str) -> None:
    """Have standbys synchronise a slot that exists, if they don't yet. Raises ConfigError and SourceError."""
    with server.open() as questions:
        if questions.slots.fails_over(name):
            return
    with server.replication() as connection:
        refuse_without_failover(connection.server_version)
        command(connection, f"ALTER_REPLICATION_SLOT {quote_ident(name)} (FAILOVER)", rows=False)
    _log.info("standbys may synchronise slot %s from now on", name)


def drop_slot(server: Server, name: str) -> None:
    """Drop the slot if it exists and is not being read; the log that it kept is gone."""
    with server.open() as questions:
        if questions.slots.drop(name):
            _log.info("dropped replication slot %s", name)


def check_slot(slot: Slot | None, name: str, saved: Position, left: Fork | None = None) -> Slot:
    """Refuse a slot that was moved past the saved position: PostgreSQL would silently skip changes.

    `left` is where the server has left the timeline that was streamed, if it has.
    """
    lsn = lsn_of(saved)
    if slot is None or slot.confirmed_lsn > lsn:
        begins = (
            f"begins at {format_lsn(slot.confirmed_lsn)}, past" if slot else "does not exist; it must hold"
        )
        again = "changes after it are lost: start with an empty checkpoint and an empty sink directory,"
        again += " and take snapshots again"
        if left is not None and slot is None:
            begins = (
                f"does not exist on this server, which was {left} at {format_lsn(left.lsn)}; it must hold"
            )
        other = "set slot.name to the slot that this checkpoint was saved with; if that one was dropped, "
        raise PositionLost(
            f"slot {name!r} {begins} the saved position {format_lsn(lsn)}",
            hint=again if slot else other + again,
            loss=Loss.SLOT_ADVANCED if slot else Loss.SLOT_MISSING if left is None else left.loss,
        )
    return slot

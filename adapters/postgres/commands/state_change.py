"""Changes a saved state on request: to another position, and to another server that continues this one.

A planned change of server has two steps. Both are the same command, and the job is stopped meanwhile.

    at the old server   everything in the slot was sent: the state notes what the server looks like now,
                        and the slot is moved up to the state's position, as pg_upgrade requires
                        and a marker row is written to the signal table
    at the new server   after pg_upgrade it has the slot, the database and the tables that were noted: the
                        state goes on where the new server's slot begins
                        a replica that was fed by logical replication has the marker, and so everything that
                        was committed before it: the state goes on at a slot that is made now

A job that runs in between removes the note, because it may send more. A promoted standby needs neither step:
its log continues, and so does the job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from adapters.postgres.drivers import make_server
from adapters.postgres.saved import saved_of
from adapters.postgres.server.connection import check_identity
from adapters.postgres.server.position import parts_of, position_at, shown
from adapters.postgres.server.visibility import format_lsn, parse_lsn
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.slot_snapshot import LogStart, create_slot
from engine.errors import ConfigError, PositionLost, StateError
from engine.saved import read_integer, read_mapping, read_text, reading_saved

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adapters.postgres.server.connection import Identity, Server
    from adapters.postgres.server.questions.questions import Questions
    from adapters.postgres.server.questions.slots import FoundSlot
    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import Position

_STREAMED: Final = ("last_commit", "last_commit_end", "transaction", "unsettled")
"""What the state remembers of the log before its position."""
_NOTE: Final = "drained"
_MARKER_TYPE: Final = "snapshot-window-close"
"""Rows of this type are no signals, neither here nor for Debezium."""


def at_position(settings: Settings, state: State, text: str) -> State:  # noqa: ARG001  as all sources
    """The state at the LSN that the text gives. Raises ConfigError for another text."""
    try:
        position = position_at(parse_lsn(text))
    except (ValueError, TypeError) as error:
        raise ConfigError(
            f"{text!r} is no LSN", hint="write it as PostgreSQL does, such as 16/B374D848"
        ) from error
    return replace(state, position=position, memory=_before_log(state))


def move(settings: Settings, state: State, write: Callable[[State], object], clock: Clock) -> str:
    """Take the next step of a move, and `write` the state after it; returns what was done, in words.

    Raises StateError if it can't be done.
    """
    saved_of(state)
    server = make_server(settings.source_as(PostgresSettings))
    identity = server.identity()
    server.refuse_standby()
    with server.open() as questions:
        if state.identity.get("system") != identity.system:
            found = questions.slots.find(settings.source_as(PostgresSettings).slot)
            if found is None:
                position, memory = _create_on_replica(settings, server, questions, _note(state), clock), {}
            else:
                position, memory = _find_upgraded(state, identity, questions, found), _before_log(state)
            state = replace(state, position=position, identity=identity.to_json(), memory=memory)
            write(replace(state, attempt=None))
            return f"the job goes on at {shown(position)} of the new server"
        check_identity(state.identity, identity)
        if str(identity.timeline) != state.identity.get("timeline"):
            return "the server was promoted, and its log continues: start the job, it goes on by itself"
        return _drain(settings, state, questions, write, clock.new_id())


def _drain(
    settings: Settings, state: State, questions: Questions, write: Callable[[State], object], new_id: str
) -> str:
    """Make sure that everything was sent, and move state and slot up to the end of the log.

    pg_upgrade refuses a slot that has any transaction before it, even an empty one. The state goes first: a
    slot that is ahead of its state would be refused.
    """
    postgres = settings.source_as(PostgresSettings)
    lsn, inside = parts_of(_position(state))
    found = questions.slots.find(postgres.slot)
    if found is None or found.reader is not None:
        raise StateError(f"slot {postgres.slot!r} does not exist, or is being read", hint="stop its reader")
    end = max(lsn, questions.transactions.log_end())
    if inside or questions.slots.has_more(postgres.slot, postgres.publication, lsn):
        raise _unsent(lsn)
    marker, transaction = _write_marker(settings, questions, new_id)
    if marker:
        end = questions.transactions.log_end()
        if questions.slots.has_more(postgres.slot, postgres.publication, lsn, but=transaction):
            raise _unsent(lsn)
    note = {"system": state.identity["system"], "marker": marker, **_likeness(questions)}
    write(replace(state, position=position_at(end), memory={**state.memory, _NOTE: note}))
    questions.slots.advance(postgres.slot, end)
    return (
        f"everything up to {format_lsn(end)} was sent; leave the job stopped until the new server is up, then"
        " point the configuration to it and move again"
    )


def _unsent(lsn: int) -> StateError:
    return StateError(
        f"the slot holds changes after {format_lsn(lsn)}, which the job has not sent",
        hint="stop all writers, let the job send the rest, stop it, and move again",
    )


def _write_marker(settings: Settings, questions: Questions, new_id: str) -> tuple[str, int]:
    """Write a marker to the signal table, if there is one that the role may write to: its id and transaction.

    Logical replication applies transactions in the order of their commits. So where the marker has come,
    everything has come that was committed before.
    """
    signals = settings.signals.collection
    found = questions.signals.find(signals) if signals else None
    if signals is None or found is None or not found.insert:
        return "", 0
    marker = f"tidemark-move-{new_id}"
    return marker, questions.signals.insert_alone(signals, marker, _MARKER_TYPE)


def _find_upgraded(state: State, identity: Identity, questions: Questions, found: FoundSlot) -> Position:
    """Where the slot of an upgraded server begins."""
    note = _note(state)
    if found.database != identity.database:
        raise StateError(
            f"the slot is one of the database {found.database!r}", hint="name the slot of the job's database"
        )
    _check_likeness(note, _likeness(questions))
    before = parts_of(_position(state))[0]
    if found.confirmed_lsn < before:
        raise StateError(
            f"the new server's slot begins before {format_lsn(before)}, up to which the old log was sent",
            hint="use the upgraded server, or an empty checkpoint and snapshots",
        )
    return position_at(found.confirmed_lsn)


def _create_on_replica(
    settings: Settings, server: Server, questions: Questions, note: Mapping[str, Any], clock: Clock
) -> Position:
    """Make the slot of a replica that has received everything, and return where it begins.

    Nobody writes, so nothing comes between the marker and the slot.
    """
    postgres, signals = settings.source_as(PostgresSettings), settings.signals.collection
    with reading_saved("what the state notes of the old server"):
        marker = read_text(note.get("marker", ""))
    if not marker or signals is None or not questions.signals.has(signals, marker):
        row = f", nor the row {marker!r} of the old one's signal table" if marker else ""
        raise PositionLost(
            f"the new server has no slot {postgres.slot!r}{row}, so changes since its start may be lost",
            hint="pg_upgrade keeps slots from PostgreSQL 17 on, and a replica must have received the signal"
            " table, too; else use an empty checkpoint and snapshots",
        )
    if questions.publications.has_all_tables(postgres.publication) is None:
        raise ConfigError(
            f"the new server has no publication {postgres.publication!r}",
            hint="create it before anybody writes there, as `tidemark init` shows, and move again",
        )
    _check_received(questions, postgres.publication)
    beginning = LogStart(postgres.slot, 0, clock, failover=postgres.slot_failover)
    return position_at(create_slot(server, beginning))


def _check_received(questions: Questions, publication: str) -> None:
    """Raise StateError if tables of the publication came otherwise than the marker.

    Without subscriptions there is nothing to compare: they were dropped, as one does at a switch of servers.
    """
    subscribed = questions.subscriptions.tables()
    copied = [table.table for table in subscribed if not table.ready]
    others = questions.publications.tables(publication) - {table.table for table in subscribed}
    if copied:
        fault = f"the new server still copies {', '.join(map(str, copied))}"
    elif len({table.subscription for table in subscribed}) > 1:
        fault = "the new server has several subscriptions, and the marker in the signal table came by one"
    elif subscribed and others:
        fault = f"no subscription of the new server has {', '.join(map(str, sorted(others, key=str)))}"
    else:
        return
    raise StateError(
        fault,
        hint="make sure that the new server has every row of the old one, drop its subscriptions, and move"
        " again",
    )


def _note(state: State) -> Mapping[str, Any]:
    note = state.memory.get(_NOTE)
    if note is None:
        raise StateError(
            f"the state belongs to the server {state.identity.get('system')!r}, and nobody has noted that"
            " everything of it was sent",
            hint="run `tidemark state move` at the old server first, with its writers stopped",
        )
    with reading_saved("what the state notes of the old server"):
        return read_mapping(note)


def _likeness(questions: Questions) -> dict[str, Any]:
    """What an upgrade keeps: the database's id, those of the published tables, and the next transaction."""
    return {
        "database": questions.catalog_ids.database(),
        "tables": questions.catalog_ids.tables(),
        "next": questions.transactions.next_id(),
    }


def _check_likeness(note: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    with reading_saved("what the state notes of the old server"):
        tables = {read_text(name): read_integer(oid) for name, oid in read_mapping(note["tables"]).items()}
        before = read_integer(note["next"])
        database = read_integer(note["database"])
    if database != now["database"] or any(now["tables"].get(name) != oid for name, oid in tables.items()):
        raise StateError(
            "the server is no copy of the old one: its database or tables have other ids",
            hint="at a replica that was fed by logical replication, drop the slot: this command makes it;"
            " a dump that was restored has another log: use an empty checkpoint and snapshots",
        )
    if before > now["next"]:
        raise StateError(
            "the server is an older copy of the old one: its transactions end before those that were sent",
            hint="use the upgraded server, or an empty checkpoint and snapshots",
        )


def _position(state: State) -> Any:
    if state.position is None:
        raise StateError("the log was never read, so there is nothing to move")
    return state.position


def _before_log(state: State) -> dict[str, Any]:
    """The memory without what is known of the log so far."""
    return {name: value for name, value in state.memory.items() if name not in {*_STREAMED, _NOTE}}

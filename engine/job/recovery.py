"""Recovers a job whose log is lost: begins a new log, and repairs the copy against it.

    turn       n                 n+1                      n+2 …
    state      the old log's     the loss is saved        a new log; gaps and repairs are noted
    source     says `lost`  ──►                 begins ──► streamed, as always
    copy       lacks what the old log would have brought ─────────► repaired, table by table

The loss is saved in a turn of its own before anything of the old log is given up. So a crash before it finds
the loss again, and a crash after it begins the new log, again if need be: whatever an attempt had made the
server keep is dropped by the next one. The turn that is saved first with a position of the new log has all
gaps and all repairs with it. From then on nothing distinguishes a recovery from repairs that signals asked
for.

Every collection counts as incomplete until its repair accepts. A repair deletes rows that only the copy has,
so deletions that no log has told of are told by it.

Where only one collection's part of the log is lost, the log goes on, and that collection is repaired.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.errors import Loss, PositionLost
from engine.isolation.incomplete import Cause, Incomplete, with_faults
from engine.job.saved.recovery import PREFIX, Recovery
from engine.model import ExecuteSnapshot, Purpose, Target
from engine.printable import first_named
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.restarts import restart_all

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from engine.errors import OtherServer
    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.model import CollectionId
    from engine.snapshot.queue import Snapshot

_log = logging.getLogger("engine")
_BEGINNING: Final = "the beginning"


def loss_of(error: PositionLost | OtherServer) -> PositionLost:
    """What is lost where the source raises this."""
    if isinstance(error, PositionLost):
        return error
    return PositionLost(error.message, where=error.where, hint=error.hint, loss=Loss.REPLACED)


def after_loss(state: State, error: PositionLost, since: str, lasting: Collection[str] = ()) -> State:
    """The next turn's state, which knows that the log is lost. Nothing of the old log applies any more.

    `lasting` is the source's: what its memory has besides the log. It tells nothing of another server.
    """
    after = state.next_turn()
    if state.awaits_log and state.recovery is not None:
        since = state.recovery.since  # the log that is lost now has brought nothing
    recovery = Recovery(error.loss or Loss.LOG_REMOVED, str(error.message), since, after.turn)
    replaced = recovery.loss is Loss.REPLACED
    snapshot = restart_all(state.snapshot)
    return replace(
        after,
        position=None,
        memory={} if replaced else {name: state.memory[name] for name in lasting if name in state.memory},
        identity={} if replaced else state.identity,
        snapshot=snapshot,
        recovery=recovery,
        attempt=None,
    )


def begin_repairs(state: State, parts: JobParts) -> State:
    """Begin to repair every collection, which has a gap now that a new log has begun; returns the state.

    What an initial snapshot had left to read is repaired as well.
    """
    recovery = state.recovery
    if recovery is None:
        return state
    since, why = recovery.since or _BEGINNING, f"the log is lost ({recovery.loss})"
    collections = parts.source.tables().captured()
    known = with_faults(state.incomplete, (Incomplete(name, Cause.GAP, since, why) for name in collections))
    initial = [table for table in state.snapshot.tables if table.initial]
    state = replace(
        state,
        recovery=replace(recovery, begun=True),
        incomplete=known,
        snapshot=state.snapshot.without(initial),
    )
    command = ExecuteSnapshot(recovery.label, _targets(state, collections, parts), recovery.label)
    _log.warning("a new log has begun; %d collections are repaired under it", len(command.targets))
    whys = dict.fromkeys(collections, "may lack what a lost log had")
    return _queued(state, command, parts, whys) if command.targets else state


def repairing(state: State, faults: Iterable[Incomplete], parts: JobParts) -> State:
    """The state in which the collections with these gaps are repaired, under the log that goes on.

    A repair that is queued already has begun anew with the gap. What is not captured now is repaired when it
    is captured again.
    """
    queued, captured = repairs_of(state.snapshot), set(parts.source.tables().captured())
    gaps = {fault.collection: fault.why for fault in faults}
    whys = {name: why for name, why in gaps.items() if name in captured and name not in queued}
    label = f"{PREFIX}{state.turn}"
    command = ExecuteSnapshot(label, _targets(state, whys, parts), label)
    return _queued(state, command, parts, whys) if command.targets else state


def repairs_of(snapshot: Snapshot) -> set[CollectionId]:
    """The collections whose repairs are queued."""
    repairs = {Purpose.REPAIR, Purpose.MEND}
    return {table.target.collection for table in snapshot.tables if table.target.purpose in repairs}


def _targets(state: State, collections: Iterable[CollectionId], parts: JobParts) -> tuple[Target, ...]:
    """What to repair. Logs what can't be repaired."""
    targets = []
    for name in collections:
        if refusal := _refusal(state, name, parts):
            _log.warning("%s is not repaired: %s", name, refusal)
        else:
            targets.append(Target(name, purpose=Purpose.REPAIR))
    return tuple(targets)


def _refusal(state: State, collection: CollectionId, parts: JobParts) -> str:
    """Why a collection can't be repaired; empty if it can be."""
    if partly := parts.copied_in_part(collection):
        return partly
    refused = parts.verification.copies.refusal(state, Target(collection, purpose=Purpose.REPAIR), parts)
    return "" if refused is None else refused.message


def _queued(
    state: State, command: ExecuteSnapshot, parts: JobParts, whys: Mapping[CollectionId, str]
) -> State:
    snapshot = execute(state.snapshot, command)
    for table in snapshot.tables:
        # Another command of this turn may have the same label.
        mine = table.target.collection in whys
        if mine and any(request.signal == command.signal for request in table.requests):
            parts.listener.appeared(table, command.signal, whys[table.target.collection])
    return replace(state, snapshot=snapshot)


def tell_end(before: State, after: State) -> None:
    """Log the end of a recovery, in the turn that brings it."""
    recovery = after.recovery
    if recovery is None or not _repairs(before, recovery) or _repairs(after, recovery):
        return
    lacking = [str(fault.collection) for fault in after.incomplete]
    if lacking:
        _log.error("the recovery has ended, and not all is repaired: %s", first_named(lacking))
    else:
        _log.warning("the recovery has ended: every collection of the copy is complete again")


def _repairs(state: State, recovery: Recovery) -> bool:
    requests = (request for table in state.snapshot.tables for request in table.requests)
    return any(request.signal == recovery.label for request in requests)

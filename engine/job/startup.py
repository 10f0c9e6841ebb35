"""What a start does before it opens the log: load the newest state, and compare it with sink and settings.

`checkpoint.py` shows what a crash after each step of a turn leaves behind.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import Loss, PositionLost, SinkRefused, StateError
from engine.job.saved import state_document as saved
from engine.job.saved.state import State
from engine.ports.sink import KnowsTurns
from engine.snapshot.changes.failures import forget_failures

if TYPE_CHECKING:
    from engine.job.isolation import Isolation
    from engine.job.parts import JobParts, Pace

_log = logging.getLogger("engine")


def newest(job_parts: JobParts) -> State:
    """The newest state. A pending one is promoted if the sink has committed its turn.

    Else it is discarded, unless the sink can't tell: then it is kept until the turn is saved again, and the
    newest state knows of the attempt.
    """
    job_parts.lease.check()
    store, sink = job_parts.store, job_parts.sink
    states, attempted = store.load(), None
    if (pending := states.pending) is not None:
        if sink.resolve_commit(pending.turn):
            store.promote(pending.turn)
        elif isinstance(sink, KnowsTurns) and sink.knows_turns:
            store.discard(pending.turn)
        else:
            attempted = saved.from_json(pending.document)
        states = store.load()
    if states.promoted is None:
        return State()
    newest = saved.from_json(states.promoted.document, store.load_beside)
    return newest if attempted is None else newest.after_attempt(attempted)


def resume(state: State, job_parts: JobParts) -> None:
    """Let the sink, the desk and the notices resume from a state."""
    job_parts.sink.resume(state.sink)
    job_parts.desk.resume(state.channels, state.turn)
    job_parts.notices.resume(state.snapshot)


def without_excluded(state: State, job_parts: JobParts) -> State:
    """The state without queued collections that the settings now exclude."""
    tables = state.snapshot.tables
    excluded = [table for table in tables if job_parts.excluded(table.target.collection)]
    for table in excluded:
        job_parts.desk.answers.stopped(table, "the settings leave the table out now")
        job_parts.notices.collections.excluded(table)
    collections = {table.target.collection for table in excluded}
    return replace(state, snapshot=forget_failures(state.snapshot.without(excluded), collections))


def not_behind(state: State, job_parts: JobParts, pace: Pace) -> tuple[State, PositionLost | None]:
    """The state, if it is not behind the sink.

    Raises SinkRefused if the sink holds newer turns, since this job's turns would mix with them. With
    `Pace.repeats_behind_sink` the state takes the sink's turn number instead. With `Pace.recovers` it
    does so, too, and returns the loss: the log counts as lost, since nobody knows where those turns ended.
    """
    newest_turn = job_parts.sink.newest_turn()
    if newest_turn is None or newest_turn <= state.turn:
        return state, None
    if pace.repeats_behind_sink:
        _log.warning(
            "the sink holds turns up to %d, the checkpoint knows %d: continuing after them;"
            " what was sent since is sent again",
            newest_turn,
            state.turn,
        )
        return replace(state, turn=newest_turn), None
    knows = f"ends at turn {state.turn}" if state.turn else "is empty"
    said = f"the sink holds turns up to {newest_turn}, and the checkpoint {knows}"
    if pace.recovers:
        loss = Loss.CHECKPOINT_OLD if state.turn else Loss.CHECKPOINT_LOST
        return replace(state, turn=newest_turn), PositionLost(said, where="checkpoint", loss=loss)
    raise SinkRefused(
        said,
        where="checkpoint",
        hint="use the checkpoint that this sink belongs to, or an empty sink; or set"
        " tidemark.sink.ahead=repeat for one start, which continues after those turns and sends"
        " what came since the checkpoint again",
    )


def at_destination(state: State, job_parts: JobParts, isolation: Isolation, *, moves: bool) -> State:
    """The state with its events' destination. Raises StateError if earlier events went elsewhere."""
    now = dict(job_parts.destination())
    moved = [
        f"{name} {then!r}, now {now[name]!r}"
        for name, then in state.destination.items()
        if now.get(name, then) != then
    ]
    if moved and moves:
        _log.warning("what was sent before is not there, and is not sent again: %s", ", ".join(moved))
        state = isolation.after_move(state)
    elif moved:
        raise StateError(
            f"the saved state belongs to events that went elsewhere: {', '.join(moved)}",
            hint="set it back; or use an empty checkpoint, which takes a new snapshot; or, where what was"
            " sent has been copied, set tidemark.destination=moved for one start",
        )
    return replace(state, destination=now)

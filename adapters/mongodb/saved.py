"""Strict reading of the saved state of a MongoDB source: StateError for anything invalid. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.mongodb.events import transactions
from adapters.mongodb.log.position import checked
from engine.saved import read_integer, read_mapping, read_position, read_text, reading_saved

if TYPE_CHECKING:
    from adapters.mongodb.events.transactions import OpenTransaction
    from engine.job.state import State
    from engine.model import Position


@dataclass(frozen=True, slots=True)
class Saved:
    """The last streamed event (missing in states of earlier versions), and the open transaction."""

    event: Position | None
    transaction: OpenTransaction | None


def saved_of(state: State) -> Saved:
    """What the state remembers of the stream. Raises StateError for invalid content."""
    memory = state.memory
    with reading_saved("what the saved state keeps of the change stream"):
        if state.position is not None:
            checked(state.position)
        for value in state.identity.values():
            read_text(value)
        _position(read_mapping(memory.get("first", {})).get("begins_at"))
        transaction = transactions.from_json(memory.get("transaction"))
        if transaction is not None:
            read_text(transaction.id)
            for name, count in transaction.collections:
                read_text(name)
                read_integer(count)
        return Saved(_position(memory.get("event")), transaction)


def _position(saved: object) -> Position | None:
    position = read_position(saved)
    return position and checked(position)

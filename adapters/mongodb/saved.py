"""What a saved state keeps for MongoDB: its form, and how it is read strictly. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NotRequired, TypeAlias, TypedDict

from adapters.mongodb.log.position import checked
from adapters.mongodb.settings import CaptureScope
from adapters.source.log.open_transaction import SavedTransaction, from_json
from engine.saved import read_as, read_position, read_text, reading_saved

if TYPE_CHECKING:
    from adapters.source.log.open_transaction import OpenTransaction
    from engine.job.saved.state import State
    from engine.model import Position

Order: TypeAlias = list[int | str]
"""A position's elements; `log.position` knows them."""


class SnapshotOrigin(TypedDict):
    """Which run began the initial snapshot, and where its log began. Older states lack the former."""

    run: NotRequired[str]
    begins_at: NotRequired[Order | None]


class SavedCapture(TypedDict):
    """The settings that say what is captured; lists as what they include and what they exclude."""

    scope: str
    target: str
    databases: tuple[list[str], list[str]]
    collections: tuple[list[str], list[str]]


class Memory(TypedDict):
    """The form in the state. `event` is the last streamed event. Older states lack some."""

    transaction: NotRequired[SavedTransaction | None]
    first: NotRequired[SnapshotOrigin]
    event: NotRequired[Order | None]
    capture: NotRequired[SavedCapture]


@dataclass(frozen=True, slots=True)
class SavedMemory:
    """The last streamed event (missing in states of earlier versions), and the open transaction."""

    event: Position | None
    transaction: OpenTransaction | None


def saved_of(state: State) -> SavedMemory:
    """What the state remembers of the stream. Raises StateError for invalid content."""
    with reading_saved("what the saved state keeps of the change stream"):
        memory = read_as(state.memory, Memory)
        if state.position is not None:
            checked(state.position)
        if capture := memory.get("capture"):
            CaptureScope(capture["scope"])
        for value in state.identity.values():
            read_text(value)
        _position(memory.get("first", SnapshotOrigin()).get("begins_at"))
        transaction = from_json(memory.get("transaction"))
        return SavedMemory(_position(memory.get("event")), transaction)


def _position(saved: Order | None) -> Position | None:
    position = read_position(saved)
    return position and checked(position)

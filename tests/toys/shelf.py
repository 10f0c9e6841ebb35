"""A sink that another package could bring: it puts turns on a shelf in memory, by `tidemark.sink=shelf`.

All that Tidemark knows of it is the entry point of the group `tidemark.sinks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.config.plugins import SinkType
from engine.config.properties.row import APPLIED, Property
from engine.config.properties.shapes import TEXT
from engine.errors import InvariantError, SinkRefused
from engine.events.batch import EventForm
from engine.model import Part
from engine.staging.event_rows import EventRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from engine.config.properties.values import Values
    from engine.ports.executors import Executors

SHELVES: dict[str, Shelf] = {}


@dataclass
class Shelf:
    """Turns as they were committed; the writer runs in the driver's process."""

    begun: int | None = None
    written: dict[int, list[dict[str, str | None]]] = field(default_factory=dict)
    turns: dict[int, list[dict[str, str | None]]] = field(default_factory=dict)
    tasks: int = 0

    @property
    def events(self) -> list[dict[str, str | None]]:
        return [event for _turn, events in sorted(self.turns.items()) for event in events]


@dataclass(frozen=True)
class ShelfSettings:
    name: str


@dataclass(frozen=True)
class ShelfWriter:
    shelf: str

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        rows = [row for batch in batches for row in batch.to_pylist()]
        SHELVES[self.shelf].written[part] = rows
        return Part(part, len(rows))


class ShelfSink:
    form: Final = EventForm.RECORDS
    row_form: Final = EventRows()

    def __init__(self, name: str) -> None:
        self._name, self._shelf = name, SHELVES[name]

    def writer(self, turn: int) -> ShelfWriter:
        if self.resolve_commit(turn):
            raise SinkRefused(f"turn {turn} is on the shelf already", where="shelf")
        self._shelf.begun, self._shelf.written = turn, {}
        return ShelfWriter(self._name)

    def withhold(self, parts: Sequence[Part], topic: str) -> tuple[()]:  # noqa: ARG002  it refuses none
        return ()

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        if self.resolve_commit(turn):
            return
        if turn != self._shelf.begun:
            raise InvariantError(f"turn {turn} is committed without having been begun")
        ordered = sorted(part.number for part in parts)
        self._shelf.turns[turn] = [row for number in ordered for row in self._shelf.written[number]]

    def resolve_commit(self, turn: int) -> bool:
        return turn in self._shelf.turns

    def newest_turn(self) -> int | None:
        return max(self._shelf.turns, default=None)

    def resume(self, saved: Mapping[str, str]) -> None: ...

    def memory(self) -> Mapping[str, str]:
        return {}

    def identity(self) -> str:
        return self._name

    def close(self) -> None: ...


def read(values: Values) -> ShelfSettings:
    return ShelfSettings(values.get("shelf.name", str))


def make(
    settings: ShelfSettings,
    *,
    executors: Executors,  # noqa: ARG001  it writes in the driver
    staging: str,  # noqa: ARG001  it stages nothing
    tasks: int,
    name: str,  # noqa: ARG001  the shelf has a name of its own
) -> ShelfSink:
    SHELVES[settings.name].tasks = tasks
    return ShelfSink(settings.name)


SINK = SinkType((Property("shelf.name", APPLIED, "the shelf", TEXT, required=True),), read, make)

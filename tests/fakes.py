"""In-memory implementations of the ports: working code, held to the same suites as the real ones."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from engine.errors import InvariantError, SinkError
from engine.events.batch import EventForm
from engine.model import Checksum, Part
from engine.ports.state_store import SavedState, SavedStates
from engine.staging.checksum import checksum_of
from engine.staging.event_rows import EventRows
from signals.channels.topic import Record, TopicPosition
from tests.batches import batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Event = dict[str, Any]

# MemorySink

_FIELD = "\x1f"


def memory_text(events: pa.RecordBatch, affixes: tuple[str, str] = ("", "")) -> pa.LargeStringArray:
    """A `Render`: what a MemoryWriter takes back as the same events."""
    before, after = affixes
    lines = []
    for event in events.to_pylist():
        value = None if event["value"] is None else f"{before}{event['value']}{after}"
        fields = (event["topic"], event["key"], value, event["headers"])
        lines.append(_FIELD.join("\0" if attribute is None else attribute for attribute in fields) + "\n")
    return pa.array(lines, pa.large_string())


def memory_ending(after: str) -> str:
    """What comes after the value of an event without headers."""
    return f"{after}{_FIELD}\0\n"


_ATTEMPTS: dict[str, dict[int, list[Event]]] = {}
"""Parts by attempt; a writer names its attempt and holds nothing else, so it may be pickled."""


@dataclass(frozen=True)
class MemoryWriter:
    attempt: str

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        return self._keep(part, [event for batch in batches for event in batch.to_pylist()])

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> Part:
        return self._keep_lines(part, "".join(text for some in texts for text in some.to_pylist()))

    def take(self, part: int, path: str, events: int, checksum: Checksum) -> Part:
        content = Path(path).read_bytes()
        assert checksum_of(content) == checksum
        taken = self._keep_lines(part, content.decode())
        assert taken.events == events
        return taken

    def _keep_lines(self, part: int, text: str) -> Part:
        assert not text or text.endswith("\n")
        events = []
        for line in text.split("\n")[:-1]:
            fields = [None if part == "\0" else part for part in line.strip(" ").split(_FIELD)]
            events.append(dict(zip(("topic", "key", "value", "headers"), fields, strict=True)))
        return self._keep(part, events)

    def _keep(self, part: int, events: list[Event]) -> Part:
        if self.attempt not in _ATTEMPTS:
            raise SinkError("a newer attempt of the turn has begun", where="memory")
        _ATTEMPTS[self.attempt][part] = events
        return Part(part, len(events))


@dataclass
class MemorySink:
    """Keeps events in `turns`, which outlives the sink: give it to another one to play a restart."""

    form: ClassVar[EventForm] = EventForm.RECORDS
    row_form: ClassVar[EventRows] = EventRows()
    turns: dict[int, list[Event]] = field(default_factory=dict)
    name: str = ""
    kept: dict[str, str] = field(default_factory=dict)
    withheld: set[str] = field(default_factory=set)
    _begun: tuple[int, str] | None = None

    def writer(self, turn: int) -> MemoryWriter:
        if self.resolve_commit(turn):
            raise SinkError(f"turn {turn} is committed already", where="memory")
        self._forget()
        attempt = uuid.uuid4().hex
        _ATTEMPTS[attempt] = {}
        self._begun = (turn, attempt)
        self.withheld = set()
        return MemoryWriter(attempt)

    def withhold(self, parts: Sequence[Part], topic: str) -> list[pa.RecordBatch]:
        assert self._begun is not None
        written = _ATTEMPTS[self._begun[1]]
        found = [event for part in parts for event in written.get(part.number, ())]
        self.withheld = {*self.withheld, topic}
        events = [tuple(event.values()) for event in found if event["topic"] == topic]
        return [batch(*events)]

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        if self.resolve_commit(turn):
            return
        if self._begun is None or self._begun[0] != turn:
            raise InvariantError(f"turn {turn} is committed without having been begun")
        written = _ATTEMPTS[self._begun[1]]
        found = {number: len(events) for number, events in written.items() if events}
        if found != {part.number: part.events for part in parts if part.events}:
            raise SinkError("the turn's parts are not those that were written", where="memory")
        events = [event for number in sorted(written) for event in written[number]]
        self.turns[turn] = [event for event in events if event["topic"] not in self.withheld]
        self._forget()

    def resolve_commit(self, turn: int) -> bool:
        return turn in self.turns

    def newest_turn(self) -> int | None:
        return max(self.turns, default=None)

    def resume(self, saved: Mapping[str, str]) -> None:
        self.kept = dict(saved)

    def memory(self) -> Mapping[str, str]:
        return self.kept

    def identity(self) -> str:
        return self.name

    def close(self) -> None:
        self._forget()

    def events(self) -> list[Event]:
        """What is committed, turn by turn."""
        return [event for turn in sorted(self.turns) for event in self.turns[turn]]

    def _forget(self) -> None:
        if self._begun is not None:
            _ATTEMPTS.pop(self._begun[1], None)
        self._begun = None


# MemoryStateStore


@dataclass
class MemoryStateStore:
    """Keeps documents in `promoted` and `pending`; share them with another store to play a restart."""

    promoted: dict[int, bytes] = field(default_factory=dict)
    pending: dict[int, bytes] = field(default_factory=dict)
    beside: dict[str, bytes] = field(default_factory=dict)

    def save_beside(self, turn: int, document: bytes) -> str:
        self.beside[str(turn)] = bytes(document)
        return str(turn)

    def load_beside(self, name: str) -> bytes:
        return self.beside[name]

    def load(self) -> SavedStates:
        promoted = max(self.promoted, default=None)
        pending = max(self.pending, default=None)
        if pending is not None and promoted is not None and pending <= promoted:
            pending = None
        return SavedStates(
            None if promoted is None else SavedState(promoted, self.promoted[promoted]),
            None if pending is None else SavedState(pending, self.pending[pending]),
        )

    def save_pending(self, turn: int, document: bytes) -> None:
        self.pending[turn] = bytes(document)

    def promote(self, turn: int) -> None:
        if turn in self.promoted:
            return
        if turn not in self.pending:
            raise InvariantError(f"state of turn {turn} is promoted without having been saved")
        self.promoted[turn] = self.pending.pop(turn)

    def discard(self, turn: int) -> None:
        self.pending.pop(turn, None)


# MemoryTopic


class MemoryTopic:
    """A `TopicReader` over a topic in memory; every record is newer than any first start."""

    def __init__(self) -> None:
        self.position = TopicPosition({}, 0)
        self._records: list[Record] = []
        self._next: dict[int, int] = {}

    def append(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        offset = sum(record.partition == partition for record in self._records)
        self._records.append(Record("t1", partition, offset, key, value))

    def begin(self, position: TopicPosition) -> None:
        self.position, self._next = position, dict(position.offsets)

    def take(self) -> list[Record]:
        found = [record for record in self._records if record.offset >= self._next.get(record.partition, 0)]
        self._next |= {record.partition: record.offset + 1 for record in found}
        return found

    def close(self) -> None: ...

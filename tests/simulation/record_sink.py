"""The simulated sink for rendered events: what was written is what is judged, byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from engine.model import CollectionId, Part
from tests.simulation.fallible_calls import fallible
from tests.simulation.sink import SimSink, SimWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa


class Record(NamedTuple):
    """An event: its collection, key and value as JSON has them, and its line in a file."""

    collection: CollectionId
    key: dict[str, Any] | None
    value: dict[str, Any]
    line: bytes

    @property
    def op(self) -> str:
        """The operation."""
        return str(self.value["op"])


class RecordWriter(SimWriter):
    """Keeps the parts of a turn."""

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write events."""
        with fallible(self._process, "write"):
            events: list[Any] = []
            for batch in batches:
                topic, key, value = (batch.column(at).to_pylist() for at in range(3))
                events += map(_record, topic, key, value)
            self.parts[part] = events
            return Part(part, len(events))


class RecordSink(SimSink):
    """The `Sink` of one process."""

    written = RecordWriter

    def torn(self, events: list[Record]) -> list[Record]:
        """Half of the turn. The two events of a changed key stay together: the judge takes them at once."""
        half = super().torn(events)
        pair = half and half[-1].op == "d" and events[len(half)].op == "c"
        return half[:-1] if pair else half


def collection_of(topic: str) -> CollectionId:
    """The collection of a topic, whose first part is the prefix."""
    return CollectionId(tuple(topic.split(".")[1:]))


def shown(event: Record) -> str:
    """An event in a story."""
    return f"{event.op} {event.collection.parts[-1]} {event.key} {event.value['after']}"


def _record(topic: str, key: str | None, value: str) -> Record:
    collection = collection_of(topic)
    line = f'{{"topic":"{topic}","key":{key or "null"},"value":{value}}}\n'
    return Record(collection, None if key is None else orjson.loads(key), orjson.loads(value), line.encode())

"""Events kept for a topic that refuses them: as lines, in bundles of bounded size. Pure.

A line is JSON, `{"topic":…,"key":…,"value":…,"headers":…}`, each a string or null. It holds the event's exact
characters, so the event is later sent unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa

from engine.events.batch import EVENTS
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_BUNDLE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """Some events that a turn kept for a collection; `number` counts from 0, `epoch` is the lease's."""

    turn: int
    number: int
    epoch: int
    collection: CollectionId = field(default=CollectionId(()))


def bundled(batches: Iterable[pa.RecordBatch]) -> Iterator[list[bytes]]:
    """The events as lines, in order, grouped into bundles."""
    lines: list[bytes] = []
    size = 0
    for batch in batches:
        for event in batch.to_pylist():
            lines.append(orjson.dumps(event))
            size += len(lines[-1]) + 1
            if size >= _BUNDLE_BYTES:
                yield lines
                lines, size = [], 0
    if lines:
        yield lines


def size_of(lines: Sequence[bytes]) -> int:
    """The size of these lines in bytes, with their line breaks."""
    return sum(map(len, lines)) + len(lines)


def events_of(lines: Iterable[bytes]) -> pa.RecordBatch:
    """The events in these lines."""
    events = [orjson.loads(line) for line in lines]
    topics = pa.array([event["topic"] for event in events], pa.string()).dictionary_encode()
    columns = [
        pa.array([event[name] for event in events], EVENTS.field(name).type) for name in EVENTS.names[1:]
    ]
    return pa.RecordBatch.from_arrays([topics, *columns], schema=EVENTS)

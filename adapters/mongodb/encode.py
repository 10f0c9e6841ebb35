"""Encoding a span: decoded where it is, or on the executors when it is large.

Owns the task that turns a part of the span into a part of the turn, and what comes back from it. Events
go straight to the sink's writer; only facts travel to the driver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from adapters.mongodb.decode import Decoded, Watch, decode
from engine.events.batch import no_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.mongodb.codec import Rules
    from adapters.mongodb.log import Span
    from adapters.mongodb.transactions import OpenTransaction
    from engine.ports import Executors, PartWriter

_PART_ROWS = 25_000


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part of a span on its way to the sink. `changes` is the path of a file, or the events."""

    changes: str | Sequence[bytes]
    part: int
    before: OpenTransaction | None = None


@dataclass(frozen=True, slots=True)
class EncodePart:
    """What to do with a part; goes to the executors."""

    rules: Rules
    watch: Watch
    writer: PartWriter
    now_ms: int

    def __call__(self, task: PartTask) -> Decoded:
        """Decode, encode, write; gives what was decoded less the events, but counted."""
        changes = _load(task.changes) if isinstance(task.changes, str) else task.changes
        decoded = decode(changes, self.rules, self.watch, self.now_ms, task.before)
        if decoded.events.num_rows:
            self.writer.write(task.part, [decoded.events])
        return replace(decoded, events=no_events(), entries=decoded.events.num_rows)


class SpanEncoder:
    """Encodes spans; more than `local_rows` change events go to the executors."""

    def __init__(self, executors: Executors, staging: str, *, local_rows: int) -> None:
        self._executors, self._staging, self._local_rows = executors, staging, local_rows

    def encode(
        self, span: Span, rules: Rules, watch: Watch, writer: PartWriter, before: OpenTransaction | None
    ) -> list[Decoded]:
        """The parts' facts, in order. `before` is the transaction that the last span left open."""
        task = EncodePart(rules, watch, writer, int(time.time() * 1000))
        changes = list(chain.from_iterable(span.batches))
        if len(changes) <= self._local_rows or rules.settings.transaction_metadata:
            return [task(PartTask(changes, 0, before))] if changes else []
        return self._remote(task, changes)

    def _remote(self, task: EncodePart, changes: Sequence[bytes]) -> list[Decoded]:
        directory = Path(self._staging)
        directory.mkdir(parents=True, exist_ok=True)
        starts = range(0, len(changes), _PART_ROWS)
        files = [directory / f"span-{uuid4().hex}.arrow" for _start in starts]
        try:
            for path, start in zip(files, starts, strict=True):
                _save(path, changes[start : start + _PART_ROWS])
            parts = [PartTask(str(path), part) for part, path in enumerate(files)]
            return self._executors.map(task, parts)
        finally:
            for path in files:
                path.unlink(missing_ok=True)


def _save(path: Path, changes: Sequence[bytes]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(changes, pa.large_binary())], names=["change"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as stream:
        stream.write_batch(batch)


def _load(path: str) -> list[bytes]:
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as batches:
        found: list[bytes] = batches.get_batch(0).column(0).to_pylist()
        return found

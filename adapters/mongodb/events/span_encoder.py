"""Encodes a span: small ones in the driver, large ones on the executors.

Owns the task that turns a part of the span into a part of the turn. Events go straight to the sink's writer;
only the facts about them return to the driver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.mongodb.events.decode import Decoded, Watch, decode
from adapters.source.table_faults import write_part
from adapters.staging.span_files import SpanFile, save

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.mongodb.events.codec import Rules
    from adapters.mongodb.events.transactions import OpenTransaction
    from adapters.mongodb.log.reader import Span
    from engine.ports import Executors, PartWriter

_PART_ROWS = 25_000


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part of a span on its way to the sink. `changes` is a file of the events, or the events."""

    changes: SpanFile | Sequence[bytes]
    part: int
    before: OpenTransaction | None = None


@dataclass(frozen=True, slots=True)
class EncodePart:
    """What to do with a part. Sent to the executors."""

    rules: Rules
    watch: Watch
    writer: PartWriter
    now_ms: int
    again: bool = False
    """Whether earlier parts may exist that hold events of a collection that is now left out."""

    def __call__(self, task: PartTask) -> Decoded:
        """Decode, encode and write a part.

        Returns what was decoded, with the written part instead of the events.
        """
        changes = task.changes
        if isinstance(changes, SpanFile):
            (batch,) = changes.load()
            changes = batch.column(0).to_pylist()
        decoded = decode(changes, self.rules, self.watch, self.now_ms, task.before)
        return write_part(self.writer, task.part, decoded, again=self.again)


class SpanEncoder:
    """Encodes spans. More than `local_rows` change events go to the executors."""

    def __init__(self, executors: Executors, staging: str, *, local_rows: int) -> None:
        self._executors, self._staging, self._local_rows = executors, staging, local_rows

    def encode(
        self,
        span: Span,
        rules: Rules,
        watch: Watch,
        writer: PartWriter,
        before: OpenTransaction | None,
        *,
        again: bool = False,
    ) -> list[Decoded]:
        """The parts' facts, in order.

        `before` is the transaction that the last span left open. `again` says that the span was encoded
        before, with more collections.
        """
        task = EncodePart(rules, watch, writer, int(time.time() * 1000), again)
        changes = list(chain.from_iterable(span.batches))
        if len(changes) <= self._local_rows or rules.settings.transaction_metadata:
            return [task(PartTask(changes, 0, before))] if changes else []
        return self._remote(task, changes)

    def _remote(self, task: EncodePart, changes: Sequence[bytes]) -> list[Decoded]:
        files: list[SpanFile] = []
        try:
            for start in range(0, len(changes), _PART_ROWS):
                part = pa.array(changes[start : start + _PART_ROWS], pa.large_binary())
                files.append(save(self._staging, pa.RecordBatch.from_arrays([part], names=["change"])))
            return self._executors.map(task, [PartTask(file, part) for part, file in enumerate(files)])
        finally:
            for file in files:
                file.remove()

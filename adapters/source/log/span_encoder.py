"""Encodes a span: small parts in the driver, large ones on the executors.

A source says how one part is decoded. This module decides where that happens, carries the part there and
writes its events. They go straight to the sink's writer; only the facts about them return to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import pyarrow as pa

from adapters.source.log.table_faults import DecodedPart, write_part
from engine.staging.batches import StagedBatches, stage

if TYPE_CHECKING:
    from engine.ports.executors import Executors
    from engine.ports.sink import PartWriter
    from engine.staging.port import BlockStore

Context = TypeVar("Context")
Decoded = TypeVar("Decoded", bound=DecodedPart)
Raw: TypeAlias = "tuple[pa.RecordBatch | StagedBatches, ...]"
"""A part's entries as the source reads them, in order; staged ones go to the executors."""
Decode: TypeAlias = Callable[[Sequence[pa.RecordBatch], Context], Decoded]
"""How a source decodes a part's entries in their context. Goes to the executors, so it must pickle."""
_LOCAL_BYTES = 16 << 20
"""Larger spans are encoded on the executors, because encoding takes several times their memory."""


@dataclass(frozen=True, slots=True)
class PartTask(Generic[Context]):
    """One part of a span. `context` is what decoding it requires besides: codecs, an open transaction."""

    raw: Raw
    context: Context
    number: int = 0

    @property
    def staged(self) -> bool:
        """Whether entries are staged."""
        return any(isinstance(entries, StagedBatches) for entries in self.raw)

    @property
    def nbytes(self) -> int:
        """The bytes of the entries that are not staged."""
        return sum(entries.nbytes for entries in self.raw if not isinstance(entries, StagedBatches))


@dataclass(frozen=True, slots=True)
class EncodePart(Generic[Context, Decoded]):
    """What to do with a part. Goes to the executors."""

    decode: Decode[Context, Decoded]
    writer: PartWriter
    again: bool = False
    """Whether there may be earlier parts with events of a table that is now left out."""

    def __call__(self, task: PartTask[Context]) -> Decoded:
        """Decode a part and write its events; returns its facts, with the written part instead of events."""
        batches: list[pa.RecordBatch] = []
        for entries in task.raw:
            batches += entries.load() if isinstance(entries, StagedBatches) else [entries]
        return write_part(self.writer, task.number, self.decode(batches, task.context), again=self.again)


class SpanEncoder:
    """Encodes spans, here or on the executors.

    The executors encode spans of several parts with more than `local_rows` entries, spans with large values,
    and spans whose entries are staged already.
    """

    def __init__(self, executors: Executors, store: BlockStore, *, local_rows: int) -> None:
        self._executors, self._store, self.local_rows = executors, store, local_rows
        self._names = (f"span-{number}.arrow" for number in count())

    def encode(
        self,
        task: EncodePart[Context, Decoded],
        parts: Sequence[tuple[Raw, Context]],
        entries: int,
        follow: Callable[[Context, Decoded], Context] | None = None,
    ) -> list[Decoded]:
        """The facts of the parts, in order.

        With `follow` the parts are encoded one after another, and it completes each part's context with what
        was decoded before: the counters of transaction metadata pass from part to part.
        """
        tasks = [PartTask(raw, context, number) for number, (raw, context) in enumerate(parts)]
        if follow is None:
            return self._encode(task, tasks, entries)
        decoded: list[Decoded] = []
        for part in tasks:
            context = follow(part.context, decoded[-1]) if decoded else part.context
            decoded += self._encode(task, [replace(part, context=context)], entries)
        return decoded

    def _encode(
        self, task: EncodePart[Context, Decoded], tasks: Sequence[PartTask[Context]], entries: int
    ) -> list[Decoded]:
        many = entries > self.local_rows and len(tasks) > 1
        if many or any(part.staged for part in tasks) or sum(part.nbytes for part in tasks) > _LOCAL_BYTES:
            return self._remote(task, tasks)
        return [task(part) for part in tasks]

    def _remote(
        self, task: EncodePart[Context, Decoded], tasks: Sequence[PartTask[Context]]
    ) -> list[Decoded]:
        made: list[StagedBatches] = []

        def saved(entries: Any) -> StagedBatches:
            if isinstance(entries, StagedBatches):
                return entries
            made.append(stage(self._store, entries, next(self._names)))
            return made[-1]

        try:
            staged = [replace(part, raw=tuple(map(saved, part.raw))) for part in tasks]
            return self._executors.map(task, staged)
        finally:
            for entries in made:
                entries.remove()

"""Encodes a span: small parts in the driver, large ones on the executors.

Owns the task that encodes one part of the span into a part of the turn, and its result. A part's events go
straight to the sink's writer; only facts travel to the driver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from adapters.postgres.events.decode import Decoded, decode
from adapters.postgres.events.source_block import Moment
from adapters.postgres.log.timeline import SpanPart
from adapters.source.table_faults import write_part
from adapters.staging.span_files import SpanFile, save

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.log.timeline import TransactionContext
    from adapters.postgres.log.touched_keys import Watch
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings
    from engine.ports import Executors, PartWriter


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part of a span on its way to the sink. `messages` is a file of them, or the array."""

    messages: SpanFile | pa.Array
    context: TransactionContext
    codecs: Mapping[int, TableCodec]
    part: int


@dataclass(frozen=True, slots=True)
class EncodePart:
    """What to do with a part; sent to the executors."""

    settings: EventSettings
    watch: Watch
    writer: PartWriter
    moment: Moment
    again: bool = False
    """Whether there may be earlier parts with events of a table that is now left out."""

    def __call__(self, task: PartTask) -> Decoded:
        """Decode, encode and write; returns what was decoded, with the written part instead of events."""
        messages = task.messages
        if isinstance(messages, SpanFile):
            (batch,) = messages.load()
            messages = batch.column(0)
        part = SpanPart(messages, task.context)
        decoded = decode(part, task.codecs, self.settings, self.watch, self.moment)
        return write_part(self.writer, task.part, decoded, again=self.again)


_LOCAL_BYTES = 16 << 20
"""A larger part of the log is encoded on the executors, because encoding takes several times its memory."""


class SpanEncoder:
    """Encodes the parts of a span, in order. The executors get spans of more than `local_rows` entries.

    They also get spans with large values, however few entries these have.
    """

    def __init__(
        self,
        settings: EventSettings,
        executors: Executors,
        staging: str,
        xmin: Callable[[], int | None],
        *,
        local_rows: int,
    ) -> None:
        self._settings, self._executors = settings, executors
        self._staging, self._xmin, self._local_rows = staging, xmin, local_rows

    def encode(
        self,
        parts: Sequence[tuple[SpanPart, Mapping[int, TableCodec]]],
        entries: int,
        watch: Watch,
        writer: PartWriter,
        before: TransactionContext | None,
        *,
        again: bool = False,
    ) -> list[Decoded]:
        """Encode the parts and return their facts, in order.

        `before` is the context at the end of the last span, None at the start. `again`: the parts were
        encoded with more tables before.
        """
        moment = Moment(int(time.time() * 1000), self._xmin())
        task = EncodePart(self._settings, watch, writer, moment, again)
        if self._settings.transaction_metadata:
            return self._one_by_one(task, parts, before)
        tasks = [
            PartTask(part.messages, part.context, codecs, index) for index, (part, codecs) in enumerate(parts)
        ]
        return self._encode(task, tasks, entries)

    def _encode(self, task: EncodePart, tasks: Sequence[PartTask], entries: int) -> list[Decoded]:
        if entries > self._local_rows and len(tasks) > 1:
            return self._remote(task, tasks)
        size = sum(one.messages.nbytes for one in tasks if not isinstance(one.messages, SpanFile))
        return self._remote(task, tasks) if size > _LOCAL_BYTES else [task(one) for one in tasks]

    def _one_by_one(
        self,
        task: EncodePart,
        parts: Sequence[tuple[SpanPart, Mapping[int, TableCodec]]],
        before: TransactionContext | None,
    ) -> list[Decoded]:
        """Encode part after part: the metadata counters pass from part to part and from span to span."""
        done: list[Decoded] = []
        for index, (part, codecs) in enumerate(parts):
            started = part.context
            if before is not None and started.xid is not None and started.xid == before.xid:
                started = replace(started, events=before.events, collections=before.collections)
            done += self._encode(task, [PartTask(part.messages, started, codecs, index)], 0)
            before = done[-1].context
        return done

    def _remote(self, task: EncodePart, tasks: Sequence[PartTask]) -> list[Decoded]:
        files: list[SpanFile] = []
        try:
            for part in tasks:
                batch = pa.RecordBatch.from_arrays([part.messages], names=["message"])
                files.append(save(self._staging, batch))
            remote = [replace(part, messages=file) for part, file in zip(tasks, files, strict=True)]
            return self._executors.map(task, remote)
        finally:
            for file in files:
                file.remove()

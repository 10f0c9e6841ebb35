"""Encoding a span: its parts decoded where they are, or on the executors when they are large.

Owns the task that turns one part into a part of the turn, and what comes back from it. Every part's
events go straight to the sink's writer; only facts travel to the driver.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from adapters.postgres.decode import Decoded, SpanPart, decode
from adapters.postgres.source import Moment
from engine.events.batch import no_events

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.postgres.timeline import TransactionContext
    from adapters.postgres.touched import Watch
    from engine.events.codec import TableCodec
    from engine.events.settings import EventSettings
    from engine.ports import Executors, PartWriter


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part of a span on its way to the sink. `messages` is the path of a file, or the array."""

    messages: str | pa.Array
    context: TransactionContext
    codecs: Mapping[int, TableCodec]
    part: int


@dataclass(frozen=True, slots=True)
class EncodePart:
    """What to do with a part; goes to the executors."""

    settings: EventSettings
    watch: Watch
    writer: PartWriter
    moment: Moment

    def __call__(self, task: PartTask) -> Decoded:
        """Decode, encode, write; gives what was decoded less the events, but counted."""
        messages = _load(task.messages) if isinstance(task.messages, str) else task.messages
        part = SpanPart(messages, task.context)
        decoded = decode(part, task.codecs, self.settings, self.watch, self.moment)
        if decoded.events.num_rows:
            self.writer.write(task.part, [decoded.events])
        return replace(decoded, events=no_events(), entries=decoded.events.num_rows)


def _load(path: str) -> pa.Array:
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as batches:
        return batches.get_batch(0).column(0)


_LOCAL_BYTES = 16 << 20
"""More of the log is encoded elsewhere, since that takes several times its memory."""


class SpanEncoder:
    """Encodes the parts of a span, in order; more than `local_rows` entries go to the executors.

    So does what holds large values, however few they are.
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
    ) -> list[Decoded]:
        """The parts' facts, in order. `Decoded.entries` counts the events that were written.

        `before` is the context that the last span ended with, None at the start.
        """
        task = EncodePart(self._settings, watch, writer, Moment(int(time.time() * 1000), self._xmin()))
        if self._settings.transaction_metadata:
            return self._one_by_one(task, parts, before)
        tasks = [
            PartTask(part.messages, part.context, codecs, index) for index, (part, codecs) in enumerate(parts)
        ]
        return self._encode(task, tasks, entries)

    def _encode(self, task: EncodePart, tasks: Sequence[PartTask], entries: int) -> list[Decoded]:
        if entries > self._local_rows and len(tasks) > 1:
            return self._remote(task, tasks)
        size = sum(one.messages.nbytes for one in tasks if not isinstance(one.messages, str))
        return self._remote(task, tasks) if size > _LOCAL_BYTES else [task(one) for one in tasks]

    def _one_by_one(
        self,
        task: EncodePart,
        parts: Sequence[tuple[SpanPart, Mapping[int, TableCodec]]],
        before: TransactionContext | None,
    ) -> list[Decoded]:
        """Counters of transaction metadata pass from part to part, and from span to span."""
        done: list[Decoded] = []
        for index, (part, codecs) in enumerate(parts):
            started = part.context
            if before is not None and started.xid is not None and started.xid == before.xid:
                started = replace(started, events=before.events, collections=before.collections)
            done += self._encode(task, [PartTask(part.messages, started, codecs, index)], 0)
            before = done[-1].context
        return done

    def _remote(self, task: EncodePart, tasks: Sequence[PartTask]) -> list[Decoded]:
        directory = Path(self._staging)
        directory.mkdir(parents=True, exist_ok=True)
        files = [directory / f"span-{uuid4().hex}.arrow" for _one in tasks]
        try:
            for path, one in zip(files, tasks, strict=True):
                _save(path, one.messages)
            remote = [replace(one, messages=str(path)) for path, one in zip(files, tasks, strict=True)]
            return self._executors.map(task, remote)
        finally:
            for path in files:
                path.unlink(missing_ok=True)


def _save(path: Path, messages: str | pa.Array) -> None:
    batch = pa.RecordBatch.from_arrays([messages], names=["message"])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as stream:
        stream.write_batch(batch)

"""A sink whose files only the driver sees: what tasks write comes back with their results.

Most sinks keep a turn's parts as files until it is committed, in a directory of the driver's machine. Where
executors are on other machines, their tasks can't write there. They filter and encode as usual, and their
parts travel with what they return to the driver, which writes them when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.model import Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from engine.events.batch import EventForm
    from engine.job.snapshots.emission import Emission
    from engine.model import Checksum
    from engine.ports.sink import PartWriter, RowsOnTheirWay, Sink, TakesRows
    from engine.staging.port import RowForm

_TEXT = "text"


@dataclass(frozen=True, slots=True)
class CarriedPart(Part):
    """A part that a task has written, with its content: Arrow streams, one after another.

    `rendered`: the content is the text of the events.
    """

    content: tuple[bytes, ...] = ()
    rendered: bool = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches, in order."""
        for stream in self.content:
            with pa.ipc.open_stream(stream) as batches:
                yield from batches


@dataclass(frozen=True, slots=True)
class CarryingWriter:
    """Writes parts into what a task returns."""

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> CarriedPart:
        """Write the part."""
        return _carried(part, batches)

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> CarriedPart:
        """Write a part of rendered events."""
        batches = (pa.RecordBatch.from_arrays([some], [_TEXT]) for some in texts)
        return _carried(part, batches, rendered=True)


def _carried(number: int, batches: Iterable[pa.RecordBatch], *, rendered: bool = False) -> CarriedPart:
    """The part. Batches of typed events differ in their schemas: each change begins another stream."""
    streams: list[pa.BufferOutputStream] = []
    stream: Any = None
    schema: pa.Schema | None = None
    events = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if schema is None or not batch.schema.equals(schema, check_metadata=True):
            if stream is not None:
                stream.close()
            schema = batch.schema
            streams.append(pa.BufferOutputStream())
            stream = pa.ipc.new_stream(streams[-1], schema)
        stream.write(batch)
        events += batch.num_rows
    if stream is not None:
        stream.close()
    content = tuple(part.getvalue().to_pybytes() for part in streams)
    return CarriedPart(number, events, content=content, rendered=rendered)


class DriverWriter:
    """The sink's own writer in the driver. A copy that is sent to a task carries its parts back."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __reduce__(self) -> tuple[type[CarryingWriter], tuple[()]]:
        return CarryingWriter, ()

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write a part."""
        written: Part = self._writer.write(part, batches)
        return written

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> Part:
        """Write a part of rendered events."""
        written: Part = self._writer.write_texts(part, texts)
        return written

    def take(self, part: int, path: str, events: int, checksum: Checksum) -> Part:
        """Make a file a part."""
        written: Part = self._writer.take(part, path, events, checksum)
        return written

    def brought(self, part: CarriedPart) -> Part:
        """Write a part that a task has carried back."""
        if part.rendered:
            return self.write_texts(part.number, (batch.column(_TEXT) for batch in part.batches()))
        return self.write(part.number, part.batches())


class DriverSink:
    """A sink, used by the driver alone."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._writer = DriverWriter(None)
        self._written: dict[int, tuple[CarriedPart, Part]] = {}

    @property
    def form(self) -> EventForm:
        """The sink's form."""
        return self._sink.form

    @property
    def row_form(self) -> RowForm:
        """The sink's form of rows."""
        return self._sink.row_form

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn."""
        self._writer, self._written = DriverWriter(self._sink.writer(turn)), {}
        return self._writer

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterable[pa.RecordBatch]:
        """Take a topic's events out of the turn."""
        return self._sink.withhold(self._brought(parts), topic)

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Write the parts that tasks have carried back, and commit the turn."""
        self._sink.commit(turn, self._brought(parts))
        self._written = {}

    def _brought(self, parts: Sequence[Part]) -> list[Part]:
        return [self._bring(part) if isinstance(part, CarriedPart) else part for part in parts]

    def _bring(self, part: CarriedPart) -> Part:
        """The part, written once, even if the task that wrote it ran again."""
        known = self._written.get(part.number)
        if known is None or known[0] is not part:
            known = self._written[part.number] = (part, self._writer.brought(part))
        return known[1]

    def resolve_commit(self, turn: int) -> bool:
        """Find out whether the turn is committed."""
        return self._sink.resolve_commit(turn)

    def newest_turn(self) -> int | None:
        """The newest committed turn."""
        return self._sink.newest_turn()

    def resume(self, saved: Mapping[str, str]) -> None:
        """Resume from the sink's part of the saved state."""
        self._sink.resume(saved)

    def memory(self) -> Mapping[str, str]:
        """What the sink wants saved."""
        return self._sink.memory()

    def identity(self) -> str:
        """What distinguishes the sink."""
        return self._sink.identity()

    def close(self) -> None:
        """Release everything."""
        self._sink.close()


class RowsDriverSink(DriverSink):
    """A sink that takes rows beside the turns, from the executors that keep them."""

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._taker: TakesRows = sink

    @property
    def takes_rows(self) -> bool:
        """Whether the sink does."""
        return self._taker.takes_rows

    def prepare_for_rows(self) -> bool:
        """Get the sink ready; returns whether it is."""
        return self._taker.prepare_for_rows()

    def take_rows(self, emission: Emission, topic: str) -> RowsOnTheirWay:
        """Begin to send rows."""
        return self._taker.take_rows(emission, topic)

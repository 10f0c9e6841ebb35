"""The parts of a turn as files of typed events, until the turn is committed.

A file is Arrow streams, one after another: a part has batches of many tables, each with a schema of its own.
It is needed only by the process that has begun the turn, so nothing is forced to disk.

Events of a table that was set aside are kept as records, each with the event's typed row inside. They come
back as records, too, once the table takes events again.
"""

from __future__ import annotations

import base64
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from adapters.staging.turn_parts import replacing
from engine.errors import SinkError
from engine.events.batch import EVENTS
from engine.model import NO_FILE, Part
from engine.staging.checksum import ChecksumFile, checksum_of
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from engine.model import Checksum

_PACKED: Final = '"tidemark.row"'
"""The key of a record that has a typed row inside."""
_CODEC: Final = "zstd"
_DAMAGED: Final = "the turn is begun again; if this goes on, look at the disk of the staging directory"


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Writes parts as files into an attempt's directory."""

    directory: Path

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write the part; one without events leaves no file."""
        events = 0
        with replacing(self.directory / f"part-{part:05d}.arrow") as partial:
            with sink_errors(partial):
                file = ChecksumFile(partial)
            # Only the file's own errors are the sink's: `batches` may fail for other reasons.
            with closing(file), closing(_Streams(file)) as streams:
                for batch in batches:
                    if batch.num_rows:
                        events += batch.num_rows
                        with sink_errors(partial):
                            streams.write(batch)
            if not events:
                partial.unlink()
        return Part(part, events, file.checksum if events else NO_FILE)


class _Streams:
    """Streams in one file; a batch with another schema begins the next."""

    def __init__(self, file: ChecksumFile) -> None:
        self._file = file
        self._stream: Any = None
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._schema is None or not batch.schema.equals(self._schema, check_metadata=True):
            self.close()
            self._stream, self._schema = pa.ipc.new_stream(self._file, batch.schema), batch.schema
        self._stream.write_batch(batch)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def read_part(path: Path, checksum: Checksum) -> Iterator[pa.RecordBatch]:
    """The batches of a part, memory-mapped. Raises SinkError if they are not what was written."""
    with sink_errors(path), pa.memory_map(str(path)) as source:
        content = source.read_buffer()
        if checksum_of(content) != checksum:
            raise SinkError("is damaged: its checksum is wrong", place=str(path), hint=_DAMAGED)
        reader = pa.BufferReader(content)
        while reader.tell() < content.size:
            with pa.ipc.open_stream(reader) as stream:
                yield from stream


def topic_of(batch: pa.RecordBatch) -> str | None:
    """The topic of typed events; None if these are records."""
    metadata = batch.schema.metadata or {}
    return None if b"topic" not in metadata else metadata[b"topic"].decode()


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Typed events as records, in their order; tombstones are left out."""
    rows = [batch.slice(at, 1) for at in range(batch.num_rows) if batch.column("op")[at].is_valid]
    at = batch.schema.get_field_index("order")
    order = batch.schema.field(at)
    rows = [row.set_column(at, order, pa.nulls(1, order.type)) for row in rows]
    topics = pa.array([topic_of(batch)] * len(rows), pa.string()).dictionary_encode()
    text = pa.large_string()
    columns = [topics, pa.array([_PACKED] * len(rows), text), pa.array(map(_text, rows), text)]
    return pa.RecordBatch.from_arrays([*columns, pa.nulls(len(rows), text)], schema=EVENTS)


def _text(row: pa.RecordBatch) -> str:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, row.schema) as stream:
        stream.write_batch(row)
    content = written.getvalue()
    small = pa.compress(content, _CODEC, asbytes=True)
    return f'"{content.size}:{base64.b64encode(small).decode()}"'


def unpacked(records: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The typed events inside of records; records that have none are left out."""
    for text in records.filter(pc.equal(records["key"], _PACKED))["value"].to_pylist():
        size, _colon, data = text.strip('"').partition(":")
        content = pa.decompress(base64.b64decode(data), int(size), _CODEC)
        with pa.ipc.open_stream(content) as stream:
            yield from stream

"""Files for a span's raw entries on their way to executors, verified by checksums."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa

from adapters.storage.disk import make_private
from engine.errors import SourceError
from engine.staging.checksum import ChecksumFile, checksum_of
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from engine.model import Checksum


@dataclass(frozen=True, slots=True)
class SpanFile:
    """A file of Arrow batches with its checksum; can be sent to executors."""

    path: str
    checksum: Checksum

    def load(self) -> list[pa.RecordBatch]:
        """The batches, memory-mapped. Raises SourceError if they are not what was written."""
        try:
            with pa.memory_map(self.path) as source:
                if checksum_of(source.read_buffer()) != self.checksum:
                    raise SourceError("a part of the log, as staged, is damaged", place=self.path, hint=_HINT)
                source.seek(0)
                with pa.ipc.open_stream(source) as stream:
                    return list(stream)
        except FileNotFoundError as error:
            raise SourceError("a part of the log, as staged, is gone", place=self.path, hint=_HINT) from error

    def remove(self) -> None:
        """Remove the file. May be called twice."""
        Path(self.path).unlink(missing_ok=True)


_HINT = "the log is read again; driver and executors must share tidemark.staging.dir, and nobody may clear it"


def save(directory: str, batches: pa.Table | pa.RecordBatch, name: str = "") -> SpanFile:
    """Write batches to a file with this name or a unique one. Raises SinkError if there is no space."""
    path = Path(directory) / (name or f"span-{uuid4().hex}.arrow")
    with sink_errors(path):
        make_private(path.parent)
        with closing(ChecksumFile(path)) as file, pa.ipc.new_stream(file, batches.schema) as stream:
            stream.write(batches)
    return SpanFile(str(path), file.checksum)

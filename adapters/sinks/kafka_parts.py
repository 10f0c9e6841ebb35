"""The parts of a turn on their way to Kafka: Arrow files beside each other, read again in order.

Owns the files and which topics they hold. Kafka shows whatever it is given at once, so a turn's events
wait here until it is committed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adapters.sinks.staging import parts, replacing, sink_errors
from engine.events.batch import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PartFiles:
    """Writes parts into an attempt's directory; see the port."""

    directory: Path

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> None:
        """Write the part as one stream of batches; one without events leaves no file."""
        with replacing(self.directory / f"part-{part:05d}.arrow") as partial:
            rows = 0
            with sink_errors(partial):
                file = pa.OSFile(str(partial), "wb")
            # Only the file's own errors are the sink's: `batches` may fail for reasons of its own.
            with file, pa.ipc.new_stream(file, EVENTS) as stream:
                for batch in batches:
                    if batch.num_rows:
                        rows += batch.num_rows
                        with sink_errors(partial):
                            stream.write_batch(batch)
            if not rows:
                partial.unlink()


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt has written: its files in the order of the parts."""

    files: tuple[Path, ...]

    @classmethod
    def of(cls, directory: Path) -> Attempt:
        """What is in an attempt's directory."""
        return cls(tuple(parts(directory)))

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.stat().st_size for file in self.files)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every batch in order, mapped into memory; reads what is asked of it."""
        for file in self.files:
            with sink_errors(file), pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as stream:
                yield from stream

    def events(self) -> Counter[str]:
        """How many events each topic has."""
        found: Counter[str] = Counter()
        for batch in self.batches():
            names = batch.column("topic").dictionary.to_pylist()
            counts = np.bincount(batch.column("topic").indices.to_numpy(), minlength=len(names))
            found.update({name: int(count) for name, count in zip(names, counts, strict=True) if count})
        return found


def of_topics(batch: pa.RecordBatch, topics: frozenset[str]) -> pa.RecordBatch:
    """The events of a batch that go to these topics, in order."""
    column = batch.column("topic")
    mine = np.array([name in topics for name in column.dictionary.to_pylist()], bool)
    if mine.all():
        return batch
    return batch.filter(pa.array(mine[column.indices.to_numpy()]))

"""The parts of a turn on their way to Kafka: batches in memory, or Arrow files, read in order.

Owns where parts wait, and knows which topics they contain. Kafka shows a record as soon as it gets it, so a
turn's events wait here until it is committed. Parts written by the driver's own threads stay in memory if
they are small enough. Tasks elsewhere write files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from adapters.staging.turn_parts import ArrowPart, ArrowParts, written_files
from engine.model import NO_FILE, Part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa


class TurnParts:
    """Takes the parts of a turn. A copy sent to a task elsewhere writes files.

    At most `most_bytes` are held in memory; parts beyond that are files, too.
    """

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self._files, self._most_bytes = ArrowParts(directory), most_bytes
        self._held: dict[int, tuple[pa.RecordBatch, ...]] = {}
        self._spilled: dict[int, Part] = {}
        self._reserved: dict[int, int] = {}
        self._reserving = Lock()

    def __reduce__(self) -> tuple[type[ArrowParts], tuple[Path]]:
        return ArrowParts, (self._files.directory,)

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Hold the part's batches in memory while there is room."""
        self._forget(part)
        taken: list[pa.RecordBatch] = []
        given = (batch for batch in batches if batch.num_rows)
        for batch in given:
            taken.append(batch)
            if not self._reserve(part, batch.nbytes):
                self._forget(part)
                return self._files.write(part, chain(taken, given))
        self._held[part] = tuple(taken)
        return Part(part, sum(batch.num_rows for batch in taken))

    def _reserve(self, part: int, size: int) -> bool:
        with self._reserving:
            self._reserved[part] = self._reserved.get(part, 0) + size
            return sum(self._reserved.values()) <= self._most_bytes

    def _forget(self, part: int) -> None:
        with self._reserving:
            self._reserved.pop(part, None)
            self._held.pop(part, None)

    def attempt(self, parts: Sequence[Part]) -> Attempt:
        """What was written here and elsewhere. Raises SinkError unless it is exactly these parts."""
        ordered = sorted(parts, key=lambda part: part.number)
        ordered = [self._spilled.get(part.number, part) for part in ordered]
        files = [part for part in ordered if part.checksum != NO_FILE]
        paths = dict(zip(files, written_files(self._files.directory, files), strict=True))
        held: list[ArrowPart | tuple[pa.RecordBatch, ...]] = []
        for part in ordered:
            if part in paths:
                held.append(ArrowPart(paths[part], part.checksum))
            elif part.events:
                held.append(self._held[part.number])
        return Attempt(tuple(held))

    def spill(self, parts: Sequence[Part]) -> Attempt:
        """Write all parts to files, for tasks elsewhere; returns the attempt with them."""
        for number, batches in self._held.items():
            self._spilled[number] = self._files.write(number, batches)
        self._held.clear()
        self._reserved.clear()
        return self.attempt(parts)


@dataclass(frozen=True, slots=True)
class Attempt:
    """What an attempt has written, in the order of its parts: batches, or a file of them."""

    parts: tuple[ArrowPart | tuple[pa.RecordBatch, ...], ...]

    @property
    def bytes(self) -> int:
        """The size of all parts."""
        return sum(
            part.checksum.bytes if isinstance(part, ArrowPart) else _bytes(part) for part in self.parts
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every batch in order; files are memory-mapped and read on demand."""
        for part in self.parts:
            yield from part.batches() if isinstance(part, ArrowPart) else part

    def events(self) -> Counter[str]:
        """The number of events per topic."""
        found: Counter[str] = Counter()
        for batch in self.batches():
            names = batch.column("topic").dictionary.to_pylist()
            counts = np.bincount(batch.column("topic").indices.to_numpy(), minlength=len(names))
            found.update({name: int(count) for name, count in zip(names, counts, strict=True) if count})
        return found


def _bytes(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.nbytes for batch in batches)

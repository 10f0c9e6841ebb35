"""Staged rows of the core's world: READ events as values in memory, with their merge keys.

Forms with bytes in them are played by the sources' worlds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.errors import SourceError
from engine.snapshot.merge_key import KEY_TYPE
from engine.staging.rows import MERGE_KEY, survivors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Part
    from engine.snapshot.markers import Markers
    from engine.snapshot.merge import NewerKeys
    from engine.staging.rows import Survivors
    from tests.simulation.sink import Read, SimWriter

_KEYS = pa.schema([pa.field(MERGE_KEY.name, KEY_TYPE)])


class StagedReads:
    """Implements `StagedRows`: a run's READ events, until its window is closed."""

    def __init__(self, reads: Sequence[Read], merge_keys: Sequence[bytes]) -> None:
        self._reads: Sequence[Read] | None = reads
        self._merge_keys = merge_keys

    def clear(self) -> None:
        """Remove the rows."""
        self._reads = None

    def emit(self, newer: NewerKeys, marks: Markers, writer: Any, part: int) -> tuple[Part, Survivors]:  # noqa: ARG002  no event has markers
        """Write the surviving events."""
        if self._reads is None:
            raise SourceError("the staged rows are gone")
        keys = pa.RecordBatch.from_arrays([pa.array(self._merge_keys, KEY_TYPE)], schema=_KEYS)
        left = survivors([keys], newer)
        reads = self._reads
        if left.mask is not None:
            reads = [read for read, stays in zip(reads, left.mask.to_pylist(), strict=True) if stays]
        into: SimWriter = writer
        return into.write_reads(part, reads), left

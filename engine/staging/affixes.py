"""What surrounds the rows of a run in their events, and how rows get their snapshot markers. Pure.

All events of a run have the same schema, envelope and source block, so only a row's own text is staged with
each row. A snapshot marker is a value in the source block. So the source block is written once for each
marker before any row is rendered, and a marked row is put together with that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from engine.snapshot.markers import NO_MARKERS, Marker, Markers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

_METADATA = b"surroundings"


@dataclass(frozen=True, slots=True)
class Affixes:
    """The text before and after each row. `marked` has what comes after a row that carries a marker.

    A marker that is missing there is not shown.
    """

    before: str = ""
    after: str = ""
    marked: Mapping[str, str] = field(default_factory=dict)

    def behind(self, marker: Marker | None) -> str:
        """What comes after a row with this marker, if any."""
        return self.after if marker is None else self.marked.get(marker, self.after)

    def on(self, schema: pa.Schema) -> pa.Schema:
        """The schema with these texts in its metadata."""
        marked = {str(marker): text for marker, text in self.marked.items()}
        return schema.with_metadata({_METADATA: orjson.dumps([self.before, self.after, marked])})

    @classmethod
    def of(cls, schema: pa.Schema) -> Affixes:
        """The texts in a schema's metadata."""
        return cls(*orjson.loads(schema.metadata[_METADATA]))


def by_marker(
    batches: Iterable[pa.RecordBatch], marks: Markers
) -> Iterator[tuple[pa.RecordBatch, Marker | None]]:
    """The batches, in which the first and the last of all rows come alone if they carry a marker."""
    if marks == NO_MARKERS:
        yield from ((batch, None) for batch in batches)
        return
    waiting: pa.RecordBatch | None = None
    first = marks.first
    for batch in batches:
        if not batch.num_rows:
            continue
        if waiting is not None:
            yield from _apart(waiting, Markers(first))
            first = None
        waiting = batch
    if waiting is not None:
        yield from _apart(waiting, Markers(first, marks.last))


def _apart(batch: pa.RecordBatch, marks: Markers) -> Iterator[tuple[pa.RecordBatch, Marker | None]]:
    if batch.num_rows == 1:
        yield batch, marks.single
        return
    start, end = int(marks.first is not None), batch.num_rows - int(marks.last is not None)
    if start:
        yield batch.slice(0, 1), marks.first
    if start < end:
        yield batch.slice(start, end - start), None
    if end < batch.num_rows:
        yield batch.slice(end), marks.last

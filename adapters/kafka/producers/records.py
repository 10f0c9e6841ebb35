"""Batches of events as Kafka's records: in slices of bounded size, with their headers. Pure."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from engine.events.values.text import Ints


Record = tuple[str, bytes | None, bytes | None]
"""Topic, value and key, in the order of `Producer.produce`."""
Header = tuple[str, str | None]
_ROWS: Final = 10_000
"""The most events between two checks for failures."""
_BYTES: Final = pa.large_binary()
_TRUNCATED: Final = '{"before":null,"after":null,"source":'


def records_of(batch: pa.RecordBatch) -> Iterator[Record]:
    """The records of a batch, in order."""
    topic = batch.column("topic")
    names = topic.dictionary.to_pylist()
    topics = repeat(names[0]) if len(names) == 1 else np.array(names, object)[topic.indices.to_numpy()]
    value, key = (batch.column(name).cast(_BYTES).to_numpy(zero_copy_only=False) for name in ("value", "key"))
    return zip(topics, value, key)  # noqa: B905  one topic is repeated without end


def ends_of(batch: pa.RecordBatch) -> Ints:
    """Where each event's key and value would begin if all were concatenated."""
    ends = np.zeros(batch.num_rows + 1, np.int64)
    for name in ("key", "value"):
        lengths = pc.fill_null(pc.binary_length(batch.column(name)), 0)
        ends[1:] += lengths.to_numpy(zero_copy_only=False)
    return np.cumsum(ends)


def slice_end(ends: Ints, start: int, most_bytes: int) -> int:
    """The end of a slice: at least one event, at most `_ROWS` events, and otherwise at most `most_bytes`."""
    end = int(np.searchsorted(ends, ends[start] + most_bytes, "right")) - 1
    return min(max(end, start + 1), start + _ROWS, len(ends) - 1)


def headers_of(text: str | None) -> list[Header] | None:
    """Headers as Kafka Connect's JsonConverter writes them: each value as JSON text."""
    if text is None:
        return None
    return [(header["key"], header["value"]) for header in orjson.loads(text)]


def truncated(batch: pa.RecordBatch) -> set[str]:
    """The topics of this batch's truncates, which have no key and no row."""
    keyless = _keyless(batch)
    if not pc.any(keyless).as_py():
        return set()
    events = batch.filter(keyless)
    events = events.filter(pc.match_substring(events.column("value"), _TRUNCATED))
    return set(events.column("topic").cast(pa.string()).unique().to_pylist())


def between_truncates(
    batch: pa.RecordBatch, topics: Collection[str]
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The batch in pieces, of which truncates of these topics come alone, and are told by True."""
    at = 0
    for row in np.flatnonzero(_keyless(batch).to_numpy(zero_copy_only=False)).tolist():
        piece = batch.slice(row, 1)
        if truncated(piece).isdisjoint(topics):
            continue
        if at < row:
            yield batch.slice(at, row - at), False
        yield piece, True
        at = row + 1
    if at < batch.num_rows:
        yield batch.slice(at), False


def _keyless(batch: pa.RecordBatch) -> pa.BooleanArray:
    """Which events have a value and no key."""
    return pc.and_(pc.is_null(batch.column("key")), pc.is_valid(batch.column("value")))


def of_topics(batch: pa.RecordBatch, topics: frozenset[str]) -> pa.RecordBatch:
    """The events of a batch that go to these topics, in order."""
    column = batch.column("topic")
    mine = np.array([name in topics for name in column.dictionary.to_pylist()], bool)
    if mine.all():
        return batch
    return batch.filter(pa.array(mine[column.indices.to_numpy()]))


def without(batch: pa.RecordBatch, topics: Collection[str]) -> pa.RecordBatch:
    """The events of a batch that don't go to these topics, in order."""
    if not topics:
        return batch
    names = frozenset(batch.column("topic").dictionary.to_pylist())
    return of_topics(batch, names - frozenset(topics))

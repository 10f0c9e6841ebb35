"""Which partition a record's key belongs to, as librdkafka's `murmur2_random` and Java's clients say. Pure.

Owns how the events of large turns are shared among producers. All events of a key go to one producer, so
their order holds; and each producer has partitions of its own, so that its batches fill.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.text import text_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)


@dataclass(frozen=True, slots=True)
class Groups:
    """Some groups of a topic's partitions: those whose number modulo `count` is in `chosen`."""

    partitions: int
    count: int
    chosen: frozenset[int]


def of_groups(batch: pa.RecordBatch, share: Mapping[str, Groups]) -> pa.RecordBatch:
    """The events of a batch that belong to a share, in order. Those without a key belong to group 0."""
    column = batch.column("topic")
    names = column.dictionary.to_pylist()
    topics = column.indices.to_numpy()
    mine = np.array([name in share for name in names], bool)[topics]
    found = [(at, share[name]) for at, name in enumerate(names) if name in share]
    divided = [(at, groups) for at, groups in found if len(groups.chosen) < groups.count]
    if divided:
        hashes = key_hashes(batch.column("key"))
        for at, groups in divided:
            chosen = np.isin(hashes % groups.partitions % groups.count, list(groups.chosen))
            mine &= (topics != at) | chosen
    return batch if mine.all() else batch.filter(pa.array(mine))


def key_hashes(keys: pa.Array) -> NDArray[np.uint32]:
    """The hash of each key, whose remainder by the number of partitions is its partition; 0 for no key."""
    ends, data = text_parts(pc.fill_null(keys, ""))
    starts, lengths = ends[:-1] - ends[0], np.diff(ends).astype(np.uint32)
    content = np.concatenate([data[ends[0] : ends[-1]], np.zeros(4, np.uint8)])
    # Every four bytes, wherever they begin.
    words: NDArray[np.uint32] = np.ndarray((len(content) - 3,), "<u4", content, strides=(1,))
    found = np.uint32(_SEED) ^ lengths
    whole = lengths // 4
    left = np.arange(len(starts))
    for number in range(int(whole.max(initial=0))):
        left = left[whole[left] > number]
        word = words[starts[left] + 4 * number] * _M
        word = (word ^ (word >> np.uint32(24))) * _M
        found[left] = (found[left] * _M) ^ word
    rest = lengths % np.uint32(4)
    some = np.flatnonzero(rest)
    tails = words[starts[some] + 4 * whole[some].astype(np.int64)]
    tails &= (np.uint32(1) << (np.uint32(8) * rest[some])) - np.uint32(1)
    found[some] = (found[some] ^ tails) * _M
    found = (found ^ (found >> np.uint32(13))) * _M
    found = (found ^ (found >> np.uint32(15))) & _POSITIVE
    found[pc.is_null(keys).to_numpy(zero_copy_only=False)] = 0
    return found


def shares(events: Mapping[str, int], partitions: Mapping[str, int], tasks: int) -> list[dict[str, Groups]]:
    """Share topics among tasks, with about equal numbers of events; the largest ones first.

    `partitions` are those of the topics that may be divided; the others stay whole.
    """
    pieces = []
    for topic, count in events.items():
        groups = max(1, min(tasks, partitions.get(topic, 1)))
        pieces += [(count / groups, topic, group, groups) for group in range(groups)]
    found: list[dict[str, Groups]] = [{} for _ in range(min(tasks, len(pieces)))]
    loads = [0.0] * len(found)
    for load, topic, group, groups in sorted(pieces, key=lambda piece: -piece[0]):
        least = loads.index(min(loads))
        known = found[least].get(topic)
        chosen = frozenset([group]) if known is None else known.chosen | {group}
        found[least][topic] = Groups(partitions.get(topic, 1), groups, chosen)
        loads[least] += load
    return found

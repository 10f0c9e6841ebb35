"""Log entries as dead letters: entries of a table that is set aside, with their bytes.

A line has the entry's position, its transaction, its kind, and pgoutput's message in base64. Nothing in the
message is decoded. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from adapters.postgres.log.pgoutput import parse_truncate, read_messages
from adapters.postgres.log.timeline import timeline
from adapters.postgres.server.visibility import format_lsn
from engine.isolation.incomplete import letter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from adapters.postgres.log.timeline import SpanPart
    from engine.events.values.text import Ints

_ROWS = np.frombuffer(b"IUD", np.uint8)
_TRUNCATE = ord("T")
_WORDS = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}


@dataclass(frozen=True, slots=True)
class EntriesOf:
    """The entries of one relation in a span: their numbers in each part, and their transactions."""

    parts: Sequence[SpanPart]
    numbers: Sequence[Ints]
    xids: frozenset[int]

    @property
    def count(self) -> int:
        """The number of entries."""
        return sum(map(len, self.numbers))

    @property
    def size(self) -> int:
        """The approximate size of their lines, in bytes."""
        total = 100 * self.count
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            messages = read_messages(part.messages)
            total += 4 * int((messages.ends[numbers] - messages.starts[numbers]).sum()) // 3
        return total

    def lines(self) -> Iterator[bytes]:
        """One line of JSON per entry, in order."""
        for part, numbers in zip(self.parts, self.numbers, strict=True):
            messages = read_messages(part.messages)
            line = timeline(messages, part.context)
            for number in numbers.tolist():
                ordinal = line.ordinal[number]
                message = bytes(messages.data[messages.starts[number] : messages.ends[number]])
                position = f"{format_lsn(int(line.commit_lsns[ordinal]))}/{line.sequence[number]}"
                operation = _WORDS[chr(messages.kinds[number])]
                yield letter(position, int(line.xids[ordinal]), operation, message)


def entries_of(parts: Sequence[SpanPart], oids: Collection[int]) -> EntriesOf:
    """The entries of these relations; a truncate of several tables counts for each."""
    numbers, xids = [], set[int]()
    wanted = np.array(sorted(oids), np.int64)
    for part in parts:
        messages = read_messages(part.messages)
        rows = np.flatnonzero(np.isin(messages.kinds, _ROWS))
        mine = rows[np.isin(messages.int32(messages.starts[rows] + 1), wanted)]
        emptied = [
            number
            for number in np.flatnonzero(messages.kinds == _TRUNCATE).tolist()
            if not _of_none(messages.data[messages.starts[number] : messages.ends[number]].tobytes(), oids)
        ]
        found = np.sort(np.concatenate([mine, np.array(emptied, np.int64)]))
        numbers.append(found)
        line = timeline(messages, part.context)
        xids.update(line.xids[line.ordinal[found]].tolist())
    return EntriesOf(parts, numbers, frozenset(xids))


def _of_none(truncate: bytes, oids: Collection[int]) -> bool:
    """Whether a truncate affects none of these relations."""
    return not set(oids).intersection(parse_truncate(truncate))

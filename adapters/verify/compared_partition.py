"""Compares a partition of the rows seen with that of the events. Runs in tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from adapters.verify.event_lines import Lines, event_path, key_and_row, reading, source_of
from adapters.verify.partitions import keys_shown, partition_of
from engine.verify.compared_digests import digests_of_rows
from engine.verify.comparison import COPIED, SEEN_ROWS, Compared, EventPosition, compare
from engine.verify.copy import FIRST_KEYS, MOST_MENDED, ExtraRow, Findings
from engine.verify.event_history import folded, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.values.text import Ints
    from engine.verify.copy import Asked

_MOST_AGAIN: Final = 10_000
"""How many rows of a partition are looked at again because they have no event."""
_PLACE: Final = ("turn", "part", "offset", "size")


@dataclass(frozen=True, slots=True)
class ComparePartition:
    """The task that compares a partition of the rows seen with that of the events."""

    directory: str
    seen: tuple[str, ...]
    events: tuple[str, ...]
    truncates: tuple[EventPosition, ...]
    placeholders: tuple[bytes, ...]
    asked: Asked
    thins: bool = False

    def __call__(self, partition: int) -> Findings:
        """What differs in a partition."""
        with Lines() as lines:
            return self._findings(partition, lines)

    def _findings(self, partition: int, lines: Lines) -> Findings:
        seen = partition_of(self.seen, partition, SEEN_ROWS)
        copied = partition_of(self.events, partition, COPIED)
        turns = self.asked.span.since, self.asked.span.upto
        # Rows of a second look are new enough: nothing forgets the delete of a moment ago.
        thins = self.thins and self.asked.look <= self.asked.span.since
        found = compare(seen, copied, self.truncates, turns, thins=thins)
        if thins and len(found.undecided) > _MOST_AGAIN:
            # So many rows are not deleted by chance: the events are missing.
            found = compare(seen, copied, self.truncates, turns)
        different = self._different(found, seen, copied, lines)
        undecided = seen.take(pa.array(found.undecided))
        mends = self.asked.mends
        wrong = [*found.missing.tolist(), *different] if mends else []
        extra = self._settled(copied, found.extra, lines)
        older = set(found.older.tolist())
        numbers = {
            "missing": found.missing.tolist(),
            "different": [number for number in different if number not in older],
            "older": [number for number in different if number in older],
        }
        first = {kind: keys_shown(seen, rows[:FIRST_KEYS]) for kind, rows in numbers.items()}
        counts = {kind: len(rows) for kind, rows in numbers.items()}
        return Findings(
            found.equal + len(found.different) - len(different),
            found.changed,
            counts | {"extra": len(extra)},
            first | {"extra": self._extra(copied, extra[:FIRST_KEYS], lines)},
            tuple(
                zip(
                    undecided.column("merge_key").to_pylist(),
                    undecided.column("key").to_pylist(),
                    strict=True,
                )
            ),
            tuple(seen.column("merge_key").take(pa.array(wrong[:MOST_MENDED], pa.int64())).to_pylist()),
            _extra_rows(copied, extra[:MOST_MENDED]) if mends else (),
            len(found.extra) - len(extra),
        )

    def _settled(self, copied: pa.Table, events: Ints, lines: Lines) -> list[int]:
        """The events whose transactions the windows could see, file by file."""
        if not len(events):
            return []
        turn, part, offset, size = (copied.column(name).to_numpy()[events] for name in _PLACE)
        order = np.lexsort((offset, part, turn))
        found: list[int] = []
        for at in order.tolist():
            if turn[at] <= self.asked.earlier:
                found.append(int(events[at]))
                continue
            path = event_path(self.directory, int(turn[at]), int(part[at]))
            with reading(path):
                if self.asked.settled(source_of(lines.at(path, int(offset[at]), int(size[at])))):
                    found.append(int(events[at]))
        return found

    def _different(self, found: Compared, seen: pa.Table, copied: pa.Table, lines: Lines) -> list[int]:
        """The rows that differ also if their events are read column by column, if they have columns."""
        if not self.asked.columns:
            return [int(number) for number in found.different]
        wanted = seen.take(pa.array(found.different)).to_pylist()
        its = pa.compute.is_in(
            copied.column("key"), pa.array([row["key"] for row in wanted], SEEN_ROWS.types[0])
        )
        events: dict[bytes, list[dict[str, int]]] = {}
        for event in copied.filter(its).to_pylist():
            events.setdefault(event["key"], []).append(event)
        return [
            number
            for number, row in zip(found.different.tolist(), wanted, strict=True)
            if not self._says(events[row["key"]], row, lines)
        ]

    def _says(self, events: Sequence[dict[str, int]], seen: dict[str, Any], lines: Lines) -> bool:
        """Whether the events of a key up to the turn of a row seen say what was seen."""
        places = sorted((event["turn"], event["part"], event["offset"], event["size"]) for event in events)
        # What a truncate has emptied lends no value to a later event that lacks one.
        emptied = [(at.turn, at.part, at.offset) for at in self.truncates if at.turn <= seen["turn"]]
        since = max(emptied, default=(-1, 0, 0))
        said = [
            self._said(place, lines)
            for place in places
            if place[0] <= seen["turn"] and tuple(place[:3]) > since
        ]
        row = folded((text for _key, text in said), self.placeholders)
        if row is None:
            return False
        shown = texts(row, self.asked.columns)
        keys = [said[-1][0].decode()] * len(shown)
        digests = digests_of_rows(pa.array(keys, pa.large_string()), pa.array(shown, pa.large_string()))
        return seen["row"] in digests.to_pylist()

    def _extra(self, copied: pa.Table, events: Sequence[int], lines: Lines) -> tuple[str, ...]:
        """The keys of events, as their JSON."""
        places = copied.take(pa.array(events, pa.int64())).to_pylist()
        return tuple(self._said(tuple(at[name] for name in _PLACE), lines)[0].decode() for at in places)

    def _said(self, place: tuple[int, ...], lines: Lines) -> tuple[bytes, bytes | None]:
        """The key and row of the event at a place: turn, part, offset, size."""
        turn, part, offset, size = place
        path = event_path(self.directory, turn, part)
        with reading(path):
            return key_and_row(lines.at(path, offset, size))


def _extra_rows(copied: pa.Table, events: Sequence[int]) -> tuple[ExtraRow, ...]:
    names = ("key", "turn", "part", "offset", "size")
    rows = copied.select(names).take(pa.array(events, pa.int64())).to_pylist()
    return tuple(ExtraRow(*(row[name] for name in names)) for row in rows)

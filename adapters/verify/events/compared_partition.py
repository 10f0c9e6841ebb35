"""Compares a partition of the rows seen with that of the events. Runs in tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.verify.events.event_lines import Lines, event_path, key_and_row, reading, source_of
from adapters.verify.partitions import keys_shown, partition_of
from engine.verify.compared_digests import SEEN_ROWS, digests_of_rows
from engine.verify.comparison import COPIED, EventPosition, Keeps, compare
from engine.verify.copy import FIRST_KEYS, MOST_MENDED, ExtraRow, Findings
from engine.verify.event_history import folded, texts
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.values.text import Ints
    from engine.verify.copy import ComparisonRequest

_MOST_AGAIN: Final = 10_000
"""How many rows of a partition are looked at again because they have no event."""
_STATES_AT_ONCE: Final = 256
_PLACE: Final = ("turn", "part", "offset", "size")


@dataclass(frozen=True, slots=True)
class ComparePartition:
    """The task that compares a partition of the rows seen with that of the events."""

    directory: str
    seen: tuple[str, ...]
    events: tuple[str, ...]
    truncates: tuple[EventPosition, ...]
    placeholders: tuple[bytes, ...]
    asked: ComparisonRequest
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
        found = compare(seen, copied, self.truncates, turns, Keeps.LATEST if thins else Keeps.EVENTS)
        if thins and len(found.undecided) > _MOST_AGAIN:
            # So many rows are not deleted by chance: the events are missing.
            found = compare(seen, copied, self.truncates, turns)
        different = self._unlike(found.different, seen, copied, lines)
        left = self._unlike(found.undecided[:_MOST_AGAIN], seen, copied, lines)
        left += found.undecided[_MOST_AGAIN:].tolist()
        undecided = seen.take(pa.array(left, pa.int64()))
        kinds = seen.column("seen").to_numpy()
        superseded = int(
            (kinds[found.undecided] == SeenRow.SUPERSEDED).sum() - (kinds[left] == SeenRow.SUPERSEDED).sum()
        )
        like = len(found.different) - len(different) + len(found.undecided) - len(left) - superseded
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
            found.equal + like,
            found.changed + superseded,
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
            lacking=found.lacking,
        )

    def _settled(self, copied: pa.Table, events: Ints, lines: Lines) -> list[int]:
        """The events whose transactions the windows could see, file by file."""
        if not len(events):
            return []
        columns = [copied.column(name).to_numpy()[events] for name in _PLACE]
        order = np.lexsort(columns[2::-1])
        places = zip(*(column[order].tolist() for column in columns), strict=True)
        return [
            int(event)
            for event, place in zip(events[order], places, strict=True)
            if self._visible(place, lines)
        ]

    def _unlike(self, rows: Ints, seen: pa.Table, copied: pa.Table, lines: Lines) -> list[int]:
        """Those of the rows seen that their events don't say, read column by column, if they have columns."""
        if not self.asked.columns:
            return [int(number) for number in rows]
        wanted = seen.take(pa.array(rows))
        its = pc.is_in(copied.column("key"), wanted.column("key").combine_chunks())
        events: dict[bytes, list[dict[str, Any]]] = {}
        for event in copied.filter(its).to_pylist():
            events.setdefault(event["key"], []).append(event)
        return [
            number
            for number, row in zip(rows.tolist(), wanted.to_pylist(), strict=True)
            if not self._says(events.get(row["key"], []), row, lines)
        ]

    def _says(self, events: Sequence[dict[str, Any]], seen: dict[str, Any], lines: Lines) -> bool:
        """Whether the events of a key say what was seen.

        They must say it at the end of the row's turn. But a superseded row was read before some of the last
        events, and nobody knows before which. All events after `since` lack the same value, or the row would
        not be undecided. So it is enough if any of them, with the value of the event before them, says what
        was read, and if that one was visible to the window:

            events of the key   ── has v ── since ── lacks v ── lacks v ──┬── lacks v ── turn
                                                                        read: has v
        """
        if seen["row"] is None or any(event["ahead"] for event in events):
            return False
        places = sorted(tuple(event[name] for name in _PLACE) for event in events)
        # What a truncate has emptied lends no value to a later event that lacks one.
        emptied = [(at.turn, at.part, at.offset) for at in self.truncates if at.turn <= seen["turn"]]
        since = max(emptied, default=(-1, 0, 0))
        places = [place for place in places if place[0] <= seen["turn"] and place[:3] > since]
        superseded = seen["seen"] == SeenRow.SUPERSEDED
        begin = self.asked.span.since if superseded else seen["turn"]
        first = sum(place[0] <= begin for place in places) - 1
        if first < 0 or (superseded and not self._visible(places[first], lines)):
            return False
        said = [self._event_at(place, lines) for place in places]
        states = list(folded((text for _key, text in said), self.placeholders))[first:]
        # A window has most probably read one of the last states.
        return any(
            self._shows(said[-1][0].decode(), states[max(end - _STATES_AT_ONCE, 0) : end], seen["row"])
            for end in range(len(states), 0, -_STATES_AT_ONCE)
        )

    def _shows(self, key: str, states: Sequence[dict[str, bytes] | None], digest: bytes) -> bool:
        """Whether one of these rows of a key has this digest, in one of the lists of columns."""
        shown = [text for row in states if row is not None for text in texts(row, self.asked.columns)]
        keys = pa.array([key] * len(shown), pa.large_string())
        return digest in digests_of_rows(keys, pa.array(shown, pa.large_string())).to_pylist()

    def _visible(self, place: tuple[int, ...], lines: Lines) -> bool:
        """Whether measuring and all windows could see the event at a place."""
        turn, part, offset, size = place
        if turn <= self.asked.earlier:
            return True
        path = event_path(self.directory, turn, part)
        with reading(path):
            return self.asked.settled(source_of(lines.at(path, offset, size)))

    def _extra(self, copied: pa.Table, events: Sequence[int], lines: Lines) -> tuple[str, ...]:
        """The keys of events, as their JSON."""
        places = copied.take(pa.array(events, pa.int64())).to_pylist()
        return tuple(self._event_at(tuple(at[name] for name in _PLACE), lines)[0].decode() for at in places)

    def _event_at(self, place: tuple[int, ...], lines: Lines) -> tuple[bytes, bytes | None]:
        """The key and row of the event at a place: turn, part, offset, size."""
        turn, part, offset, size = place
        path = event_path(self.directory, turn, part)
        with reading(path):
            return key_and_row(lines.at(path, offset, size))


def _extra_rows(copied: pa.Table, events: Sequence[int]) -> tuple[ExtraRow, ...]:
    names = ("key", "turn", "part", "offset", "size")
    rows = copied.select(names).take(pa.array(events, pa.int64())).to_pylist()
    return tuple(ExtraRow(*(row[name] for name in names)) for row in rows)

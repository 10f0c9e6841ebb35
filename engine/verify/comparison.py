"""Compares rows that windows have read with the events of a copy, by their digests. Pure.

A row that survives its window is what a consumer must hold that has applied all turns up to the window's. So
the row is compared with the last event of its key up to that turn. What came later says whether a difference
still counts:

    turns of the copy  ── e1 ──┬── e2 ──── W ──── e3 ──┬──►
                               since                   upto

    W    the turn in which the row's window was emitted: the row must be what e2 says
    e3   differs from the row, and heals whatever was wrong with e2

- *Equal*: the event says what was read.
- *Missing*, *different*: it does not, and no event follows. *Older* is different, too: an earlier event says
  what was read, and the last one repeats what an event before that one said.
- *Extra*: no window has read the key, and its last event, which says there is a row, is no newer than
  `since`. The stream has carried nothing for the key since then, so the source had no row when the key's
  range was read.
- *Changed*: the stream has sent the whole row anew, after the window or, for a row that was superseded in it
  or that no window has read, after `since`. Nothing is claimed of it beyond that the job has sent it.
- *Lacking*: no window has read the key, and its events since it was new, or since `since`, all lack a value.
  PostgreSQL's do where a row moves to another key and its large value does not change: whoever knows rows by
  their keys does not have that value. All must be read again.
- *Undecided*: it must be looked at again. Its row was superseded by an entry that had been sent before
  `since`, such a row has moved to its key, events that lack a value follow a difference, the event that
  differs may be ahead of its place, or there is no event of it at all in a copy that forgets deletes. Events
  that lack a value may still decide it, column by column (`event_history.py`).

`since` is a turn before the collection was measured. An event that lacks a value heals nothing by itself.
An event is *ahead* if the row in it may be later than its place in the log: MongoDB looks an updated document
up when the event is read. What made it later follows in the log, perhaps only after `upto`:

    cluster time    ── u1 ─────── T: window reads ── u2 ──── u1 is read from the log
    document           a          a                  b       so the event of u1 says b; that of u2 follows

Digests that differ don't prove that rows do: `different` are candidates, which `event_history.py` examines.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from engine.verify.compared_digests import DIGEST, refuse_shared_keys
from engine.verify.seen_row import SeenRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]


class Keeps(Enum):
    """What a copy keeps of the events that it was sent."""

    EVENTS = auto()
    """Every one."""
    LATEST = auto()
    """At least the last one of each key, unless that is a delete."""
    ROWS = auto()
    """The rows. Values that events lack were looked up, wherever the row had them before."""


COPIED: Final = pa.schema(
    [
        ("key", DIGEST),
        ("row", DIGEST),
        ("turn", pa.int64()),
        ("part", pa.int64()),
        ("offset", pa.int64()),
        ("size", pa.int64()),
        ("lacks", pa.bool_()),
        ("ahead", pa.bool_()),
    ]
)
"""Events of a copy, with where they stand. A null row is a delete, unless the event `lacks` it.

`lacks`: a value may be missing in it, or its whole row: MongoDB does not find an updated document any more.
`ahead`: its row may be later than what a window has read.
"""
_NEVER: Final = np.iinfo(np.int64).max
_TURNS: Final = 1 << 40
"""More than there are turns."""


@dataclass(frozen=True, slots=True)
class EventPosition:
    """Where an event stands: in which turn, in which part of it, at which byte."""

    turn: int
    part: int
    offset: int


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The outcome: how many rows are equal or changed, and the numbers of the others.

    `missing`, `different` and `undecided` are numbers of rows seen, `extra` of events. `older` are some of
    `different`. `lacking` counts rows that no window has read, and whose later events all lack a value.
    """

    equal: int
    changed: int
    missing: Ints
    different: Ints
    older: Ints
    undecided: Ints
    extra: Ints
    lacking: int


def compare(
    seen: pa.Table,
    copied: pa.Table,
    truncates: Sequence[EventPosition],
    turns: tuple[int, int],
    keeps: Keeps = Keeps.EVENTS,
) -> ComparisonResult:
    """Compare rows of SEEN_ROWS with events of COPIED.

    `turns` are `since` and `upto`. Later events don't count. Raises SourceError if rows share an event key.
    """
    since, upto = turns
    ids_seen, ids, count = _ids(seen, copied)
    before = [place for place in truncates if place.turn <= upto]
    history = _History(copied, ids, before, count, upto, keeps)
    latest = np.full(count, -1, np.int64)
    np.maximum.at(latest, ids_seen, np.arange(len(ids_seen)))
    refuse_shared_keys(seen, latest[ids_seen])
    rows = latest[latest >= 0]
    its = ids_seen[rows]
    kind = _ints(seen, "seen")[rows]
    when = _ints(seen, "turn")[rows]
    at, live, ahead = history.as_of(its, when)
    same = live & _same(seen.column("row"), rows, copied.column("row"), at)
    wrong = ((kind == SeenRow.ROW) & ~same) | ((kind == SeenRow.ABSENT) & live)
    changed = wrong & (history.whole[its] > when)
    changed |= (kind == SeenRow.SUPERSEDED) & (history.whole[its] > since)
    moved = history.baseless[its] & ((history.newest[its] > when) | (kind == SeenRow.SUPERSEDED))
    changed &= ~moved
    open_ = moved | wrong & ~changed & ((history.newest[its] > when) | ahead)
    open_ |= (kind == SeenRow.SUPERSEDED) & ~changed
    if keeps is Keeps.LATEST:
        # The row may have been deleted after its window, and the delete be gone.
        open_ |= wrong & ~changed & (history.newest[its] < 0)
    left = wrong & ~changed & ~open_
    unread, new, lacking = history.unread(latest < 0, since)
    other = left & (kind == SeenRow.ROW) & live
    return ComparisonResult(
        equal=int((same & ~moved & (kind == SeenRow.ROW)).sum()),
        changed=int(changed.sum()) + new,
        missing=rows[left & (kind == SeenRow.ROW) & ~live],
        different=rows[other],
        older=rows[other][
            history.gone_back(its[other], when[other], _words(seen.column("row"))[rows[other]], at[other])
        ],
        undecided=rows[open_],
        extra=np.concatenate((at[left & (kind == SeenRow.ABSENT)], unread)),
        lacking=lacking,
    )


class _History:
    """The events of a copy up to a turn, by key.

    `whole` and `newest` are the turn of each key's last event that lacks nothing, and of its last one; -1 if
    there is none. A truncate counts for every key. The row of `baseless` keys lacks a value, and none of the
    events since its last delete has that.
    """

    def __init__(
        self,
        copied: pa.Table,
        ids: Ints,
        truncates: Sequence[EventPosition],
        count: int,
        upto: int,
        keeps: Keeps,
    ) -> None:
        turn, part, offset = (_ints(copied, name) for name in ("turn", "part", "offset"))
        inside = np.flatnonzero(turn <= upto)
        order = np.lexsort((offset[inside], part[inside], turn[inside], ids[inside]))
        self._at = inside[order]
        self._ids, self._turn = ids[self._at], turn[self._at]
        self._places = self._ids * _TURNS + self._turn
        self._row = _mask(copied.column("row").is_valid())[self._at]
        self._words = _words(copied.column("row"))
        self._gone = np.full(len(self._at), _NEVER)
        part, offset = part[self._at], offset[self._at]
        for place in truncates:
            same_part = (part == place.part) & (offset < place.offset)
            before = (self._turn < place.turn) | (
                (self._turn == place.turn) & ((part < place.part) | same_part)
            )
            self._gone[before] = np.minimum(self._gone[before], place.turn)
        emptied = max((place.turn for place in truncates), default=-1)
        self.newest = np.full(count, emptied)
        np.maximum.at(self.newest, self._ids, self._turn)
        self._ahead = _mask(copied.column("ahead"))[self._at]
        lacks = _mask(copied.column("lacks"))[self._at]
        self.whole = np.full(count, emptied)
        np.maximum.at(self.whole, self._ids[~lacks], self._turn[~lacks])
        self._stands = self._gone == _NEVER
        self._live = self._row | self._kept(lacks & ~self._row, keeps)
        # What lends its values to later events that lack them: a whole row, unless a delete follows.
        base = self._latest(~lacks | (keeps is Keeps.ROWS))
        self._base_turn = np.where((base >= 0) & self._row[base] & self._stands[base], self._turn[base], -1)
        self._last = np.flatnonzero(np.diff(self._ids, append=-1))
        self.baseless = np.zeros(count, np.bool_)
        self.baseless[self._ids[self._last]] = (self._live & self._stands & (self._base_turn < 0))[self._last]

    def _latest(self, chosen: Mask) -> Ints:
        """For each event the number of the last chosen one of its key up to it; -1 if there is none."""
        found = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))
        latest: Ints = np.where((found >= 0) & (self._ids[found] == self._ids), found, -1)
        return latest

    def _kept(self, lacking: Mask, keeps: Keeps) -> Mask:
        """Where updates without their rows follow an event with a row: a consumer keeps what it has of it.

        Where events may have been lost, the one that they followed may be among them.
        """
        if keeps is Keeps.LATEST:
            return lacking
        before = self._latest(~lacking)
        kept: Mask = lacking & (before >= 0) & self._row[before] & self._stands[before]
        return kept

    def as_of(self, ids: Ints, turns: Ints) -> tuple[Ints, Mask, Mask]:
        """For each key its last event up to a turn, whether it says: a row, and whether it is ahead.

        Where there is no event it is any, and both are false.
        """
        if not len(self._at):
            none = np.zeros(len(ids), np.bool_)
            return np.zeros(len(ids), np.int64), none, none
        found = np.searchsorted(self._places, ids * _TURNS + turns, side="right") - 1
        known = found >= 0
        found = np.maximum(found, 0)
        known &= self._ids[found] == ids
        live = known & self._live[found] & (self._gone[found] > turns)
        return self._at[found], live, known & self._ahead[found]

    def gone_back(self, ids: Ints, turns: Ints, rows: NDArray[np.uint64], at: Ints) -> Mask:
        """Whether a key's last event up to a turn, at `at`, repeats one from before an event with this row.

        `rows` are digests in two words.
        """
        first = np.searchsorted(self._ids, ids, side="left")
        counts = np.searchsorted(self._places, ids * _TURNS + turns, side="right") - first
        owner = np.repeat(np.arange(len(ids)), counts)
        skipped = np.repeat(first - (np.cumsum(counts) - counts), counts)
        event = np.arange(len(owner)) + skipped
        said = self._words[self._at[event]]
        right = self._row[event] & (said == rows[owner]).all(axis=1)
        same = self._row[event] & (said == self._words[at][owner]).all(axis=1)
        latest, earliest = np.full(len(ids), -1), np.full(len(ids), _NEVER)
        np.maximum.at(latest, owner[right], event[right])
        np.minimum.at(earliest, owner[same], event[same])
        back: Mask = earliest < latest
        return back

    def unread(self, unread: Mask, since: int) -> tuple[Ints, int, int]:
        """The last events of unread keys that say: a row.

        Returns those up to `since`, how many came later, and how many keys lack a value in all that did.
        """
        last = self._last[(self._live & self._stands)[self._last]]
        last = last[unread[self._ids[last]]]
        old = self._turn[last] <= since
        based = self._base_turn[last] > since
        return self._at[last[old]], int((~old & based).sum()), int((~old & ~based).sum())


def _ids(seen: pa.Table, copied: pa.Table) -> tuple[Ints, Ints, int]:
    """A number for each key, alike on both sides, and how many keys there are."""
    keys = pa.chunked_array([*seen.column("key").chunks, *copied.column("key").chunks], DIGEST)
    coded = keys.combine_chunks().dictionary_encode()
    ids = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return ids[: len(seen)], ids[len(seen) :], len(coded.dictionary)


def _same(rows: pa.ChunkedArray, at: Ints, others: pa.ChunkedArray, where: Ints) -> Mask:
    """Whether the digests at these places are equal."""
    if not len(others) or not len(rows):
        return np.zeros(len(at), np.bool_)
    equal: Mask = (_words(rows)[at] == _words(others)[where]).all(axis=1)
    return equal


def _words(digests: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Digests as two integers each; anything for null."""
    array = digests.combine_chunks()
    chunk = array if isinstance(array, pa.Array) else array.chunk(0)
    words = np.frombuffer(chunk.buffers()[1], np.uint64).reshape(-1, 2)
    return words[chunk.offset : chunk.offset + len(chunk)]


def _ints(table: pa.Table, name: str) -> Ints:
    found: Ints = table.column(name).to_numpy().astype(np.int64)
    return found


def _mask(column: pa.ChunkedArray) -> Mask:
    found: Mask = column.to_numpy()
    return found

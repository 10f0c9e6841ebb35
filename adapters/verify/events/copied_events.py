"""Reads the events of a topic from files, and sorts them into partitions by key. Runs in tasks.

An event becomes the digests of its key and row, and the place of its line. So little is kept of each that all
events of a partition fit into memory, and a line is read again only where rows differ.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from adapters.verify.events.event_lines import events_in
from adapters.verify.partitions import write_partitions
from engine.errors import SourceError
from engine.verify.compared_digests import DIGEST, SEEN_ROWS, bare_keys, digests_of_rows, key_digests
from engine.verify.comparison import COPIED, EventPosition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

_AT_ONCE: Final = 16 << 20
"""How many bytes of a file are decoded at once."""
_SEEN_AT_ONCE: Final = 1_000_000
_TEXT: Final = pa.large_binary()


@dataclass(frozen=True, slots=True)
class Traits:
    """What is peculiar to a source's events.

    `placeholders` are the texts that stand in them for values that the log left out. With `looked_up` the row
    of an update was looked up when its event was read: it may be later than the event, or be missing.
    `in_order`: the parts of a turn are in the order of the log, and not only the events of each key. `thins`:
    events that others of their key follow may be gone, and deletes with all before them.
    """

    placeholders: tuple[bytes, ...] = ()
    looked_up: bool = False
    in_order: bool = True
    thins: bool = False


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file of a turn's events."""

    turn: int
    part: int
    path: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """Whole lines of a file, from this offset on. The last one ends in a line break, too."""

    file: EventFile
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class SortedEvents:
    """A file with a batch for each partition, and where the collection was truncated."""

    path: str
    truncates: tuple[EventPosition, ...] = ()


@dataclass(frozen=True, slots=True)
class SortEvents:
    """The task that reads some files. The result goes below `directory`.

    Rows that were looked up for events of turns after `look` may be later than what windows have read.
    """

    directory: str
    topic: str
    traits: Traits
    partitions: int
    look: int = 0

    def __call__(self, numbered: tuple[int, Sequence[EventFile]]) -> SortedEvents:
        """Sort the events of these files. Raises SourceError if a line is no event with a key."""
        number, files = numbered
        table, truncates = self.events(files)
        path = f"{self.directory}/events-{number}.arrow"
        write_partitions(path, table, self.partitions)
        return SortedEvents(path, tuple(truncates))

    def events(self, files: Sequence[EventFile]) -> tuple[pa.Table, list[EventPosition]]:
        """The events of these files as COPIED, and where the collection was truncated."""
        tables: list[pa.Table] = []
        truncates: list[EventPosition] = []
        for pieces in _together(files):
            table, emptied = self._sorted(pieces)
            tables.append(table)
            truncates += emptied
        return pa.concat_tables(tables or [COPIED.empty_table()]), truncates

    def _sorted(self, pieces: Sequence[_Piece]) -> tuple[pa.Table, list[EventPosition]]:
        try:
            return self._decoded(pieces)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if len(pieces) == 1:
                raise SourceError(f"a line is no event: {error}", where=pieces[0].file.path) from error
        # One of them is damaged, or they were written under different settings.
        found = [self._sorted([piece]) for piece in pieces]
        return pa.concat_tables(table for table, _places in found), [
            place for _table, places in found for place in places
        ]

    def _decoded(self, pieces: Sequence[_Piece]) -> tuple[pa.Table, list[EventPosition]]:
        """The events of some pieces, decoded together: there may be very many small files."""
        text = b"".join(piece.content for piece in pieces)
        lines, starts, sizes = _lines(text, self.topic)
        raw_keys, found = events_in(lines)
        keys = pa.array(list(map(bytes, raw_keys)), _TEXT)
        has = np.fromiter(map(bool, found), np.bool_, len(found))
        payloads = [payload for payload in found if payload]
        ops = _spread(pa.array(map(attrgetter("op"), payloads), pa.string()), has)
        rows = _spread(pa.array(list(map(bytes, map(attrgetter("after"), payloads))), _TEXT), has)
        emptied = pc.fill_null(pc.equal(ops, "t"), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        if emptied.any() and not self.traits.in_order:
            raise SourceError(
                "it was truncated, and nothing tells which rows of its topic's partitions came before",
                where=self.topic,
            )
        begins = np.cumsum([0, *(len(piece.content) for piece in pieces)])[:-1]
        at = np.searchsorted(begins, starts, side="right") - 1
        keyless = pc.equal(keys, b"null").to_numpy(zero_copy_only=False) & ~emptied
        if keyless.any():
            place = pieces[int(at[keyless][0])].file.path
            raise SourceError("an event has no key, so its row can't be found", where=place)
        own = {
            "turn": np.array([piece.file.turn for piece in pieces], np.int64)[at],
            "part": np.array([piece.file.part for piece in pieces], np.int64)[at],
            "offset": starts + (np.array([piece.offset for piece in pieces], np.int64) - begins)[at],
            "size": sizes,
        }
        where = (own[name][emptied].tolist() for name in ("turn", "part", "offset"))
        chosen = pa.array(~emptied)
        placeholders = [placeholder for placeholder in self.traits.placeholders if placeholder in text]
        late = pa.array(own["turn"][~emptied] > self.look)
        events = pa.table(
            [keys.filter(chosen), ops.filter(chosen), rows.filter(chosen), late],
            names=["key", "op", "row", "late"],
        )
        table = self._digests(events.combine_chunks(), placeholders)
        columns = [
            pa.array(own[name][~emptied]) if name in own else table.column(name) for name in COPIED.names
        ]
        return pa.Table.from_arrays(columns, schema=COPIED), [
            EventPosition(*position) for position in zip(*where, strict=True)
        ]

    def _digests(self, events: pa.Table, placeholders: Sequence[bytes]) -> pa.Table:
        """The columns `key`, `row`, `lacks` and `ahead`."""
        keys, ops, rows, late = (_one_chunk(events.column(name)) for name in events.column_names)
        bare = bare_keys(keys.cast(pa.large_string()))
        no_row = pc.fill_null(pc.equal(rows, b"null"), True)  # noqa: FBT003
        gone = pc.or_(pc.fill_null(pc.equal(ops, "d"), True), no_row)  # noqa: FBT003
        texts = _unquoted(pc.if_else(gone, pa.scalar(b"", _TEXT), rows))
        digests = digests_of_rows(bare, texts.cast(pa.large_string()))
        lacks = ahead = pa.repeat(pa.scalar(False), len(rows))  # noqa: FBT003
        if self.traits.looked_up:
            updates = pc.fill_null(pc.equal(ops, "u"), False)  # noqa: FBT003
            lacks, ahead = pc.and_(updates, no_row), pc.and_(updates, late)
        for placeholder in placeholders:
            logged = pc.fill_null(pc.not_equal(ops, "r"), False)  # noqa: FBT003  only the log leaves values out
            lacks = pc.or_(lacks, pc.and_(logged, pc.match_substring(texts, placeholder)))
        columns = [key_digests(bare), pc.if_else(gone, pa.scalar(None, DIGEST), digests), lacks, ahead]
        return pa.table(columns, names=["key", "row", "lacks", "ahead"])


@dataclass(frozen=True, slots=True)
class SortSeen:
    """The task that sorts the rows that windows have seen."""

    directory: str
    partitions: int

    def __call__(self, path: str) -> list[SortedEvents]:
        """Sort a file of SEEN_ROWS. Each result has some of the rows, in their order."""
        found: list[SortedEvents] = []
        with pa.memory_map(path) as file, pa.ipc.open_stream(file) as stream:
            waiting: list[pa.RecordBatch] = []
            for batch in stream:
                waiting.append(batch)
                if sum(map(len, waiting)) >= _SEEN_AT_ONCE:
                    found.append(self._written(len(found), waiting))
                    waiting = []
            return [*found, self._written(len(found), waiting)]

    def _written(self, number: int, batches: Sequence[pa.RecordBatch]) -> SortedEvents:
        path = f"{self.directory}/seen-{number}.arrow"
        write_partitions(path, pa.Table.from_batches(batches, SEEN_ROWS), self.partitions)
        return SortedEvents(path)


def _together(files: Sequence[EventFile]) -> Iterator[list[_Piece]]:
    """The files in pieces, some of which are decoded together."""
    waiting: list[_Piece] = []
    size = 0
    for file in files:
        for offset, content in _pieces(file.path):
            ended = content if content.endswith(b"\n") else content + b"\n"
            waiting.append(_Piece(file, offset, ended))
            size += len(ended)
            if size >= _AT_ONCE:
                yield waiting
                waiting, size = [], 0
    if waiting:
        yield waiting


def _pieces(path: str) -> Iterator[tuple[int, bytes]]:
    """A file in pieces of whole lines, each with its offset."""
    with Path(path).open("rb") as file:
        size = file.seek(0, 2)
        if not size:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            start = 0
            while start < size:
                end = content.rfind(b"\n", start, start + _AT_ONCE) + 1
                if not end:
                    end = content.find(b"\n", start) + 1 or size
                yield start, content[start:end]
                start = end


def _lines(piece: bytes, topic: str) -> tuple[list[bytes], Ints, Ints]:
    """The lines with events of a topic, where each begins, and its size. Blanks may precede an event.

    The piece ends in a line break.
    """
    signs = np.frombuffer(piece, np.uint8)
    ends = np.flatnonzero(signs == ord("\n")) + 1
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    begin = b'{"topic":' + orjson.dumps(topic) + b","
    its = _begin_with(signs, starts, begin)
    blank = np.flatnonzero(signs[starts] == ord(" "))
    spaced = re.compile(b" +" + re.escape(begin))
    its[blank] = [spaced.match(piece, start) is not None for start in starts[blank].tolist()]
    starts, ends = starts[its], ends[its]
    lines = list(map(piece.__getitem__, map(slice, starts.tolist(), ends.tolist())))
    return lines, starts, ends - starts


def _begin_with(signs: NDArray[np.uint8], starts: Ints, begin: bytes) -> NDArray[np.bool_]:
    """Whether these bytes are at each place."""
    its = starts + len(begin) <= len(signs)
    for at, sign in enumerate(begin):
        candidates = np.flatnonzero(its)
        its[candidates] = signs[starts[candidates] + at] == sign
    return its


def _spread(present: pa.Array, has: NDArray[np.bool_]) -> pa.Array:
    """The values at the places that have one; null elsewhere."""
    places = pa.array(np.cumsum(has) - 1, mask=~has)
    return present.take(places)


def _unquoted(rows: pa.Array) -> pa.Array:
    """The rows; of MongoDB's, which are JSON in a string, what is between the quotes."""
    quoted = pc.starts_with(rows, b'"')
    return pc.if_else(quoted, pc.binary_slice(rows, 1, -1), rows) if pc.any(quoted).as_py() else rows


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

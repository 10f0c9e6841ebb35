"""A directory of the files sink as a copy: what its events say of each row, turn by turn.

The directory keeps every event, so it knows what it held after any turn. Tasks sort the events into
partitions by key, and further tasks compare a partition at a time. A task's memory depends on the events of
a partition, and there are up to 256 of them.

Owns the tasks' order and the texts of what differs. `engine/verify/comparison.py` decides what differs.
"""

from __future__ import annotations

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from adapters.staging.turn_parts import turn_name
from adapters.verify.copied_events import (
    EventFile,
    Lines,
    SortEvents,
    SortSeen,
    Traits,
    key_and_row,
    partition_of,
    source_of,
)
from engine.errors import SourceError
from engine.snapshot.merge_key import key_of
from engine.staging.files import sink_errors
from engine.verify.compared_digests import digests_of_rows
from engine.verify.comparison import COPIED, SEEN_ROWS, Compared, Place, compare
from engine.verify.copy import FIRST_KEYS, MOST_MENDED, ExtraRow, Findings, Touched
from engine.verify.event_history import folded, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from concurrent.futures import Future

    from engine.events.values.text import Ints
    from engine.ports.executors import Executors
    from engine.verify.copy import Asked, SeenRows, Span

_TURN: Final = re.compile(r"turn-(\d{12,})")
_PART: Final = re.compile(r"part-(\d+)\.jsonl")
_ITEM_BYTES: Final = 64 << 20
"""How many bytes of events a task reads."""
_PARTITION_BYTES: Final = 256 << 20
"""How many bytes of events have the keys of a partition, if there are partitions enough."""
_PARTITION_ROWS: Final = 500_000
_MOST_PARTITIONS: Final = 256
_MOST_AGAIN: Final = 10_000
"""How many rows of a partition are looked at again because they have no event."""
_PLACE: Final = ("turn", "part", "offset", "size")
_FOLLOWED_BYTES: Final = 1 << 20
"""How many bytes of later turns are read at once while the stream waits."""


@dataclass(frozen=True, slots=True)
class ComparePartition:
    """The task that compares a partition of the rows seen with that of the events."""

    directory: str
    seen: tuple[str, ...]
    events: tuple[str, ...]
    truncates: tuple[Place, ...]
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
        span = self.asked.span
        # Rows of a second look are new enough: nothing forgets the delete of a moment ago.
        thins = self.thins and self.asked.look <= span.since
        found = compare(seen, copied, self.truncates, (span.since, span.upto), thins=thins)
        if thins and len(found.undecided) > _MOST_AGAIN:
            # So many rows are not deleted by chance: the events are missing.
            found = compare(seen, copied, self.truncates, (span.since, span.upto))
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
        first = {kind: _named(seen, rows[:FIRST_KEYS]) for kind, rows in numbers.items()}
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
            path = _path(self.directory, int(turn[at]), int(part[at]))
            with _reading(path):
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
        path = _path(self.directory, turn, part)
        with _reading(path):
            return key_and_row(lines.at(path, offset, size))


class FilesCopy:
    """Implements `Copy` for the directory of a files sink. Tasks keep what they sort below `work`."""

    def __init__(self, directory: str, work: str, executors: Executors, traits: Traits) -> None:
        self._directory = str(Path(directory).absolute())
        self._work, self._executors, self._traits = work, executors, traits

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Do nothing: a turn is a directory."""

    def refusal(self) -> str:
        """None: a directory can always be compared."""
        return ""

    def compare(
        self,
        topic: str,
        seen: tuple[SeenRows, int],
        asked: Asked,
        before: Callable[[], None] = lambda: None,
    ) -> FilesComparison:
        """Begin to compare, in a thread that waits for the tasks. It calls `before` first."""
        rows, ticket = seen
        work = f"{self._work}/{ticket}"
        sorting = _Sorting(self._directory, work, topic, rows.path(ticket), rows.rows(ticket))
        return FilesComparison(self._executors, sorting, self._traits, (asked, before))

    def touched(self, topic: str, span: Span) -> Touched:
        """Read the events of the next turns: at least one, then some of them."""
        files: list[EventFile] = []
        size, upto = 0, span.since
        while upto < span.upto and size < _FOLLOWED_BYTES:
            upto += 1
            if Path(_turn_path(self._directory, upto)).is_dir():
                for file, its in _parts(self._directory, upto):
                    files.append(file)
                    size += its
        events, truncates = SortEvents("", topic, Traits(), 1).events(files)
        return Touched(frozenset(events.column("key").to_pylist()), upto, bool(truncates))

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:  # noqa: ARG002
        """Read the lines, whichever topic they are of."""
        found: list[tuple[str, str | None]] = []
        with Lines() as lines:
            for row in extra:
                path = _path(self._directory, row.turn, row.part)
                with _reading(path):
                    key, text = key_and_row(lines.at(path, row.offset, row.size))
                found.append((key.decode(), None if text is None else text.decode()))
        return found


@dataclass(frozen=True, slots=True)
class _Sorting:
    """What is to be sorted: a topic's events in `directory`, and the rows seen. Results go below `work`."""

    directory: str
    work: str
    topic: str
    seen: str
    rows: int


class FilesComparison:
    """A comparison in a thread."""

    def __init__(
        self,
        executors: Executors,
        sorting: _Sorting,
        traits: Traits,
        asked: tuple[Asked, Callable[[], None]],
    ) -> None:
        self._executors, self._sorting, self._traits = executors, sorting, traits
        self._asked, self._before = asked
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-verify")
        self._found: Future[Findings] = self._pool.submit(copy_context().run, self._run)

    def poll(self) -> Findings | None:
        """What was found, once the tasks have ended."""
        return self._found.result() if self._found.done() else None

    def close(self) -> None:
        """Forget it. Tasks that run end by themselves; those after them don't begin."""
        self._found.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> Findings:
        sorting = self._sorting
        shutil.rmtree(sorting.work, ignore_errors=True)
        try:
            with sink_errors(sorting.work):
                Path(sorting.work).mkdir(parents=True)
            self._before()
            return self._compared()
        finally:
            shutil.rmtree(sorting.work, ignore_errors=True)

    def _compared(self) -> Findings:
        sorting, asked = self._sorting, self._asked
        items, size = _items(sorting.directory, asked.span.upto)
        partitions = _partitions(size, sorting.rows)
        sort = SortEvents(sorting.work, sorting.topic, self._traits, partitions, asked.look)
        events = self._executors.map(sort, list(enumerate(items)))
        (seen,) = self._executors.map(SortSeen(sorting.work, partitions), [sorting.seen])
        compared = ComparePartition(
            sorting.directory,
            tuple(one.path for one in seen),
            tuple(one.path for one in events),
            tuple(place for one in events for place in one.truncates),
            self._traits.placeholders,
            asked,
            self._traits.thins,
        )
        return reduce(or_, self._executors.map(compared, range(partitions)), Findings())


def _items(directory: str, upto: int) -> tuple[list[list[EventFile]], int]:
    """The files of turns up to this one, some for each task; and the bytes of all."""
    items: list[list[EventFile]] = []
    total = left = 0
    for file, size in _files(directory, upto):
        if left <= 0:
            items.append([])
            left = _ITEM_BYTES
        items[-1].append(file)
        left -= size
        total += size
    return items, total


def _files(directory: str, upto: int) -> Iterator[tuple[EventFile, int]]:
    with sink_errors(directory), os.scandir(directory) as turns:
        found = sorted(int(match[1]) for turn in turns if (match := _TURN.fullmatch(turn.name)))
    for turn in found:
        if turn <= upto:
            yield from _parts(directory, turn)


def _parts(directory: str, turn: int) -> Iterator[tuple[EventFile, int]]:
    """The files of a turn that has events, with their sizes."""
    path = _turn_path(directory, turn)
    with sink_errors(path), os.scandir(path) as parts:
        for part in parts:
            if match := _PART.fullmatch(part.name):
                yield EventFile(turn, int(match[1]), part.path), part.stat().st_size


def _partitions(size: int, rows: int) -> int:
    wanted = max(size // _PARTITION_BYTES, rows // _PARTITION_ROWS)
    return min(_MOST_PARTITIONS, 1 << wanted.bit_length())


def _turn_path(directory: str, turn: int) -> str:
    return f"{directory}/{turn_name(turn)}"


def _path(directory: str, turn: int, part: int) -> str:
    return f"{_turn_path(directory, turn)}/part-{part:05d}.jsonl"


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise SourceError for a line that can't be read, or that is not what it was."""
    try:
        yield
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise SourceError(f"a line can't be read again: {error}", place=path) from error


def _extra_rows(copied: pa.Table, events: Sequence[int]) -> tuple[ExtraRow, ...]:
    names = ("key", "turn", "part", "offset", "size")
    rows = copied.select(names).take(pa.array(events, pa.int64())).to_pylist()
    return tuple(ExtraRow(*(row[name] for name in names)) for row in rows)


def _named(seen: pa.Table, rows: Sequence[int]) -> tuple[str, ...]:
    """The keys of rows as a JSON list of their columns, as the database writes them."""
    keys = seen.column("merge_key").take(pa.array(rows, pa.int64())).to_pylist()
    return tuple(orjson.dumps(key_of(key)).decode() for key in keys)

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
from typing import TYPE_CHECKING, Final

import msgspec
import orjson
import pyarrow as pa

from adapters.staging.turn_parts import turn_name
from adapters.verify.copied_events import EventFile, SortEvents, SortSeen, line_at, partition_of, source_at
from engine.errors import SourceError
from engine.snapshot.merge_key import key_of
from engine.staging.files import sink_errors
from engine.verify.compared_digests import digests_of_rows
from engine.verify.comparison import COPIED, SEEN_ROWS, Compared, Place, compare
from engine.verify.copy import FIRST_KEYS, MOST_MENDED, ExtraRow, Findings, Touched
from engine.verify.event_history import folded, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

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

    def __call__(self, partition: int) -> Findings:
        """What differs in a partition."""
        seen = partition_of(self.seen, partition, SEEN_ROWS)
        copied = partition_of(self.events, partition, COPIED)
        found = compare(seen, copied, self.truncates, self.asked.span.since, self.asked.span.upto)
        different = self._different(found, seen, copied)
        undecided = seen.take(pa.array(found.undecided))
        mends = self.asked.mends
        wrong = [*found.missing.tolist(), *different] if mends else []
        extra = self._settled(copied, found.extra.tolist())
        numbers = {"missing": found.missing.tolist(), "different": different}
        first = {kind: _named(seen, rows[:FIRST_KEYS]) for kind, rows in numbers.items()}
        counts = {kind: len(rows) for kind, rows in numbers.items()}
        return Findings(
            found.equal + len(found.different) - len(different),
            found.changed,
            counts | {"extra": len(extra)},
            first | {"extra": self._extra(copied, extra[:FIRST_KEYS])},
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

    def _settled(self, copied: pa.Table, events: Sequence[int]) -> list[int]:
        """The events whose transactions the windows could see."""
        files: dict[str, list[tuple[int, ExtraRow]]] = {}
        for event, row in zip(events, _extra_rows(copied, events), strict=True):
            files.setdefault(_path(self.directory, row.turn, row.part), []).append((event, row))
        found = []
        for path, rows in files.items():
            with _reading(path), Path(path).open("rb") as file:
                found += [
                    event
                    for event, row in rows
                    if row.turn <= self.asked.earlier
                    or self.asked.settled(source_at(file, row.offset, row.size))
                ]
        return found

    def _different(self, found: Compared, seen: pa.Table, copied: pa.Table) -> list[int]:
        """The rows that differ also if their events are read column by column."""
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
            if not self._says(events[row["key"]], row["row"], row["turn"])
        ]

    def _says(self, events: Sequence[dict[str, int]], digest: bytes, turn: int) -> bool:
        """Whether the events of a key up to a turn say that its row has this digest."""
        places = sorted((event["turn"], event["part"], event["offset"], event["size"]) for event in events)
        # What a truncate has emptied lends no value to a later event that lacks one.
        emptied = [(at.turn, at.part, at.offset) for at in self.truncates if at.turn <= turn]
        since = max(emptied, default=(-1, 0, 0))
        lines = [
            line_at(_path(self.directory, *place[:2]), *place[2:])
            for place in places
            if place[0] <= turn and place[:3] > since
        ]
        row = folded((text for _key, text in lines), self.placeholders)
        if row is None:
            return False
        shown = texts(row, self.asked.columns)
        keys = [lines[-1][0].decode()] * len(shown)
        digests = digests_of_rows(pa.array(keys, pa.large_string()), pa.array(shown, pa.large_string()))
        return digest in digests.to_pylist()

    def _extra(self, copied: pa.Table, events: Sequence[int]) -> tuple[str, ...]:
        """The keys of events, as their JSON."""
        places = copied.take(pa.array(events, pa.int64())).to_pylist()
        return tuple(
            line_at(_path(self.directory, at["turn"], at["part"]), at["offset"], at["size"])[0].decode()
            for at in places
        )


class FilesCopy:
    """Implements `Copy` for the directory of a files sink. Tasks keep what they sort below `work`."""

    def __init__(
        self, directory: str, work: str, executors: Executors, placeholders: Sequence[bytes] = ()
    ) -> None:
        self._directory = str(Path(directory).absolute())
        self._work, self._executors, self._placeholders = work, executors, tuple(placeholders)

    def refusal(self) -> str:
        """None: a directory can always be compared."""
        return ""

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: Asked) -> FilesComparison:
        """Begin to compare, in a thread that waits for the tasks."""
        rows, ticket = seen
        work = f"{self._work}/{ticket}"
        sorting = _Sorting(self._directory, work, topic, rows.path(ticket), rows.rows(ticket))
        return FilesComparison(self._executors, sorting, self._placeholders, asked)

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
        events, truncates = SortEvents("", topic, (), 1).events(files)
        return Touched(frozenset(events.column("key").to_pylist()), upto, bool(truncates))

    def rows(self, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """Read the lines."""
        found: list[tuple[str, str | None]] = []
        for row in extra:
            path = _path(self._directory, row.turn, row.part)
            with _reading(path):
                key, text = line_at(path, row.offset, row.size)
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
        self, executors: Executors, sorting: _Sorting, placeholders: tuple[bytes, ...], asked: Asked
    ) -> None:
        self._executors, self._sorting = executors, sorting
        self._placeholders, self._asked = placeholders, asked
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
            return self._compared()
        finally:
            shutil.rmtree(sorting.work, ignore_errors=True)

    def _compared(self) -> Findings:
        sorting, asked = self._sorting, self._asked
        items, size = _items(sorting.directory, asked.span.upto)
        partitions = _partitions(size, sorting.rows)
        sort = SortEvents(sorting.work, sorting.topic, self._placeholders, partitions)
        events = self._executors.map(sort, list(enumerate(items)))
        (seen,) = self._executors.map(SortSeen(sorting.work, partitions), [sorting.seen])
        compared = ComparePartition(
            sorting.directory,
            tuple(one.path for one in seen),
            tuple(one.path for one in events),
            tuple(place for one in events for place in one.truncates),
            self._placeholders,
            asked,
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
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SourceError(f"a line can't be read again: {error}", place=path) from error


def _extra_rows(copied: pa.Table, events: Sequence[int]) -> tuple[ExtraRow, ...]:
    names = ("key", "turn", "part", "offset", "size")
    rows = copied.select(names).take(pa.array(events, pa.int64())).to_pylist()
    return tuple(ExtraRow(*(row[name] for name in names)) for row in rows)


def _named(seen: pa.Table, rows: Sequence[int]) -> tuple[str, ...]:
    """The keys of rows as a JSON list of their columns, as the database writes them."""
    keys = seen.column("merge_key").take(pa.array(rows, pa.int64())).to_pylist()
    return tuple(orjson.dumps(key_of(key)).decode() for key in keys)

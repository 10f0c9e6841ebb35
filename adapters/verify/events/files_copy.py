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
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.verify.events.compared_partition import ComparePartition
from adapters.verify.events.copied_events import EventFile, SortEvents, SortSeen, Traits
from adapters.verify.events.event_lines import Lines, event_path, key_and_row, reading, turn_path
from adapters.verify.threaded_comparison import ThreadedComparison
from engine.staging.files import sink_errors
from engine.verify.copy import ExtraRow, Findings, TouchedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest, SeenRows, Span

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

    def resume(self, topic: str, span: Span) -> bool:  # noqa: ARG002
        """Yes: each event is in the directory of its turn."""
        return True

    def compare(
        self,
        topic: str,
        seen: tuple[SeenRows, int],
        asked: ComparisonRequest,
        before: Callable[[], None] = lambda: None,
    ) -> FilesComparison:
        """Begin to compare, in a thread that waits for the tasks. It calls `before` first."""
        rows, ticket = seen
        work = f"{self._work}/{ticket}"
        sorting = _SortInput(self._directory, work, topic, rows.path(ticket), rows.written(ticket).rows)
        return FilesComparison(self._executors, sorting, self._traits, (asked, before))

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """Read the events of the next turns: at least one, then some of them."""
        files: list[EventFile] = []
        size, upto = 0, span.since
        while upto < span.upto and size < _FOLLOWED_BYTES:
            upto += 1
            if Path(turn_path(self._directory, upto)).is_dir():
                for file, its in _parts(self._directory, upto):
                    files.append(file)
                    size += its
        events, truncates = SortEvents("", topic, Traits(), 1).events(files)
        return TouchedKeys(frozenset(events.column("key").to_pylist()), upto, bool(truncates))

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:  # noqa: ARG002
        """Read the lines, whichever topic they are of."""
        found: list[tuple[str, str | None]] = []
        with Lines() as lines:
            for row in extra:
                path = event_path(self._directory, row.turn, row.part)
                with reading(path):
                    key, text = key_and_row(lines.at(path, row.offset, row.size))
                found.append((key.decode(), None if text is None else text.decode()))
        return found


@dataclass(frozen=True, slots=True)
class _SortInput:
    """The input of sorting: a topic's events in `directory`, and the rows seen. Results go below `work`."""

    directory: str
    work: str
    topic: str
    seen: str
    rows: int


class FilesComparison(ThreadedComparison):
    """A comparison in a thread."""

    def __init__(
        self,
        executors: Executors,
        sorting: _SortInput,
        traits: Traits,
        asked: tuple[ComparisonRequest, Callable[[], None]],
    ) -> None:
        self._executors, self._sorting, self._traits = executors, sorting, traits
        self._asked, self._before = asked
        super().__init__()

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
            tuple(sorted_file.path for sorted_file in seen),
            tuple(event.path for event in events),
            tuple(place for event in events for place in event.truncates),
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
    path = turn_path(directory, turn)
    with sink_errors(path), os.scandir(path) as parts:
        for part in parts:
            if match := _PART.fullmatch(part.name):
                yield EventFile(turn, int(match[1]), part.path), part.stat().st_size


def _partitions(size: int, rows: int) -> int:
    wanted = max(size // _PARTITION_BYTES, rows // _PARTITION_ROWS)
    return min(_MOST_PARTITIONS, 1 << wanted.bit_length())

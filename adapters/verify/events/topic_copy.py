"""Kafka's topics as copies: what their records say of each row, turn by turn.

A record does not tell its turn. So while a collection is compared, the ends of its topic's partitions are
noted after each turn (`turn_ends.py`). Records are read once, into a directory like that of a files sink, and
compared as that is (`files_copy.py`). It takes as much room as the topic's records.

The ends are kept in a file as well, so that the job's next session knows them. It needs those after the
newest turn that was saved: what a turn has sent that was never saved comes behind them.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from adapters.storage.disk import make_private
from adapters.verify.events.topic_records import ReadRecords, Share, TopicEnds
from adapters.verify.events.turn_ends import TurnEnds, of_lines
from adapters.verify.failures import as_source_errors
from engine.errors import SourceError
from engine.staging.files import sink_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from adapters.kafka.settings import KafkaSettings
    from adapters.verify.events.files_copy import FilesComparison, FilesCopy
    from engine.clock import Clock
    from engine.ports.executors import Executors
    from engine.verify.copy import ComparisonRequest, ExtraRow, SeenRows, Span, TouchedKeys

    FilesCopyOf = Callable[[str, bool], FilesCopy]
    ReadAll = Callable[[ReadRecords, Sequence[Share]], list[int]]


@dataclass(slots=True)
class _Topic:
    """What was read of a topic: its directory, where each partition was left, and how many parts it has.

    `kept` is the file of the ends.
    """

    directory: str
    kept: Path
    ends: TurnEnds = field(default_factory=TurnEnds)
    read: dict[int, int] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    reading: Lock = field(default_factory=Lock)

    def keep(self) -> None:
        """Write down where the topic ended after the newest turn."""
        with as_source_errors(), sink_errors(self.kept), self.kept.open("a", encoding="ascii") as file:
            file.write(self.ends.last_line)

    def shares(self, turn: int) -> list[Share]:
        """What is to be read of each partition, up to a turn."""
        return [
            Share(number, begin, end, self.ends.turns_of(number), self.parts.get(number, 0))
            for number, end in self.ends.after(turn).items()
            if (begin := self.read.get(number, 0)) < end
        ]

    def note(self, shares: Sequence[Share], parts: Sequence[int]) -> None:
        """Note that these shares were read."""
        for share, made in zip(shares, parts, strict=True):
            self.read[share.partition] = share.end
            self.parts[share.partition] = share.parts + made


class TopicCopy:
    """Implements `Copy` for the topics of a Kafka sink. What is read waits below `work`.

    What the next session must know is in the directory `kept`.
    `files` makes the copy of a directory, given whether the parts of its turns are in the order of the log.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        work: str,
        kept: str,
        executors: Executors,
        files: FilesCopyOf,
        clock: Clock,
    ) -> None:
        self._settings, self._work, self._kept = settings, work, Path(kept)
        self._executors, self._files_of = executors, files
        self._ends = TopicEnds(settings, clock)
        self._topics: dict[str, _Topic] = {}
        self._begun = 0

    def refusal(self) -> str:
        """None: a topic can always be compared."""
        return ""

    def follow(self, topics: Collection[str], turn: int) -> None:
        """Note where these topics end after a turn, and forget all others. Called between turns."""
        for name in self._topics.keys() - set(topics):
            self._forget(name)
        if not topics:
            self._ends.forget()
        for name in topics:
            topic = self._topics.get(name) or self._begin(name, TurnEnds())
            if topic.ends.newest < turn:
                topic.ends.note(turn, self._ends.of(name))
                topic.keep()

    def resume(self, topic: str, span: Span) -> bool:
        """Whether the ends after all of these turns were noted."""
        kept = self._path(topic)
        with as_source_errors(), sink_errors(kept):
            lines = kept.read_text("ascii", "replace").splitlines() if kept.exists() else []
        ends = of_lines(lines, span.upto)
        if not 0 <= ends.first <= span.since or ends.newest != span.upto:
            return False
        if topic in self._topics:
            shutil.rmtree(self._topics.pop(topic).directory, ignore_errors=True)
        self._begin(topic, ends)
        return True

    def compare(self, topic: str, seen: tuple[SeenRows, int], asked: ComparisonRequest) -> FilesComparison:
        """Read the records that are not read yet, then compare, in a thread that waits for the tasks."""
        known = self._topic(topic)
        read = partial(self._read, topic, known, asked.span.upto, self._executors.map)
        return self._files(known).compare(topic, seen, asked, before=read)

    def touched_keys(self, topic: str, span: Span) -> TouchedKeys:
        """Read the records of the next turns."""
        known = self._topic(topic)
        self._read(topic, known, span.upto, _in_place)
        return self._files(known).touched_keys(topic, span)

    def rows(self, topic: str, extra: Sequence[ExtraRow]) -> list[tuple[str, str | None]]:
        """Read the lines again."""
        return self._files(self._topic(topic)).rows(topic, extra)

    def _begin(self, name: str, ends: TurnEnds) -> _Topic:
        """Begin to follow a topic, of which these ends are known.

        Tasks that read it for an earlier comparison may still write elsewhere.
        """
        self._begun += 1
        topic = _Topic(f"{self._work}/{_named(name)}-{self._begun}", self._path(name), ends)
        with as_source_errors(), sink_errors(topic.kept):
            make_private(self._kept)
            new = topic.kept.with_suffix(".new")
            new.write_text("".join(ends.lines()), "ascii")
            new.replace(topic.kept)
        self._topics[name] = topic
        return topic

    def _forget(self, name: str) -> None:
        topic = self._topics.pop(name)
        shutil.rmtree(topic.directory, ignore_errors=True)
        topic.kept.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._kept / f"ends-{_named(name)}.jsonl"

    def _topic(self, name: str) -> _Topic:
        if name not in self._topics:
            raise SourceError("the topic's turns are not known", where=name)
        return self._topics[name]

    def _files(self, topic: _Topic) -> FilesCopy:
        return self._files_of(topic.directory, len(topic.ends.after(topic.ends.newest)) < 2)

    def _read(self, name: str, topic: _Topic, turn: int, read_all: ReadAll) -> None:
        """Read what is left up to a turn. Two comparisons of a topic wait for each other here."""
        with topic.reading:
            shares = topic.shares(turn)
            topic.note(shares, read_all(ReadRecords(self._settings, name, topic.directory), shares))


def _in_place(read: ReadRecords, shares: Sequence[Share]) -> list[int]:
    """Read here: little has come since the comparison."""
    return [read(share) for share in shares]


def _named(topic: str) -> str:
    """A directory's name for a topic."""
    return sha256(topic.encode()).hexdigest()[:16]

"""Events from Kafka's topics, and their judge: at least once, in order, and nothing is lost.

Topics have one partition here, so all of a table's events are in order. After a crash or a failed delivery
the job may resend from where its saved state is; no other repetition is allowed. Besides the oracle's copy,
the judge keeps what a topic leaves to a consumer that ignores repetitions: the last event of each key.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.torture.emitted import Emitted, emitted
from tests.torture.oracle import Oracle, Violation
from tests.torture.recreated import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.servers.kafka import KafkaBroker
    from tests.torture.journal import JournalReader
    from tests.torture.oracle import Key, Table
    from tests.torture.truth import Entry, Row

_TIMEOUT_S = 30.0


class TopicEvents:
    """Reads what a job has sent to the topics under `prefix`, each record once."""

    def __init__(self, broker: KafkaBroker, prefix: str, journal: JournalReader) -> None:
        self._broker, self._prefix, self._journal = broker, f"{prefix}.", journal
        self._offsets: dict[str, int] = {}
        self._ids: dict[str, str] = {}

    def read(self) -> Iterator[Emitted]:
        """The events sent since the last call, topic by topic, without tombstones.

        A record's turn is the next one committed after it.
        """
        committed = self._journal.of("committed")
        times, turns = [note["at"] for note in committed], [note["turn"] for note in committed]
        for topic in self._broker.topics():
            if not topic.startswith(self._prefix):
                continue
            topic_id = self._broker.topic_id(topic)
            if self._ids.setdefault(topic, topic_id) != topic_id:
                self._ids[topic], self._offsets[topic] = topic_id, 0
            for value, at_s in self._records(topic):
                at = bisect_left(times, at_s)
                turn = turns[at] if at < len(turns) else (turns[-1] if turns else 0) + 1
                if event := emitted(turn, value, at_s):
                    yield event

    def _records(self, topic: str) -> Iterator[tuple[Mapping[str, Any] | None, float]]:
        config = {**self._broker.plain, "group.id": "judge", "enable.auto.commit": False}
        place = TopicPartition(topic, 0, self._offsets.get(topic, 0))
        with contextlib.closing(Consumer(config)) as consumer:
            _low, end = consumer.get_watermark_offsets(place, _TIMEOUT_S)
            consumer.assign([place])
            while self._offsets.get(topic, 0) < end:
                records = consumer.consume(10_000, timeout=1.0)
                for record in records:
                    if fault := record.error():
                        raise KafkaException(fault)
                    self._offsets[topic] = (record.offset() or 0) + 1
                    value = record.value()
                    yield None if value is None else orjson.loads(value), record.timestamp()[1] / 1000
                # After the last record there may be an end-of-transaction marker, which is not a record.
                reached = consumer.position([place])[0].offset
                self._offsets[topic] = max(self._offsets.get(topic, 0), reached)


@dataclass(frozen=True, slots=True)
class _Before:
    """A table before an entry, and the turn that emitted the entry, with the record's time."""

    entry: Entry
    turn: int
    at_s: float
    rows: dict[Key, Row]
    copy: dict[Key, Row]


@dataclass(slots=True)
class Topic:
    """One table's topic, compared with its part of the log.

    `aside`: it refused events for a while. Then what it had taken of a turn was sent again, whether saved or
    not. `unsent_s` are the moments at which a turn turned out not to be sent.
    """

    oracle: Oracle
    table: Table
    saved_s: Mapping[int, float]
    unsent_s: Sequence[float] = ()
    past: list[_Before] = field(default_factory=list)
    goings_back: int = 0
    aside: bool = False

    def take_in(self, event: Emitted) -> None:
        """Process an event. One that was sent before rewinds everything to its place."""
        if event.op != "r" and not self._goes_on(event):
            self._go_back(event)
        if event.op != "r" and self.oracle.half is None:
            rows, copy = dict(self.table.rows), dict(self.table.copy)
            self.past.append(_Before(self.oracle.ahead[0], event.turn, event.at_s, rows, copy))
        self.oracle.take_in(event)

    def _goes_on(self, event: Emitted) -> bool:
        half, ahead = self.oracle.half, self.oracle.ahead
        if half is not None and (event.op, event.place) != ("c", half.place):
            return False
        return bool(ahead) and ahead[0].place == event.place

    def _go_back(self, event: Emitted) -> None:
        if self.oracle.half is not None:
            # The event of the row's new key is missing yet, and nothing was done about the old one.
            self.oracle.half = None
            self.past.pop()
            if self.oracle.ahead[0].place == event.place:
                self.goings_back += 1
                return
        found = next(
            (at for at, past_event in enumerate(self.past) if past_event.entry.place == event.place), None
        )
        if found is None:
            ahead = self.oracle.ahead[0] if self.oracle.ahead else "its end"
            raise Violation(f"the topic of {self.table.name} goes on with {event}, the log with {ahead}")
        before = self.past[found]
        saved_s = self._saved_s(before)
        if saved_s is not None and saved_s < event.at_s and not self.aside:
            raise Violation(f"turn {before.turn} was saved, and is sent again {event.at_s - saved_s} s later")
        self.goings_back += 1
        self.oracle.ahead = [*(past_event.entry for past_event in self.past[found:]), *self.oracle.ahead]
        self.table.rows, self.table.copy = before.rows, before.copy
        del self.past[found:]

    def _saved_s(self, sent: _Before) -> float | None:
        """When a record's turn was saved; None if it never was.

        A record's turn is the next one saved after it, unless its own attempt failed in between.
        """
        saved_s = self.saved_s.get(sent.turn)
        if saved_s is None or any(sent.at_s <= unsent_s <= saved_s for unsent_s in self.unsent_s):
            return None
        return saved_s


@dataclass(slots=True)
class Topics:
    """Judges all topics of a history, for `oracle`, which has the tables."""

    oracle: Oracle
    latest: dict[str, dict[Key, bool]] = field(default_factory=dict)
    goings_back: int = 0
    new: dict[str, NewTopic] = field(default_factory=dict)
    left: list[Entry] = field(default_factory=list)
    """Entries that no event was seen of yet, each of one table."""

    def recreated(self, name: str) -> None:
        """Note that a table's topic is recreated; from now on only the new topic counts."""
        self.new[name] = NewTopic(self.oracle.tables[name])

    def follow(
        self, entries: Iterable[Entry], events: Iterable[Emitted], journal: JournalReader
    ) -> list[Entry]:
        """Process what was committed and sent since the last call. Returns the entries left out."""
        saved_s = {note["turn"]: note["at"] for note in reversed(journal.of("turn"))}
        known = {name: table for name, table in self.oracle.tables.items() if name not in self.new}
        aside = {name for note in journal.of("turn") for name in note.get("aside", ())}
        unsent_s = [note["at"] for note in journal.of("unsent", "opened")]
        topics = {
            name: Topic(self._oracle_of(table), table, saved_s, unsent_s, aside=name in aside)
            for name, table in known.items()
        }
        fresh = (known_table for found in entries for known_table in self.oracle.known_tables(found))
        for entry in chain(self.left, fresh):
            if entry.tables[0] in self.new:
                self.oracle.precede([entry])
            else:
                topics[entry.tables[0]].oracle.ahead.append(entry)
        for event in events:
            if event.table in self.new:
                self.new[event.table].take_in(event)
                continue
            if event.table not in topics:
                raise Violation(f"{event.table} is none of the history's tables")
            topics[event.table].take_in(event)
            self._keep(known[event.table], event)
        self._count(topics.values(), journal)
        self.left = [
            replace(entry, tables=(name,)) for name, topic in topics.items() for entry in topic.oracle.ahead
        ]
        return self.left

    def _oracle_of(self, table: Table) -> Oracle:
        """An oracle for one table alone."""
        return Oracle({table.name: table}, blocks=self.oracle.blocks)

    def _count(self, topics: Iterable[Topic], journal: JournalReader) -> None:
        blows = len(journal.of("crash", "killed", "unsent"))
        for topic in topics:
            self.oracle.events += topic.oracle.events
            self.oracle.reads += topic.oracle.reads
            self.goings_back += topic.goings_back
            if topic.goings_back > blows:
                raise Violation(
                    f"{topic.table.name} was sent again {topic.goings_back} times, after {blows} failures"
                )

    def _keep(self, table: Table, event: Emitted) -> None:
        """Record what the topic leaves of a key: a row, or none."""
        left = self.latest.setdefault(table.name, {})
        if event.op == "t":
            left.clear()
        for image, there in ((event.before, False), (event.after, True)):
            if image is not None and all(image.get(name) is not None for name in table.key):
                left[table.key_of_event(image)] = there

    def settle(self, name: str) -> None:
        """Check that the last event of each key says whether its row exists."""
        table = self.oracle.tables[name]
        for key, there in self.latest.get(name, {}).items():
            if there != (key in table.rows):
                raise Violation(f"the last event of row {key!r} of {name} says {there}, which is wrong")

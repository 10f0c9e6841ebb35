"""The Kafka sink: events into topics, at least once, in order.

Owns what a turn is and who sends it. Kafka shows a record as soon as it gets it. So a turn's parts wait, in
memory or as files of the tasks that wrote them, and are sent when the turn is committed. Several parts may
have the same key, and in a topic with one partition a table's truncates must keep their place. So one
producer sends a topic, part after part, and the executors send several topics at once. Few bytes are sent
from the driver, by a long-lived producer, because a Spark job alone would take longer.

A commit ends when all in-sync replicas have every event. If a topic refuses events, the others still get
theirs, and the commit then fails with the topic's name. A failed commit may have sent some events; the turn
is then begun again and sent from its first event. So a key's events are repeated in their order, as after a
crash, when it is unknown what the earlier process had sent. Only what nobody can call back could arrive after
its successor: records of a task that Spark has given up but that still runs, or a request that a broken
network delivers after `delivery.timeout.ms`. If that must not happen, producers have transactional ids
(`fencing.py`).
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.kafka.beside.row_task import SendRows, keeps_producers
from adapters.kafka.beside.sending import RowSending
from adapters.kafka.client import batch_bytes
from adapters.kafka.delivery import Delivery
from adapters.kafka.errors import BatchRefused, NotDelivered
from adapters.kafka.fencing import Fence, is_fence
from adapters.kafka.partitions import shares
from adapters.kafka.parts import Attempt, TurnParts
from adapters.kafka.records import of_topics, truncated, without
from adapters.kafka.topic_senders import SendTopics
from adapters.kafka.topics import Topics
from adapters.staging.turn_parts import Staging
from engine.config.sinks.settings import Fencing, TopicRecreated
from engine.errors import InvariantError, SinkError, SinkRefused, TidemarkError, TopicRemade, TopicsRefused
from engine.events.batch import EventForm
from engine.staging.event_rows import EventRows

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import pyarrow as pa

    from adapters.kafka.beside.senders import Senders
    from adapters.kafka.delivered import Delivered
    from engine.config.sinks.settings import KafkaSettings
    from engine.job.snapshots.emission import Emission
    from engine.model import Part
    from engine.ports.executors import Executors
    from engine.ports.sink import PartWriter, RowsOnTheirWay

_log = logging.getLogger("adapters")
_LOCAL_BYTES: Final = 64 << 20
_SMALLER: Final = 8
_TOLD: Final = 10
_DEAD_LETTERS: Final = {"max.message.bytes": "100000000"}


class KafkaSink:
    """Sends turns to the brokers of `settings`; driver and executors share `directory`.

    `tasks` is how many producers may send at once. Raises ConfigError for settings that no client accepts.
    """

    form: Final = EventForm.RECORDS
    row_form: Final = EventRows()

    def __init__(
        self,
        settings: KafkaSettings,
        executors: Executors,
        directory: Path | str,
        *,
        tasks: int = 1,
        name: str = "tidemark",
        senders: Senders | None = None,
    ) -> None:
        self.settings, self._executors, self._tasks = settings, executors, tasks
        self._directory = Path(directory).absolute()
        self._staging = Staging(self._directory)
        self._topics = Topics(settings)
        fenced = settings.fencing is Fencing.TRANSACTIONS
        self._fence = Fence(settings, name, 1 + 2 * tasks) if fenced else None
        self._rows = RowSending(self, senders, tasks, fenced=fenced) if senders is not None else None
        self._delivery: Delivery | None = self._new_delivery()
        self._parts = TurnParts(self._directory, _LOCAL_BYTES)
        self._reached = False
        self._committed: int | None = None
        self._warned: set[str] = set()
        self._withheld: frozenset[str] = frozenset()

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn. The first time, the brokers must answer."""
        if self.applied(turn):
            raise SinkRefused(f"turn {turn} is sent already", place="kafka")
        if not self._reached:
            self._topics.reach()
            self._reached = True
        self._parts = TurnParts(self._staging.begin(turn), _LOCAL_BYTES)
        self._withheld = frozenset()
        return self._parts

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterator[pa.RecordBatch]:
        """Leave a topic's events out of the turn, and return them."""
        self._withheld |= {topic}
        attempt = self._parts.attempt(parts)
        return (of_topics(batch, frozenset([topic])) for batch in attempt.batches())

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Send the turn's events and wait until the brokers have them all."""
        if self.applied(turn):
            return
        self._staging.begun(turn)
        while not self._sent(parts):
            pass
        self._committed = turn
        self._parts = TurnParts(self._directory, _LOCAL_BYTES)
        self._staging.clear()

    def applied(self, turn: int) -> bool:
        """Whether this process has sent the turn; what an earlier one has sent is unknown."""
        return turn == self._committed

    def newest(self) -> None:
        """Return None: what an earlier process has sent is unknown."""

    def resume(self, saved: Mapping[str, str]) -> None:
        """Restore the topics' ids from the saved state, and stop the producers of the job that saved it."""
        self._topics.resume({name: topic_id for name, topic_id in saved.items() if not is_fence(name)})
        if self._fence is not None:
            self._fence.resume(saved)
            if self._delivery is not None and self._delivery.transactional_id != self._id(0):
                self._drop_delivery()
            self._fence.take()

    def memory(self) -> Mapping[str, str]:
        """The ids of the topics that events went to, and those of producers."""
        if self._fence is None:
            return self._topics.ids
        return {**self._topics.ids, **self._fence.memory()}

    def identity(self) -> str:
        """The cluster's id, from any of its brokers."""
        cluster = self._topics.reach()
        self._reached = True
        return cluster

    def admit(self, topics: Collection[str]) -> None:
        """Check whether we may write to topics: warns of those that refuse, raises if all do.

        Writes nothing. Raises SinkError.
        """
        denied = self._topics.denied(topics)
        if denied and len(denied) == len(topics):
            self.give_up()
            raise next(iter(denied.values()))
        for error in list(denied.values())[:_TOLD]:
            _log.warning("%s; its table will be set aside", error)
        if len(denied) > _TOLD:
            _log.warning("%d more topics may not be written to", len(denied) - _TOLD)

    # Rows beside the turns.

    @property
    def takes_rows(self) -> bool:
        """Whether anybody sends rows beside the turns."""
        return self._rows is not None and self._rows.is_possible

    def may_take_rows(self) -> bool:
        """Whether one of those who send is free, and all are ready. Raises SinkError."""
        if self._fence is not None:
            self._fence.take()
        return self._rows is not None and self._rows.has_room and self._rows.prepared()

    def take_rows(self, emission: Emission, topic: str) -> RowsOnTheirWay:
        """Begin to send rows beside the turns. Raises SinkError, or TopicsRefused."""
        if self._rows is None:
            raise InvariantError("rows are to be sent beside the turns, and nobody sends any")
        refused = self._topics.ensure([topic])
        self._tell_remade(refused)
        if refused:
            raise TopicsRefused(refused)
        self._ensure_dead_letters()
        return self._rows.begin(emission)

    @property
    def keeps_producers(self) -> bool:
        """Whether a producer that sends beside the turns may wait for its next run."""
        return keeps_producers(self.settings)

    def row_task(self, slot: int, attempt: int, *, keeps: bool) -> SendRows:
        """The task that sends the runs of a slot. Transactional ids are behind those of the turns' tasks."""
        return SendRows(self.settings, self._id(1 + self._tasks + slot), attempt, keeps)

    def close(self) -> None:
        """Discard the producer and what was not committed."""
        self.give_up()
        if self._rows is not None:
            self._rows.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _sent(self, parts: Sequence[Part]) -> bool:
        """Send a turn; False if it must be sent again, in smaller batches."""
        try:
            self._send(parts)
        except BatchRefused as refused:
            self.make_batches_smaller(refused)
            return False
        except SinkError as error:
            raise self.failed(error) from error
        return True

    def failed(self, error: TidemarkError) -> TidemarkError:
        """Discard what a failed delivery held; returns the error to raise."""
        trouble = self._topics.trouble(error.topic) if isinstance(error, NotDelivered) and error.topic else ""
        self.give_up()
        if not isinstance(error, NotDelivered):
            return error
        text = f"{error.message}: {trouble}" if trouble else error.message
        return SinkError(text, place=error.place, hint=error.hint)

    def make_batches_smaller(self, refused: BatchRefused) -> None:
        """From now on send smaller batches than the one that was refused."""
        self.give_up()
        size = max(1, batch_bytes(self.settings.client) // _SMALLER)
        self.settings = replace(self.settings, client={**self.settings.client, "batch.size": str(size)})
        _log.warning(
            "%s; batches have at most %d bytes from now on; set producer.batch.size below the topics'"
            " max.message.bytes",
            refused,
            size,
        )

    def _id(self, number: int) -> str:
        return self._fence.id(number) if self._fence is not None else ""

    def _new_delivery(self) -> Delivery:
        return Delivery(self.settings, self._id(0))

    def _send(self, parts: Sequence[Part]) -> None:
        if self._fence is not None:
            self._fence.take()
        attempt = self._parts.attempt(parts)
        events = attempt.events()
        for topic in self._withheld:
            events.pop(topic, None)
        if not events:
            return
        refused = self._topics.ensure(events)
        self._tell_remade(refused)
        for topic in refused:
            del events[topic]
        self._ensure_dead_letters()
        if attempt.bytes <= _LOCAL_BYTES:
            left_out = self._withheld | refused.keys()
            batches = (without(batch, left_out) for batch in attempt.batches())
            wide = frozenset(topic for topic in events if self._topics.partitions(topic) > 1)
            delivered = [self._local().send(batches, events.total(), wide)]
        else:
            del attempt
            delivered = self._send_by_executors(events, self._parts.spilled(parts))
        self._warn(frozenset().union(*(outcome.truncated for outcome in delivered)))
        for outcome in delivered:
            refused |= outcome.refused
        if refused:
            raise TopicsRefused(refused)

    def _send_by_executors(self, events: Counter[str], attempt: Attempt) -> list[Delivered]:
        """Send a large turn by several producers.

        Each has groups of a topic's partitions. A topic with truncates has one producer, so that they keep
        their place.
        """
        partitions = {topic: self._topics.partitions(topic) for topic in events}
        wide = frozenset(topic for topic, count in partitions.items() if count > 1)
        if wide:
            for batch in attempt.batches():
                for topic in truncated(batch):
                    partitions[topic] = 1
        send = SendTopics(self.settings, attempt, wide)
        numbered = enumerate(shares(events, partitions, self._tasks), 1)
        return self._executors.map(send, [(self._id(number), share) for number, share in numbered])

    def _ensure_dead_letters(self) -> None:
        if self.settings.dead_letter_topic:
            for error in self._topics.ensure([self.settings.dead_letter_topic], _DEAD_LETTERS).values():
                raise error

    def _tell_remade(self, refused: Mapping[str, SinkError]) -> None:
        """Raise the error for topics that were recreated, if there are any."""
        remade = self._topics.take_remade()
        if not remade:
            return
        recreated = self.settings.recreated
        if recreated is TopicRecreated.STOP:
            raise SinkRefused(
                "the topic was made anew, it lacks what was sent before",
                place=", ".join(sorted(remade)),
                hint="set tidemark.sink.topic.recreated=snapshot for one start, which takes one, or =warn",
            )
        snapshot = recreated is TopicRecreated.SNAPSHOT
        raise TopicsRefused({**refused, **{topic: TopicRemade(topic, snapshot=snapshot) for topic in remade}})

    def _local(self) -> Delivery:
        if self._delivery is None:
            self._delivery = self._new_delivery()
        return self._delivery

    def give_up(self) -> None:
        """Discard what a failed delivery held, and what was known of topics."""
        self._topics.forget()
        if self._rows is not None:
            self._rows.forget()
        if self._fence is not None:
            self._fence.lose()
        self._drop_delivery()

    def _drop_delivery(self) -> None:
        if self._delivery is not None:
            self._delivery.close()
            self._delivery = None

    def _warn(self, truncated: frozenset[str]) -> None:
        """Warn once per topic: a truncate is ordered only within its own partition."""
        for topic in sorted(truncated - self._warned):
            if self._topics.partitions(topic) > 1:
                self._warned.add(topic)
                _log.warning(
                    "%s has %d partitions: a truncate is not in order with the changes in the other ones",
                    topic,
                    self._topics.partitions(topic),
                )

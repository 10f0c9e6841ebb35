"""Sends the events of turns to their topics: which topics get them, by which producers, what a failure means.

Few events are sent by a long-lived producer of the driver, many by tasks. After a failure nothing is kept
that the failure may have made wrong: the producer, the ids of producers, what was known of topics.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from adapters.kafka.beside.row_task import SendRows, keeps_producers
from adapters.kafka.beside.sending import RowSending
from adapters.kafka.client import batch_bytes
from adapters.kafka.errors import NotDelivered, TransactionEnded
from adapters.kafka.partitions import shares
from adapters.kafka.producers.delivery import Delivery
from adapters.kafka.producers.fencing import Fence, is_fence
from adapters.kafka.producers.records import truncated, without
from adapters.kafka.settings import Fencing
from adapters.kafka.topic_senders import SendTopics
from adapters.kafka.topics import Topics
from engine.config.sinks.settings import TopicRecreated
from engine.errors import SinkError, SinkRefused, TidemarkError, TopicRemade, TopicsRefused

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Mapping

    from adapters.kafka.beside.lease_answers import AskForLease
    from adapters.kafka.beside.senders import Senders
    from adapters.kafka.errors import BatchRefused
    from adapters.kafka.parts import Attempt
    from adapters.kafka.producers.delivered import DeliveryResult
    from adapters.kafka.settings import KafkaSettings
    from engine.ports.executors import Executors

_log = logging.getLogger("adapters")
_SMALLER: Final = 8
_DEAD_LETTERS: Final = {"max.message.bytes": "100000000"}


@dataclass(frozen=True, slots=True)
class Producers:
    """How many producers may send at once, and the name of their transactional ids."""

    most: int = 1
    name: str = "tidemark"


ONE_PRODUCER: Final = Producers()


class TurnSending:
    """Sends turns with these settings, which change when a broker refuses a batch for its size.

    `rows` sends rows beside the turns; None if there are no `senders`.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        executors: Executors,
        producers: Producers,
        senders: Senders | None,
        monotonic: Callable[[], float],
    ) -> None:
        self.settings, self._executors, self._producers = settings, executors, producers
        self.topics = Topics(settings, monotonic)
        fenced = settings.fencing is Fencing.TRANSACTIONS
        self._fence = Fence(settings, producers.name, 1 + 2 * producers.most) if fenced else None
        # With fencing, several producers of executors would take their ids when they send.
        self.may_divide = not fenced
        self._delivery: Delivery | None = Delivery(settings, self._id(0))
        self.rows = (
            RowSending(self, senders, producers.most, monotonic, fenced=fenced)
            if senders is not None
            else None
        )
        self._warned: set[str] = set()

    def resume(self, saved: Mapping[str, str]) -> None:
        """Restore the topics' ids from the saved state, and stop the producers of the job that saved it."""
        self.topics.resume({name: topic_id for name, topic_id in saved.items() if not is_fence(name)})
        if self._fence is not None:
            self._fence.resume(saved)
            if self._delivery is not None and self._delivery.transactional_id != self._id(0):
                self._drop_delivery()
            self.take_ids()

    def memory(self) -> Mapping[str, str]:
        """The ids of the topics that events went to, and those of producers."""
        if self._fence is None:
            return self.topics.ids
        return {**self.topics.ids, **self._fence.memory()}

    def take_ids(self) -> None:
        """Stop the current owners of the transactional ids, unless they are ours. Raises SinkError.

        The driver's producer takes its id here, and never when it commits. A job that was frozen behind its
        look at the lease would take it from its successor then, and send.
        """
        if self._fence is not None:
            self._fence.take()
            self._delivery = self._delivery or Delivery(self.settings, self._id(0))
            self._delivery.prepare()

    @property
    def has_ids(self) -> bool:
        """Whether the transactional ids are ours, or none are needed. A failure gives them up."""
        return self._fence is None or self._fence.is_ours

    def send(self, events: Counter[str], attempt: Attempt, left_out: frozenset[str]) -> None:
        """Send these numbers of events by topic, from the driver; those of topics in `left_out` stay.

        Raises TopicsRefused for topics that refuse them, once the others have theirs.
        """
        refused = self._prepared(events)
        batches = (without(batch, left_out | refused.keys()) for batch in attempt.batches())
        wide = frozenset(topic for topic in events if self.topics.partitions(topic) > 1)
        self._delivery = self._delivery or Delivery(self.settings, self._id(0))
        self._judge([self._delivery.send(batches, events.total(), wide)], refused)

    def send_by_executors(self, events: Counter[str], attempt: Attempt) -> None:
        """The same for a large turn, by several producers without transactional ids.

        Each has groups of a topic's partitions. A topic with truncates has one producer, so that they keep
        their place.
        """
        refused = self._prepared(events)
        partitions = {topic: self.topics.partitions(topic) for topic in events}
        wide = frozenset(topic for topic, count in partitions.items() if count > 1)
        if wide:
            for batch in attempt.batches():
                for topic in truncated(batch):
                    partitions[topic] = 1
        send = SendTopics(self.settings, attempt, wide)
        self._judge(self._executors.map(send, shares(events, partitions, self._producers.most)), refused)

    def _prepared(self, events: Counter[str]) -> dict[str, SinkError]:
        """The topics that can't have their events, which are taken out of `events`."""
        refused = self.ensure_topics(events)
        for topic in refused:
            del events[topic]
        return refused

    def ensure_topics(self, topics: Collection[str]) -> dict[str, SinkError]:
        """Make sure of the topics, and of the one for dead letters; returns those that can't be had.

        Raises SinkError, or TopicsRefused for topics that somebody has recreated.
        """
        # The turn's topics come last. If one of them is waited for, another look would forget the others.
        if self.settings.dead_letter_topic:
            for error in self.topics.ensure([self.settings.dead_letter_topic], _DEAD_LETTERS).values():
                raise error
        refused = dict(self.topics.ensure(topics))
        if remade := self.topics.take_remade():
            raise _remade(remade, refused, self.settings.recreated)
        return refused

    def _judge(self, sent: list[DeliveryResult], refused: dict[str, SinkError]) -> None:
        """Raise TopicsRefused if a topic has refused events, now or before.

        Warns once per topic of truncates, which are ordered only within their own partition.
        """
        for topic in sorted(frozenset().union(*(outcome.truncated for outcome in sent)) - self._warned):
            if self.topics.partitions(topic) > 1:
                self._warned.add(topic)
                _log.warning(
                    "%s has %d partitions: a truncate is not in order with the changes in the other ones",
                    topic,
                    self.topics.partitions(topic),
                )
        for outcome in sent:
            refused |= outcome.refused
        if refused:
            raise TopicsRefused(refused)

    @property
    def keeps_producers(self) -> bool:
        """Whether a producer that sends beside the turns may wait for its next run."""
        return keeps_producers(self.settings)

    def row_task(self, slot: int, attempt: int, *, keeps: bool, lease: AskForLease | None) -> SendRows:
        """The task that sends the runs of a slot.

        Ids below these were those of turns' tasks, in releases that gave such tasks ids.
        """
        return SendRows(self.settings, self._id(1 + self._producers.most + slot), attempt, keeps, lease)

    def handle_failure(self, error: TidemarkError) -> TidemarkError:
        """Discard what a failed delivery held; returns the error to raise, with what the brokers say."""
        explained = self._explained(error)
        self.give_up()
        return explained

    def _explained(self, error: TidemarkError) -> TidemarkError:
        if isinstance(error, TransactionEnded):
            with suppress(SinkError):  # the brokers don't answer, and the turn is sent again
                if denied := self.topics.refusals(error.topics):
                    return TopicsRefused(denied)
        if not isinstance(error, NotDelivered):
            return error
        said = self.topics.obstacle(error.topic) if error.topic else ""
        text = f"{error.message}: {said}" if said else error.message
        return SinkError(text, where=error.where, hint=error.hint)

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

    def give_up(self) -> None:
        """Discard what a failed delivery held, and what was known of topics."""
        self.topics.forget()
        if self.rows is not None:
            self.rows.forget()
        if self._fence is not None:
            self._fence.lose()
        self._drop_delivery()

    def _drop_delivery(self) -> None:
        if self._delivery is not None:
            self._delivery.close()
            self._delivery = None

    def _id(self, number: int) -> str:
        return self._fence.id(number) if self._fence is not None else ""


def _remade(
    remade: Collection[str], refused: Mapping[str, SinkError], recreated: TopicRecreated
) -> SinkError:
    """The error for topics that somebody has recreated."""
    if recreated is TopicRecreated.STOP:
        return SinkRefused(
            "the topic was recreated, it lacks what was sent before",
            where=", ".join(sorted(remade)),
            hint="set tidemark.sink.topic.recreated=snapshot for one start, which takes one, or =warn",
        )
    snapshot = recreated is TopicRecreated.SNAPSHOT
    return TopicsRefused({**refused, **{topic: TopicRemade(topic, snapshot=snapshot) for topic in remade}})

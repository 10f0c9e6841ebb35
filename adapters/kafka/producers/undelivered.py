"""Records that a producer could not deliver, and what follows for them, their topic and the delivery.

refused by the topic     the topic gets no more events of the turn; the others get theirs; in a
                         transaction they don't, and the turn is sent again without that topic
too large                sent to the topic of dead letters, if there is one and it takes it; else its topic
                         refuses it
anything else            the delivery fails, and everything is sent again
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError

from adapters.kafka.client import batch_bytes
from adapters.kafka.errors import BatchRefused, TransactionEnded, message_of, refuses, sink_error
from adapters.kafka.producers.delivered import UndeliveredRecord
from engine.errors import SinkError, SinkRefused, TopicsRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from adapters.kafka.producers.records import Header, Record
    from adapters.kafka.settings import KafkaSettings

_log = logging.getLogger("adapters")
# Public names of librdkafka's.
_ENDED: Final = frozenset(
    {KafkaError._STATE, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}  # noqa: SLF001
)
"""Errors of the other records of a transaction that an answer of a broker has ended."""


class UndeliveredRecords:
    """Those of one producer, until they are settled. `refused` has the topics that refuse events, and why.

    `aborts`: a record that a broker refuses ends a transaction with everything in it. `set_aside` sends a
    dead letter; it raises TopicsRefused if the topic for them does not take it.
    """

    def __init__(
        self, settings: KafkaSettings, set_aside: Callable[[Record, list[Header]], None], *, aborts: bool
    ) -> None:
        self._settings, self._set_aside, self._aborts = settings, set_aside, aborts
        self._records: list[UndeliveredRecord] = []
        self.refused: dict[str, SinkError] = {}

    @property
    def aborted(self) -> bool:
        """Whether an event was refused, so that the transaction is aborted: no more of it need be sent."""
        return self._aborts and bool(self.refused)

    def note(self, error: KafkaError | None, message: Message) -> None:
        """Note how a record was delivered; the producer calls it for each."""
        if error is not None:
            record = (message.topic() or "", message.value(), message.key())
            partition = message.partition()
            self._records.append(UndeliveredRecord(record, -1 if partition is None else partition, error))

    def note_unsent(self, record: Record, error: KafkaError) -> None:
        """Note a record that the producer does not take."""
        self._records.append(UndeliveredRecord(record, -1, error))

    def take(self) -> list[UndeliveredRecord]:
        """The records that are not settled; they are forgotten."""
        records, self._records = self._records, []
        return records

    def settle(self) -> None:
        """Set records aside that are too large. Raises SinkError if others were not delivered.

        Raises TransactionEnded if no record says why a transaction has ended.
        """
        if not self._records:
            return
        self._note_refused()
        lacks_cause, records = self.lacks_cause, self.take()
        text = f"{len(records)} events were not delivered"
        if lacks_cause:
            topics = frozenset(failure.record[0] for failure in records)
            raise TransactionEnded(f"{text}: {message_of(records[-1].error)}", topics)
        # From here on, the ends of a transaction follow from topics that refuse. The turn is sent again.
        causes = [failure for failure in records if not self._is_end(failure.error)]
        for failure in causes:
            if failure.error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise sink_error(failure.error, f"{text}: {message_of(failure.error)}", failure.record[0])
        for failure in causes:
            if failure.record[0] not in self.refused:
                self._settle_large(failure, causes)

    @property
    def lacks_cause(self) -> bool:
        """Whether a transaction has ended, and no record says why, so far."""
        if not self._aborts or self.refused:
            return False
        # A record that is too large for the producer itself does not reach the transaction.
        others = [
            failure
            for failure in self._records
            if failure.partition >= 0 or failure.error.code() != KafkaError.MSG_SIZE_TOO_LARGE
        ]
        return bool(others) and all(self._is_end(failure.error) for failure in others)

    def _is_end(self, error: KafkaError) -> bool:
        """Whether an error says only that the transaction has ended, and not why."""
        return self._aborts and error.code() in _ENDED

    def _note_refused(self) -> None:
        """Note topics that refuse events. Other undelivered records for them no longer count."""
        for failure in self._records:
            topic = failure.record[0]
            if refuses(failure.error) and topic not in self.refused:
                text = f"the topic refuses events: {message_of(failure.error)}"
                self.refused[topic] = sink_error(failure.error, text, topic)
        self._records = [failure for failure in self._records if failure.record[0] not in self.refused]

    def _settle_large(self, failure: UndeliveredRecord, too_large: list[UndeliveredRecord]) -> None:
        topic, value, key = failure.record
        # A broker refuses a whole batch; only a batch of one record shows which record was too large.
        batch = [other for other in too_large if self._may_share_batch(other, failure)]
        if len(batch) > 1 and batch_bytes(self._settings.client) > 1:
            raise BatchRefused(f"a batch of {len(batch)} records is too large for the broker", where=topic)
        shown = (key or b"").decode()[:200]
        aside = self._settings.dead_letter_topic
        # A record that a broker has refused ends its transaction: it can't be left out of it.
        text = f"the event of {failure.size} bytes with the key {shown!r} is too large"
        hint = "raise producer.max.request.size and the topic's max.message.bytes"
        if not aside or aside == topic or (self._aborts and failure.partition >= 0):
            hint += "" if aside else ", or name a tidemark.sink.kafka.dead.letter.topic"
            self.refused[topic] = SinkRefused(text, where=topic, hint=hint)
            return
        try:
            self._set_aside((aside, value, key), [("topic", topic), ("error", message_of(failure.error))])
        except TopicsRefused as refused:
            reason = refused.reasons[aside]
            text += f", and its dead letter was not taken: {reason.where}: {reason.message}"
            self.refused[topic] = SinkRefused(text, where=topic, hint=f"{hint}, or let {aside} take it")
            return
        _log.warning(
            "%s: the event of %d bytes with the key %r went to %s", topic, failure.size, shown, aside
        )

    def _may_share_batch(self, one: UndeliveredRecord, other: UndeliveredRecord) -> bool:
        """Whether two records may have been sent in one batch. One as large as a batch was sent alone."""
        if one.partition < 0 or one.topic_partition != other.topic_partition:
            return False
        return max(one.size, other.size) < batch_bytes(self._settings.client)

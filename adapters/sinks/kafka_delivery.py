"""Events to Kafka, until each has been acknowledged by all replicas in sync.

Owns one producer and what becomes of events that it could not deliver. Nothing is skipped: an event that
is not delivered fails the delivery, and whoever asked for it sends all events again, from the first, by a
producer of its own; only a record that its topic refuses for its size may be set aside, where the
settings name a topic for such.

A delivery that has failed throws away what it still holds, so that nothing of it arrives behind what is
sent next.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Producer

from adapters.kafka import renew
from adapters.sinks.kafka_client import BatchRefused, Reason, batch_bytes, client, opened, said, sink_error
from engine.config.settings import KafkaSettings
from engine.errors import SinkError, SinkRefused, TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from confluent_kafka import Message

_log = logging.getLogger("adapters")
_ROWS: Final = 10_000
"""Events between two looks at what has failed."""
_TOLD_AFTER_S: Final = 5
_LARGEST: Final = "100000000"
"""Bytes of a record set aside: what a broker's socket takes by default."""
_BYTES: Final = pa.large_binary()
_TRUNCATED: Final = '{"before":null,"after":null,"source":'

Record = tuple[str, bytes | None, bytes | None]
"""Topic, value and key, in the order of `Producer.produce`."""


Header = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Undelivered:
    """One record that was given up, and why."""

    record: Record = field(repr=False)
    partition: int
    error: KafkaError

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition; -1 for a record that was not sent at all."""
        return self.record[0], self.partition

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.record[1] or b"") + len(self.record[2] or b"")


class Delivery:
    """A producer from its first event to its last. Not to be used again once it has failed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._reason = Reason()
        self._place = f"kafka {settings.client.get('bootstrap.servers', '')}"
        config = client(settings.client, self._reason) | {"on_delivery": self._note}
        self._timeout_ms = int(config["delivery.timeout.ms"])
        self._producer: Producer = opened(Producer, config)
        self._undelivered: list[Undelivered] = []
        self._truncated: set[str] = set()
        self._aside: Delivery | None = None

    def send(self, batches: Iterable[pa.RecordBatch]) -> frozenset[str]:
        """Send every event, in order, and wait until all are delivered.

        Gives the topics that a truncate went to. Raises SinkError, or SinkRefused where a record will
        never be taken.
        """
        self._truncated.clear()
        for batch in batches:
            self._truncated |= truncated(batch)
            for start in range(0, batch.num_rows, _ROWS):
                self._produce(batch.slice(start, _ROWS))
                self._producer.poll(0)
                self._settle()
        self._flush()
        return frozenset(self._truncated)

    def close(self) -> None:
        """Throw away what was not delivered. Twice is harmless."""
        self._producer.purge()
        self._producer.flush(1.0)
        self._producer.close()
        if self._aside is not None:
            self._aside.close()

    def _produce(self, batch: pa.RecordBatch) -> None:
        produce = self._producer.produce
        headers = batch.column("headers")
        records = _records(batch)
        if headers.null_count < len(headers):
            for record, own in zip(records, headers.to_pylist(), strict=True):
                self._insist(produce, record, _headers(own))
            return
        for record in records:
            try:
                produce(*record)
            except (BufferError, KafkaException):
                self._insist(produce, record, None)

    def _insist(self, produce: Callable[..., None], record: Record, headers: list[Header] | None) -> None:
        """Produce one record, waiting for room; what no waiting helps is noted."""
        while True:
            try:
                produce(*record, headers=headers)
            except BufferError:
                self._producer.poll(0.05)
                if self._reason.refused():
                    self._renew()
                self._settle()
            except KafkaException as exc:
                self._undelivered.append(Undelivered(record, -1, exc.args[0]))
                return
            else:
                return

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            record = (message.topic() or "", message.value(), message.key())
            partition = message.partition()
            self._undelivered.append(Undelivered(record, -1 if partition is None else partition, error))

    def _flush(self) -> None:
        waited_s = 0
        while self._producer.flush(1.0):
            self._settle()
            waited_s += 1
            self._renew()
            if waited_s == _TOLD_AFTER_S:
                _log.warning("%s: %s", self._place, self._reason.behind("events wait to be taken"))
        self._settle()

    def _renew(self) -> None:
        """Nothing has gone out for a while: the password may have changed."""
        with suppress(TidemarkError):  # told with the events, should they not be delivered in time
            renew(self._settings.client, self._producer, refused=self._reason.refused())

    def _settle(self) -> None:
        """Deal with what was not delivered: set it aside, or fail."""
        if not self._undelivered:
            return
        undelivered, self._undelivered = self._undelivered, []
        too_large = [one for one in undelivered if one.error.code() == KafkaError.MSG_SIZE_TOO_LARGE]
        if len(too_large) < len(undelivered):
            raise self._failed(next(one for one in undelivered if one not in too_large), len(undelivered))
        for one in too_large:
            self._set_aside(one, too_large)

    def _failed(self, one: Undelivered, count: int) -> SinkError:
        text = f"{count} events were not delivered: {said(one.error)}"
        if one.error.code() == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001  its public name
            text = self._reason.behind(f"{count} events were not delivered within {self._timeout_ms} ms")
        return sink_error(one.error, text, one.record[0])

    def _set_aside(self, one: Undelivered, too_large: list[Undelivered]) -> None:
        topic, value, key = one.record
        # A broker refuses a whole batch; whose fault it was shows only where there is one record.
        batch = [other for other in too_large if other.place == one.place and other.partition >= 0]
        if len(batch) > 1 and batch_bytes(self._settings.client) > 1:
            raise BatchRefused(f"a batch of {len(batch)} records is too large for the broker", place=topic)
        shown = (key or b"").decode()[:200]
        aside = self._settings.dead_letter_topic
        if not aside or aside == topic:
            raise SinkRefused(
                f"the event of {one.size} bytes with the key {shown!r} is too large",
                place=topic,
                hint="raise producer.max.request.size and the topic's max.message.bytes,"
                " or name a tidemark.sink.kafka.dead.letter.topic",
            )
        self._dead_letters().send_record((aside, value, key), [("topic", topic), ("error", said(one.error))])
        _log.warning("%s: the event of %d bytes with the key %r went to %s", topic, one.size, shown, aside)

    def _dead_letters(self) -> Delivery:
        if self._aside is None:
            larger = {**self._settings.client, "message.max.bytes": _LARGEST}
            self._aside = Delivery(KafkaSettings(larger))
        return self._aside

    def send_record(self, record: Record, headers: list[Header]) -> None:
        """Send one record and wait until it is delivered."""
        self._insist(self._producer.produce, record, headers)
        self._flush()


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    topic = batch.column("topic")
    names = topic.dictionary.to_pylist()
    topics = repeat(names[0]) if len(names) == 1 else np.array(names, object)[topic.indices.to_numpy()]
    value, key = (batch.column(name).cast(_BYTES).to_numpy(zero_copy_only=False) for name in ("value", "key"))
    return zip(topics, value, key)  # noqa: B905  one topic is repeated without end


def _headers(text: str | None) -> list[Header] | None:
    """Headers as Kafka Connect's JsonConverter writes them: each value as JSON text."""
    if text is None:
        return None
    return [(one["key"], one["value"]) for one in orjson.loads(text)]


def truncated(batch: pa.RecordBatch) -> set[str]:
    """The topics that truncates in this batch go to; they have no key, and no row."""
    keyless = pc.and_(pc.is_null(batch.column("key")), pc.is_valid(batch.column("value")))
    if not pc.any(keyless).as_py():
        return set()
    events = batch.filter(keyless)
    events = events.filter(pc.match_substring(events.column("value"), _TRUNCATED))
    return set(events.column("topic").cast(pa.string()).unique().to_pylist())

"""Reads a topic record by record in the background: the `TopicReader` over a Kafka consumer.

Owns the consumer, its thread, and the log messages when a broker is away. `signals.channels.topic` decides
which records are signals, and where reading resumes: partitions are assigned by hand and nothing is committed
to the broker, so the consumer group is only a name.

Only the thread touches the consumer. `begin` hands it a position, and a number that separates records read
before the call from those read after it. Records wait in a bounded queue until they are taken.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from adapters.kafka.client import renew, with_login
from engine.errors import ConfigError, InvariantError, TidemarkError
from signals.channels.topic import Record, TopicPosition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from confluent_kafka import Message
    from confluent_kafka.admin._topic import TopicDescription

_log = logging.getLogger("adapters")
_librdkafka = logging.getLogger("adapters.librdkafka")
_librdkafka.setLevel(logging.CRITICAL + 1)

_MAX_WAITING: Final = 100
_ASK_TIMEOUT_S: Final = 2.0
_PARTITIONS_EVERY_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 2.0
_CLOSE_TIMEOUT_S: Final = 10.0

_OWN: Final = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
    "queued.max.messages.kbytes": "4096",
}


class KafkaTopicReader:
    """Reads one topic. `client` is librdkafka's configuration, `poll_s` the wait of one poll."""

    def __init__(
        self, topic: str, client: Mapping[str, str], poll_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._monotonic = monotonic
        self._topic, self._poll_s, self._settings = topic, max(0.01, poll_s), client
        self._outage, self._failures = OutageLog(topic), 0
        # The library logs every attempt to connect; this is logged once instead, from the calls' errors.
        common: dict[str, Any] = {
            **with_login(client),
            "log.connection.close": "false",
            "logger": _librdkafka,
        }
        told: dict[str, Any] = {**common, "error_cb": self._outage.note_error}
        try:
            self._admin = AdminClient(told)
            self._consumer = Consumer({**common, **_OWN})
        except (KafkaException, ValueError, TypeError) as error:
            raise ConfigError(f"the consumer of signals can't be made: {_message_of(error)}") from error
        self._changed = threading.Condition()
        self._position, self._number = TopicPosition({}, 0), 0
        self._waiting: deque[Record] = deque()
        self._ends = False
        self._since_ms, self._topic_id = 0, ""
        self._next: dict[int, int] = {}
        self._assigned: set[int] = set()
        self._thread: threading.Thread | None = None
        self._died_of: Exception | None = None

    def begin(self, position: TopicPosition) -> None:
        """Read from this position on."""
        with self._changed:
            self._position, self._number = position, self._number + 1
            self._waiting.clear()
            self._changed.notify()
        if self._thread is None:
            run = copy_context().run
            self._thread = threading.Thread(target=run, args=(self._run,), name="signal-topic", daemon=True)
            self._thread.start()

    def take(self) -> Sequence[Record]:
        """What has been read since the last call."""
        if self._died_of is not None:
            raise InvariantError("the reader of the signal topic has ended") from self._died_of
        with self._changed:
            taken = tuple(self._waiting)
            self._waiting.clear()
            self._changed.notify()
        return taken

    def close(self) -> None:
        """End the thread and the consumer."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_TIMEOUT_S)

    # What the thread runs.

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001  (raised by the next `take`)
            self._died_of = error
        finally:
            self._consumer.close()

    def _read(self) -> None:
        begun = -1
        while not self._ends:
            try:
                begun = self._begin_again(begun)
                self._assign_new()
                self._poll_until_due(begun)
                self._failures = 0
                self._outage.note_success()
            except (KafkaException, TimeoutError) as error:
                self._failures += 1
                self._unassign()  # records that came with the error are read again from the saved offsets
                if self._failures > 1:  # a single call may fail, for example while a leader is chosen
                    self._admin.poll(0)  # tells the reason
                    self._outage.note_failure(_message_of(error))
                with suppress(TidemarkError):  # reported by the next attempt
                    renew(self._settings, self._consumer, self._admin)
                self._rest(begun, min(_LONGEST_PAUSE_S, 0.25 * 2.0 ** min(self._failures, 10)))

    def _begin_again(self, begun: int) -> int:
        """Go to the last requested position, unless reading began there; returns its number."""
        with self._changed:
            number, position = self._number, self._position
        if number != begun:
            self._next, self._since_ms = dict(position.offsets), position.since_ms
            self._topic_id = position.topic_id
            self._unassign()
        return number

    def _assign_new(self) -> None:
        """Assign the partitions that are not assigned yet; at first all of them."""
        topic = self._described()
        self._recognise(str(topic.topic_id))
        new = sorted({partition.id for partition in topic.partitions} - self._assigned)
        if new:
            self._consumer.list_topics(self._topic, _ASK_TIMEOUT_S)  # otherwise it would not know them yet
            self._next |= {number: self._first(number) for number in new}
            self._assign(new)

    def _described(self) -> TopicDescription:
        topics = TopicCollection([self._topic])
        self._admin.poll(0)  # requests another token in time
        asked = self._admin.describe_topics(topics, request_timeout=_ASK_TIMEOUT_S)
        described: TopicDescription = asked[self._topic].result(2 * _ASK_TIMEOUT_S)
        return described

    def _recognise(self, topic_id: str) -> None:
        """Forget the offsets of another topic that had the same name."""
        if self._topic_id not in {"", topic_id}:
            _log.warning("the topic %r was recreated; signals are read from its beginning", self._topic)
            self._next.clear()
            self._unassign()
        self._topic_id = topic_id

    def _unassign(self) -> None:
        self._assigned.clear()
        self._consumer.unassign()

    def _assign(self, numbers: Sequence[int]) -> None:
        if numbers:
            places = [TopicPartition(self._topic, number, self._next[number]) for number in numbers]
            self._consumer.incremental_assign(places)
            self._assigned.update(numbers)

    def _first(self, number: int) -> int:
        """Where to start in a partition: at the next offset, or at the first record of that time or later."""
        partition = TopicPartition(self._topic, number)
        low, high = self._consumer.get_watermark_offsets(partition, _ASK_TIMEOUT_S)
        if number in self._next:
            return self._within(number, low, high)
        asked = TopicPartition(self._topic, number, self._since_ms)
        found = self._consumer.offsets_for_times([asked], _ASK_TIMEOUT_S)[0]
        if found.error is not None:
            raise KafkaException(found.error)
        # If there is no such record yet, start where the partition ended before the lookup.
        return int(found.offset) if found.offset >= 0 else int(high)

    def _within(self, number: int, low: int, high: int) -> int:
        """The next offset, or the partition's first if that is gone; then this is logged."""
        offset = self._next[number]
        if low <= offset <= high:
            return offset
        _log.warning(
            "%s-%d was read up to offset %d and now holds %d to %d; signals continue at offset %d",
            *(self._topic, number, offset, low, high, low),
        )
        return low

    def _poll_until_due(self, begun: int) -> None:
        """Poll until the partitions must be looked up again, or another position to begin is requested."""
        due_s = self._monotonic() + _PARTITIONS_EVERY_S
        while self._monotonic() < due_s and begun == self._number and not self._ends:
            for message in self._consumer.consume(_MAX_WAITING, self._poll_s):
                self._keep(message, begun)

    def _keep(self, message: Message, begun: int) -> None:
        if (error := message.error()) is not None:
            self._lose(message.partition(), error)
            return
        number, offset = message.partition() or 0, message.offset() or 0
        record = Record(self._topic_id, number, offset, _raw(message.key()), _raw(message.value()))
        self._next[number] = offset + 1
        self._failures = 0
        self._outage.note_success()
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._waiting) < _MAX_WAITING or self._ends or begun != self._number
            )
            if begun == self._number:
                self._waiting.append(record)

    def _lose(self, number: int | None, error: KafkaError) -> None:
        """Find a new offset if the topic no longer has the old one; raise other errors."""
        if error.code() != KafkaError._AUTO_OFFSET_RESET or number not in self._assigned:  # noqa: SLF001
            raise KafkaException(error)
        self._consumer.incremental_unassign([TopicPartition(self._topic, number)])
        self._assigned.discard(number)
        self._next[number] = self._first(number)
        self._assign([number])

    def _rest(self, begun: int, pause_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._ends or self._number != begun, pause_s)


class OutageLog:
    """Logs once that a topic can't be read, and once that it can be again."""

    def __init__(self, topic: str) -> None:
        self._topic, self._is_away, self._why = topic, False, ""

    def note_error(self, error: KafkaError) -> None:
        """Keep the library's message about a connection: a failing call only reports a timeout."""
        self._why = error.str()

    def note_failure(self, fault: str) -> None:
        """Note that reading has failed."""
        if not self._is_away:
            why = f"{fault} ({self._why})" if self._why else fault
            _log.warning("signals can't be read from the topic %r: %s; trying again", self._topic, why)
        self._is_away = True

    def note_success(self) -> None:
        """Note that records arrive, or that nothing has failed for seconds."""
        if self._is_away:
            _log.info("signals are read from the topic %r again", self._topic)
        self._is_away, self._why = False, ""


def _message_of(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return first.str() if isinstance(first, KafkaError) else str(first) or repr(first)


def _raw(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

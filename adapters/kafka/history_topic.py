"""The schema history in a topic with one partition, as Debezium's KafkaSchemaHistory keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from adapters.kafka.client import with_login
from engine.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from confluent_kafka import Message

    from adapters.sqlserver.settings import HistorySettings

_TIMEOUT_S = 30.0
_KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Records are kept for ever."""
_PRODUCER = {"acks": "all", "enable.idempotence": True, "log_level": 0}
_CONSUMER = {
    "group.id": "tidemark-schema-history",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": False,
    "log_level": 0,
}


class TopicStore:
    """Appends to the topic and reads all of it; creates a missing topic with unlimited retention."""

    def __init__(self, settings: HistorySettings) -> None:
        self._settings = settings
        self._producer: Producer | None = None

    def append(self, records: Iterable[bytes]) -> None:
        """Send the records and wait for the acknowledgements. Raises SourceError."""
        producer = self._opened()
        failed: list[str] = []

        def note(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                failed.append(error.str())

        try:
            for record in records:
                producer.produce(self._settings.topic, record, partition=0, on_delivery=note)
        except KafkaException as error:  # such as a record that is too large for the producer
            failed.append(error.args[0].str())
        if producer.flush(_TIMEOUT_S) or failed:
            producer.purge()
            self._producer = None  # the next producer gets the credentials of that time
            raise self._failed("written", failed[0] if failed else "no answer from the brokers")

    def read(self) -> Iterator[bytes]:
        """All records up to the topic's current end."""
        consumer = self._client(Consumer, {**self._settings.consumer, **_CONSUMER})
        try:
            yield from self._records(consumer)
        except KafkaException as error:
            raise self._failed("read", error.args[0].str()) from error
        finally:
            consumer.close()

    def _records(self, consumer: Consumer) -> Iterator[bytes]:
        topic = self._settings.topic
        known = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if not known.partitions:
            return
        at, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, at)])
        silent = 0
        while at < end:
            message = consumer.poll(self._settings.poll_timeout_ms / 1000)
            if message is None:
                silent += 1
                if silent > self._settings.recovery_attempts:
                    raise self._failed("read", f"nothing came after offset {at} of {end}")
                (place,) = consumer.position([TopicPartition(topic, 0)])
                at = max(at, place.offset)  # the last offsets may not be records
                continue
            error, offset, value = message.error(), message.offset(), message.value()
            if error is not None or offset is None:
                raise self._failed("read", error.str() if error else "a record without an offset")
            silent, at = 0, offset + 1
            if isinstance(value, bytes):
                yield value

    def close(self) -> None:
        """Drop the producer. Nothing is left to send, because `append` waits."""
        self._producer = None

    def _opened(self) -> Producer:
        if self._producer is None:
            self._ensure()
            self._producer = self._client(Producer, {**self._settings.producer, **_PRODUCER})
        return self._producer

    def _ensure(self) -> None:
        """Create the topic if it is missing."""
        admin = self._client(AdminClient, {**self._settings.producer, "log_level": 0})
        try:
            if (
                admin.list_topics(self._settings.topic, timeout=_TIMEOUT_S)
                .topics[self._settings.topic]
                .partitions
            ):
                return
            asked = admin.create_topics(
                [NewTopic(self._settings.topic, num_partitions=1, replication_factor=-1, config=_KEPT)]
            )
            asked[self._settings.topic].result(self._settings.create_timeout_ms / 1000)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._failed("made", error.args[0].str()) from error

    def _client(self, kind: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> Any:
        try:
            return kind(with_login(config))
        except KafkaException as error:
            raise ConfigError(f"a client of the schema history: {error.args[0].str()}") from error

    def _failed(self, what: str, why: str) -> SourceError:
        return SourceError(
            f"the schema history can't be {what}: {why}",
            where=f"kafka topic {self._settings.topic}",
            hint="see schema.history.internal.kafka.*",
        )

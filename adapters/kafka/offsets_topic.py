"""Reads Kafka Connect's topic of offsets: all records, up to where its partitions end now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from adapters.kafka.client import with_login
from adapters.kafka.errors import message_of
from engine.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 1.0
_SILENCE: Final = 30
"""How many polls may bring nothing."""
_OWN: Final = {
    "group.id": "tidemark-import-offsets",
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": False,
    "allow.auto.create.topics": False,
    "log_level": 0,
}


def records(topic: str, client: Mapping[str, str]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The keys and values of a topic's records, each partition in order. Raises SourceError."""
    config: dict[str, Any] = {**with_login(client), **_OWN}
    try:
        consumer = Consumer(config)
    except (KafkaException, ValueError, TypeError) as error:
        raise ConfigError(f"the consumer of offsets can't be made: {error}") from error
    try:
        known = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic]
        if not known.partitions:
            raise SourceError("the topic does not exist, or may not be read", where=topic)
        for partition in sorted(known.partitions):
            yield from _partition(consumer, topic, partition)
    except KafkaException as error:
        raise SourceError(f"the offsets can't be read: {message_of(error.args[0])}", where=topic) from error
    finally:
        consumer.close()


def _partition(consumer: Consumer, topic: str, number: int) -> Iterator[tuple[bytes | None, bytes | None]]:
    at, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_TIMEOUT_S)
    consumer.assign([TopicPartition(topic, number, at)])
    silent = 0
    while at < end:
        message = consumer.poll(_POLL_S)
        if message is None:
            silent += 1
            if silent > _SILENCE:
                raise SourceError(f"nothing came after offset {at} of {end}", where=f"{topic}-{number}")
            (place,) = consumer.position([TopicPartition(topic, number)])
            at = max(at, place.offset)  # the last offsets may not be records
            continue
        fault, offset = message.error(), message.offset()
        if fault is not None or offset is None:
            raise SourceError(message_of(fault) if fault else "a record without an offset", where=topic)
        silent, at = 0, offset + 1
        yield _bytes(message.key()), _bytes(message.value())


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value

"""Sends a signal to the topic that the job reads signals from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from adapters.kafka.client import with_login
from adapters.kafka.errors import message_of
from engine.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from confluent_kafka import Message

    from engine.config.settings import SignalTopic

_TIMEOUT_S: Final = 30
_OWN: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "delivery.timeout.ms": str(1000 * _TIMEOUT_S),
    "log_level": 0,  # the consumer's own options mean nothing to a producer, and it says so
}


def send(topic: SignalTopic, key: str, value: bytes) -> str:
    """Send a record and wait for its acknowledgement; returns its place, `topic-partition@offset`.

    The options of the topic's consumer say how the brokers are reached. Raises SourceError or ConfigError.
    """
    sent: list[tuple[KafkaError | None, str]] = []

    def note(error: KafkaError | None, message: Message) -> None:
        sent.append((error, f"{message.topic()}-{message.partition()}@{message.offset()}"))

    reasons: list[str] = []
    producer = _producer(topic, reasons)
    try:
        producer.produce(topic.name, value, key.encode(), on_delivery=note)
    except KafkaException as error:
        raise _failed(topic, message_of(error.args[0])) from error
    producer.flush(_TIMEOUT_S)
    if not sent:
        producer.purge()
        raise _failed(topic, reasons[-1] if reasons else "no answer from the brokers")
    refusal, place = sent[0]
    if refusal is not None:
        raise _failed(topic, message_of(refusal))
    return place


def _producer(topic: SignalTopic, reasons: list[str]) -> Producer:
    config: dict[str, Any] = {**with_login(topic.client), **_OWN}
    try:
        return Producer({**config, "error_cb": lambda error: reasons.append(message_of(error))})
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0] if error.args else error
        text = message_of(reason) if isinstance(reason, KafkaError) else str(reason)
        raise ConfigError(f"the producer of signals can't be made: {text}") from error


def _failed(topic: SignalTopic, text: str) -> SourceError:
    return SourceError(
        f"the signal was not sent: {text}", where=topic.name, hint="look at signal.kafka.bootstrap.servers"
    )

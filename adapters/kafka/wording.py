"""What librdkafka says of an error, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


def said(error: KafkaError) -> str:
    """An error's message, without librdkafka's prefix."""
    text = error.str()
    for speaker in ("Local: ", "Broker: "):
        text = text.removeprefix(speaker)
    return text[:1].lower() + text[1:]

"""What has become of events that were sent: delivered, refused by their topics, or neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka import KafkaError

    from adapters.kafka.producers.records import (
        Record,
    )
    from engine.errors import SinkError


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result for a turn's events: the topics that got a truncate, and those that refuse events."""

    truncated: frozenset[str] = frozenset()
    refused: Mapping[str, SinkError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UndeliveredRecord:
    """One record that could not be delivered, and why."""

    record: Record = field(repr=False)
    partition: int
    error: KafkaError

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Topic and partition; -1 for a record that was not sent at all."""
        return self.record[0], self.partition

    @property
    def size(self) -> int:
        """The bytes of key and value."""
        return len(self.record[1] or b"") + len(self.record[2] or b"")

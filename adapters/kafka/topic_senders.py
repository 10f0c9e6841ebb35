"""The tasks that send the events of a large turn."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.kafka.partitions import of_groups
from adapters.kafka.producers.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.kafka.partitions import Groups
    from adapters.kafka.parts import Attempt
    from adapters.kafka.producers.delivered import DeliveryResult
    from adapters.kafka.settings import KafkaSettings


@dataclass(frozen=True, slots=True)
class SendTopics:
    """The task that sends an attempt's events to some groups of partitions; sent to the executors.

    `barriers` is as in `Delivery.send`.
    """

    settings: KafkaSettings
    attempt: Attempt
    barriers: frozenset[str] = frozenset()

    def __call__(self, groups: Mapping[str, Groups]) -> DeliveryResult:
        """Send them."""
        batches = (of_groups(batch, groups) for batch in self.attempt.batches())
        with contextlib.closing(Delivery(self.settings)) as delivery:
            return delivery.send(batches, barriers=self.barriers)

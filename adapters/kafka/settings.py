"""The settings of the sink `kafka`: its producers' options, and how missing topics are created."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.config.sinks.settings import TopicRecreated

if TYPE_CHECKING:
    from collections.abc import Iterable


class Fencing(StrEnum):
    """`tidemark.sink.kafka.fencing`: what stops a replaced job from sending more events."""

    NONE = "none"
    """Only its lease. Records that its producers hold may still arrive."""
    TRANSACTIONS = "transactions"
    """Each producer has a transactional id, which the successor takes away first."""


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """How topics that match `include` and not `exclude` are created. -1: the broker's default.

    `adapters.kafka.topics` matches them.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    partitions: int = -1
    replication_factor: int = -1
    config: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The Kafka sink. `client` has librdkafka's names. Of `topics` the first group that fits counts.

    `dead_letter_topic` takes records that are too large for their topic. Empty: their table is set aside.
    """

    client: dict[str, str] = field(default_factory=dict, repr=False)
    create_topics: bool = True
    topics: tuple[TopicGroup, ...] = (TopicGroup(),)
    dead_letter_topic: str = ""
    recreated: TopicRecreated = TopicRecreated.WARN
    fencing: Fencing = Fencing.NONE

    @property
    def servers(self) -> str:
        """The brokers as they are given."""
        return self.client.get("bootstrap.servers", "")

    @property
    def shown(self) -> str:
        """The sink and its brokers, for people."""
        return f"kafka at {self.servers or '?'}"

    def datasets(self, topics: Iterable[str], /) -> list[tuple[str, str]]:
        """The topics, at the first of the brokers."""
        broker = self.servers.partition(",")[0].strip()
        return [(f"kafka://{broker}", topic) for topic in topics]

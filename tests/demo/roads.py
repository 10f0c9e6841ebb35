"""How the demo's events leave the job and how its signal gets in: files and the database, or Kafka both ways.

Owns the properties that say so, sending the signal, and bringing the events into the form that the
replay reads. What is asked for, and when, is the scene's affair.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tests.demo.tidemark import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests import replay
    from tests.demo.shop import Shop
    from tests.demo.tidemark import Folder
    from tests.servers.kafka import KafkaBroker

Compared: TypeAlias = "tuple[replay.Figures, list[replay.Compared], list[str]]"
_PARTITIONS = 3
_SIGNAL_TOPIC = f"{PREFIX}-signal"


class Road(Protocol):
    """One way for events and signals."""

    def properties(self, folder: Folder) -> dict[str, str]:
        """What the job is told of it."""

    def ask(self, shop: Shop, data: dict[str, Any]) -> str:
        """Send an execute-snapshot signal; gives what was done, in words that can be copied."""

    def collect(self, folder: Folder, topics: Sequence[str]) -> str:
        """See to it that the events of these topics lie in the folder as lines; gives what was done."""

    def compared(self, shop: Shop, folder: Folder, say: Callable[[str], None]) -> Compared:
        """What has come of the events, laid beside the database; a few differences, for a reader."""


@dataclass(frozen=True, slots=True)
class FilesRoad:
    """The files sink, and the signal in the database."""

    def properties(self, folder: Folder) -> dict[str, str]:
        """The sink and its directory."""
        return {"tidemark.sink": "files", "tidemark.sink.files.dir": str(folder.events)}

    def ask(self, shop: Shop, data: dict[str, Any]) -> str:
        """Write it into the database."""
        return shop.signal(data)

    def collect(self, folder: Folder, topics: Sequence[str]) -> str:  # noqa: ARG002  they lie there
        """Nothing is to be done."""
        return ""

    def compared(self, shop: Shop, folder: Folder, say: Callable[[str], None]) -> Compared:
        """Replay the events."""
        return replayed(shop, folder, say)


@dataclass(frozen=True, slots=True)
class KafkaRoad:
    """Topics of a broker, and a topic for signals."""

    broker: KafkaBroker

    def properties(self, folder: Folder) -> dict[str, str]:  # noqa: ARG002  they go elsewhere
        """The brokers and the topics."""
        self.broker.create_topic(_SIGNAL_TOPIC)
        return {
            "tidemark.sink": "kafka",
            "producer.bootstrap.servers": self.broker.bootstrap,
            "topic.creation.default.partitions": str(_PARTITIONS),
            "topic.creation.default.replication.factor": "1",
            "signal.kafka.topic": _SIGNAL_TOPIC,
            "signal.kafka.bootstrap.servers": self.broker.bootstrap,
        }

    def ask(self, shop: Shop, data: dict[str, Any]) -> str:  # noqa: ARG002  it is not told
        """Send the signal as a record whose key is the topics' prefix."""
        value = json.dumps({"id": "demo", "type": "execute-snapshot", "data": data})
        self.broker.send(_SIGNAL_TOPIC, value, PREFIX)
        return f"to topic {_SIGNAL_TOPIC}: {PREFIX} -> {value}"

    def collect(self, folder: Folder, topics: Sequence[str]) -> str:
        """Consume every topic from its beginning to its end; a key's events are in one partition."""
        for topic in topics:
            self.broker.save(topic, folder.events)
        records = sum(self.broker.count(topic) for topic in topics)
        return f"consumed {records:,} records of {len(topics)} topics"

    def compared(self, shop: Shop, folder: Folder, say: Callable[[str], None]) -> Compared:
        """Replay the events."""
        return replayed(shop, folder, say)


def replayed(shop: Shop, folder: Folder, say: Callable[[str], None]) -> Compared:
    """The events in the folder, replayed."""
    say(f"replaying {folder.events} and comparing")
    return shop.compared(folder.events)

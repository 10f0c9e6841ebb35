"""The sinks that a case's events may go through, and how they are read again."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tests.golden.event import Event, emitted_events

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.kafka import KafkaBroker


class Road(Protocol):
    """One sink, in a directory of the case's own."""

    def properties(self, directory: Path) -> dict[str, str]:
        """The settings that send events this way; called at each start of the engine."""

    def events(self, directory: Path) -> tuple[Event, ...]:
        """Everything that was sent."""


class FilesRoad:
    """The files sink: all events in the order in which they were sent."""

    def properties(self, directory: Path) -> dict[str, str]:
        """A directory of files."""
        return {"tidemark.sink": "files", "tidemark.sink.files.dir": str(directory)}

    def events(self, directory: Path) -> tuple[Event, ...]:
        """What the turns' directories hold."""
        return emitted_events(directory)


@dataclass(frozen=True, slots=True)
class KafkaRoad:
    """Topics of one partition: each in the order in which it was sent, one topic after the other."""

    broker: KafkaBroker

    def properties(self, directory: Path) -> dict[str, str]:
        """The broker; a case begins without topics."""
        if not directory.exists():
            directory.mkdir(parents=True)
            for topic in self.broker.topics():
                self.broker.delete_topic(topic)
        return {"tidemark.sink": "kafka", "producer.bootstrap.servers": self.broker.bootstrap}

    def events(self, directory: Path) -> tuple[Event, ...]:
        """What a consumer of every topic reads."""
        consumed = directory / "consumed"
        shutil.rmtree(consumed, ignore_errors=True)
        for topic in self.broker.topics():
            self.broker.save(topic, consumed)
        return emitted_events(consumed)


def by_topic(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """As a consumer of topics sees them: in order within each, topic by topic."""
    return tuple(sorted(events, key=lambda event: event.topic))

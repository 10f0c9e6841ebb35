"""Builds a job's desk from its settings: which signal channels it listens to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from adapters.kafka.signal_topic import KafkaTopicReader
from engine.model import Channel
from signals.actions import registered_actions
from signals.answers import log_answer
from signals.channels.file import FileChannel
from signals.channels.topic import TopicChannel
from signals.desk import Desk, nowhere

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.clock import Clock
    from engine.config.settings import SignalSettings, SignalTopic
    from signals.actions import SignalAction
    from signals.answers import Answer
    from signals.channels.port import SignalChannel

_EARLIER_MS: Final = 60_000
"""Clocks differ, and a job takes seconds to start. Signals sent this shortly before it are meant for it."""


@dataclass(frozen=True, slots=True)
class JobSignals:
    """What a job has of its own: its process's channel, if any, and its source's actions, by signal type."""

    channel: SignalChannel | None = None
    actions: Mapping[str, SignalAction] = field(default_factory=dict)


NOTHING_OWN = JobSignals()


def make_desk(
    settings: SignalSettings,
    topic_prefix: str,
    clock: Clock,
    answer: Callable[[Answer], None] | None = None,
    record: Callable[[int, Sequence[Answer]], None] = nowhere,
    own: JobSignals = NOTHING_OWN,
) -> Desk:
    """The desk with the enabled channels, which listen from now on; `answer` None logs the answers.

    `record` gets all answers of a turn.
    Channels and actions of other packages are made, too. Raises ConfigError if one of them can't be loaded,
    or if the topic's consumer can't be created from its options.
    """
    channels: dict[str, SignalChannel] = {
        name: custom.make(custom.settings, topic_prefix) for name, custom in settings.custom.items()
    }
    if Channel.KAFKA in settings.channels:
        channels[Channel.KAFKA] = _topic(settings.topic, topic_prefix, clock)
    if Channel.FILE in settings.channels:
        channels[Channel.FILE] = FileChannel(settings.file)
    if own.channel is not None:
        channels[Channel.IN_PROCESS] = own.channel
    reads_table = Channel.SOURCE in settings.channels
    actions = {**registered_actions(), **own.actions}
    return Desk(
        answer or log_answer,
        channels,
        monotonic=clock.monotonic,
        reads_table=reads_table,
        record=record,
        actions=actions,
    )


def _topic(topic: SignalTopic, key: str, clock: Clock) -> TopicChannel:
    reader = KafkaTopicReader(topic.name, topic.client, topic.poll_timeout_ms / 1000, clock.monotonic)
    first_ms = 0 if topic.from_beginning else clock.now_ms - _EARLIER_MS
    return TopicChannel(topic.name, key, reader, first_ms)

"""Builds a job's desk from its settings: which signal channels it listens to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.kafka.signal_topic import KafkaTopicReader
from engine.model import Channel
from signals.answers import log_answer
from signals.desk import Desk
from signals.file import FileChannel
from signals.topic import TopicChannel

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.settings import SignalSettings, SignalTopic
    from signals.answers import Answer
    from signals.channels import SignalChannel

_EARLIER_MS: Final = 60_000
"""Clocks differ, and a job takes seconds to start. Signals sent this shortly before it are meant for it."""


def make_desk(
    settings: SignalSettings,
    topic_prefix: str,
    now_s: float,
    answer: Callable[[Answer], None] | None = None,
) -> Desk:
    """The desk with the enabled channels, which listen from `now_s` on; `answer` None logs the answers.

    Raises ConfigError if the topic's consumer can't be created from its options.
    """
    channels: dict[Channel, SignalChannel] = {}
    if Channel.KAFKA in settings.channels:
        channels[Channel.KAFKA] = _topic(settings.topic, topic_prefix, now_s)
    if Channel.FILE in settings.channels:
        channels[Channel.FILE] = FileChannel(settings.file)
    return Desk(answer or log_answer, channels, reads_table=Channel.SOURCE in settings.channels)


def _topic(topic: SignalTopic, key: str, now_s: float) -> TopicChannel:
    reader = KafkaTopicReader(topic.name, topic.client, topic.poll_timeout_ms / 1000)
    first_ms = 0 if topic.from_beginning else int(now_s * 1000) - _EARLIER_MS
    return TopicChannel(topic.name, key, reader, first_ms)

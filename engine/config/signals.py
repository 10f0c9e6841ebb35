"""Where signals come from: the enabled channels and their settings.

Composes the settings from the properties and checks the rules between them. `kafka` translates the topic
consumer's options to librdkafka's names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.config.settings import CustomChannel, SignalSettings, SignalTopic
from engine.config.sinks.kafka import CONSUMER, Given, translate
from engine.model import Channel, CollectionId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.config.plugins import ChannelType
    from engine.config.properties.values import Values

_CONSUMER = "signal.consumer."
_RESET = f"{_CONSUMER}auto.offset.reset"
_NEEDS = {
    Channel.SOURCE: "signal.data.collection",
    Channel.KAFKA: "signal.kafka.topic",
    Channel.FILE: "signal.file",
}
"""The property that enables a channel if no channels are listed."""
_BUILT_IN = frozenset({*_NEEDS, Channel.IN_PROCESS})


@dataclass(slots=True)
class SignalsRead:
    """The settings, and every problem found on the way."""

    settings: SignalSettings
    problems: list[str] = field(default_factory=list)


def read_signals(values: Values, custom: Mapping[str, ChannelType]) -> SignalsRead:
    """Compose the settings. Channels that are off are not checked. `custom` are those of other packages."""
    channels, problems = _channels(values), list[str]()
    collection = values.typed["signal.data.collection"]
    if isinstance(collection, tuple):  # one per database; the source knows them all
        collection = next(iter(collection), None)
    settings = SignalSettings(
        channels=channels,
        collection=collection if isinstance(collection, CollectionId) else None,
        topic=_topic(values, problems) if Channel.KAFKA in channels else SignalTopic(),
        file=values.get("signal.file", str),
        custom={name: CustomChannel(kind.read(values), kind.make) for name, kind in custom.items()},
    )
    return SignalsRead(settings, problems)


def idle_signals(values: Values) -> Iterator[str]:
    """Warn about settings of channels that are off, and about channels that can't receive anything."""
    named = values.get("signal.enabled.channels", frozenset)
    if "jmx" in named:
        yield "the signal channel jmx (there is no JMX)"
    channels = _channels(values)
    if Channel.SOURCE in channels and "signal.data.collection" not in values.given:
        yield "the signal channel source (there is no signal.data.collection)"
    for name in values.given:
        if Channel.KAFKA not in channels and name.startswith(("signal.kafka.", _CONSUMER)):
            yield f"{name} (the signal channel kafka is off)"
        if Channel.FILE not in channels and name == "signal.file":
            yield f"{name} (the signal channel file is off)"


def _channels(values: Values) -> frozenset[Channel]:
    """The channels listed; if none are listed, those whose settings are present."""
    named = values.get("signal.enabled.channels", frozenset)
    if named:
        return frozenset(Channel(name) for name in named if name in _BUILT_IN)
    return frozenset(channel for channel, name in _NEEDS.items() if name in values.given)


def _topic(values: Values, problems: list[str]) -> SignalTopic:
    options = {
        name: Given(_CONSUMER + name, values.given[_CONSUMER + name])
        for (name, *_), _value in values.group(f"{_CONSUMER}<option>")
    }
    servers = "signal.kafka.bootstrap.servers"
    if servers in values.given:
        options["bootstrap.servers"] = Given(servers, values.given[servers])
    else:
        problems.append(f"missing {servers!r}: the kafka signal channel needs it")
    client = translate(options, CONSUMER)
    problems += client.problems
    reset = values.given.get(_RESET, "latest").strip().lower()
    if reset not in {"latest", "earliest"}:
        problems.append(f"{_RESET!r} must be latest or earliest")
    return SignalTopic(
        name=values.get("signal.kafka.topic", str) or f"{values.get('topic.prefix', str)}-signal",
        client={**client.config, "group.id": values.get("signal.kafka.groupId", str)},
        from_beginning=reset == "earliest",
        poll_timeout_ms=values.get("signal.kafka.poll.timeout.ms", int),
    )

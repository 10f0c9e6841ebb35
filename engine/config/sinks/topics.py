"""The Kafka sink's settings: its producers' options, and how missing topics are created.

Composes the settings from the properties and checks the rules between them. The names are those of a Connect
worker and of a connector; the connector's override the worker's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.config.sinks.kafka import PRODUCER, Given, translate
from engine.config.sinks.settings import Fencing, KafkaSettings, TopicGroup, TopicRecreated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

_DEFAULT = "default"
TOPIC_OPTIONS = tuple(
    f"topic.creation.<group>.{option}"
    for option in ("include", "exclude", "partitions", "replication.factor", "<name>")
)


@dataclass(slots=True)
class KafkaRead:
    """The settings, and every problem found on the way."""

    settings: KafkaSettings
    problems: list[str] = field(default_factory=list)


def read_kafka(values: Values) -> KafkaRead:
    """Compose the sink's settings. They are not checked if another sink is used."""
    problems: list[str] = []
    client = translate(_producer(values), PRODUCER)
    problems += client.problems
    if not client.config.get("bootstrap.servers"):
        problems.append("missing 'producer.bootstrap.servers': the brokers that the sink 'kafka' writes to")
    settings = KafkaSettings(
        client=client.config,
        create_topics=values.get("topic.creation.enable", bool),
        topics=tuple(_groups(values, problems)),
        recreated=values.get("tidemark.sink.topic.recreated", TopicRecreated),
        fencing=values.get("tidemark.sink.kafka.fencing", Fencing),
        dead_letter_topic=values.get("tidemark.sink.kafka.dead.letter.topic", str),
    )
    return KafkaRead(settings, problems)


def kafka_names(values: Values) -> Iterator[str]:
    """The names of the properties that only the Kafka sink uses."""
    yield from (given.property for given in _producer(values).values())
    yield from (name for name in values.given if name.startswith("topic.creation."))


def _producer(values: Values) -> dict[str, Given]:
    options: dict[str, Given] = {}
    if values.get("bootstrap.servers", str):
        options["bootstrap.servers"] = Given("bootstrap.servers", values.given["bootstrap.servers"])
    for prefix in ("producer.", "producer.override."):
        for (name, *_), _text in values.group(f"{prefix}<option>"):
            # the text as given, since a resolved reference hides itself
            options[name] = Given(prefix + name, values.given[prefix + name])
    return options


def _groups(values: Values, problems: list[str]) -> Iterator[TopicGroup]:
    """The groups in order, the default last. The first that fits a topic counts."""
    order = [name for name in values.get("topic.creation.groups", tuple) if name != _DEFAULT]
    named: dict[str, dict[str, object]] = {name: {} for name in (*order, _DEFAULT)}
    for pattern in TOPIC_OPTIONS:
        for (group, *rest), value in values.group(pattern):
            option = rest[0] if rest else pattern.removeprefix("topic.creation.<group>.")
            if group in named:
                named[group][option] = value
            else:
                name = pattern.replace("<group>", group).replace("<name>", option)
                problems.append(f"{name!r} is of no group that 'topic.creation.groups' names")
    for name, options in named.items():
        if name != _DEFAULT and "include" not in options:
            problems.append(f"missing 'topic.creation.{name}.include': the topics of this group")
        yield _group(options)


def _group(options: dict[str, object]) -> TopicGroup:
    include, exclude = options.pop("include", (".*",)), options.pop("exclude", ())
    partitions, copies = options.pop("partitions", -1), options.pop("replication.factor", -1)
    return TopicGroup(
        include=include if isinstance(include, tuple) else (),
        exclude=exclude if isinstance(exclude, tuple) else (),
        partitions=partitions if isinstance(partitions, int) else -1,
        replication_factor=copies if isinstance(copies, int) else -1,
        config={name: str(value) for name, value in options.items()},
    )

"""The properties of the sink `kafka`, and the settings that they make.

The names are those of a Connect worker and of a connector; the connector's override the worker's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.kafka.settings import Fencing, KafkaSettings, TopicGroup
from engine.config.plugins import SinkType
from engine.config.properties.expression_shapes import EXPRESSIONS
from engine.config.properties.row import APPLIED, Catalogue, Property
from engine.config.properties.shapes import FLAG, NAMES, TEXT, choice, whole
from engine.config.properties.values import read_values
from engine.config.sinks.every_sink import RECREATED, need_checkpoint, recreated
from engine.config.sinks.kafka import PRODUCER, Given, translate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from engine.config.properties.values import Values
    from engine.config.sinks.kafka import ClientConfiguration

P = Property
_COUNT: Final = whole(-1, 32767)
_DEFAULT: Final = "default"
_FENCING, _LETTERS = "tidemark.sink.kafka.fencing", "tidemark.sink.kafka.dead.letter.topic"

ROWS: Final = (
    P("bootstrap.servers", APPLIED, "the brokers of the sink kafka", TEXT),
    P("producer.<option>", APPLIED, "option of the sink kafka's producers, as Java names it"),
    P("producer.override.<option>", APPLIED, "the same; takes precedence over producer.*"),
    P(
        "topic.creation.enable",
        APPLIED,
        "create missing topics; false: leave that to the broker",
        FLAG,
        "true",
    ),
    P("topic.creation.groups", APPLIED, "groups of topics with creation settings of their own", NAMES),
    P("topic.creation.<group>.include", APPLIED, "the topics of a group", EXPRESSIONS),
    P("topic.creation.<group>.exclude", APPLIED, "topics that do not belong to a group", EXPRESSIONS),
    P(
        "topic.creation.<group>.partitions",
        APPLIED,
        "number of partitions of a new topic; -1: the broker's default",
        _COUNT,
    ),
    P(
        "topic.creation.<group>.replication.factor",
        APPLIED,
        "replication factor of a new topic; -1: the broker's default",
        _COUNT,
    ),
    P("topic.creation.<group>.<name>", APPLIED, "a setting of a new topic, as the broker names it", TEXT),
    P(
        _FENCING,
        APPLIED,
        "what keeps a job that was replaced from sending more: only its lease (none), or transactions",
        choice(Fencing),
        "none",
    ),
    P(
        _LETTERS,
        APPLIED,
        "topic for records that are too large for their own topic; without it, their table is set aside",
        TEXT,
    ),
    RECREATED,
)
TOPIC_OPTIONS: Final = tuple(
    f"topic.creation.<group>.{option}"
    for option in ("include", "exclude", "partitions", "replication.factor", "<name>")
)


def read(values: Values) -> KafkaSettings:
    """Compose the sink's settings. Its problems are added to the others."""
    client = _producer(values)
    values.problems.extend(client.problems)
    if not client.config.get("bootstrap.servers"):
        values.problems.append(
            "missing 'producer.bootstrap.servers': the brokers that the sink 'kafka' writes to"
        )
    need_checkpoint(values)
    return KafkaSettings(
        client=client.config,
        create_topics=values.get("topic.creation.enable", bool),
        topics=tuple(_groups(values)),
        recreated=recreated(values),
        fencing=values.get(_FENCING, Fencing),
        dead_letter_topic=values.get(_LETTERS, str),
    )


def producer_client(properties: Mapping[str, str]) -> dict[str, str]:
    """The producers' options under librdkafka's names, whatever the sink is."""
    return _producer(read_values(properties, Catalogue(ROWS))).config


def _producer(values: Values) -> ClientConfiguration:
    options: dict[str, Given] = {}
    if values.get("bootstrap.servers", str):
        options["bootstrap.servers"] = Given("bootstrap.servers", values.given["bootstrap.servers"])
    for prefix in ("producer.", "producer.override."):
        for (name, *_), _text in values.group(f"{prefix}<option>"):
            # the text as given, since a resolved reference hides itself
            options[name] = Given(prefix + name, values.given[prefix + name])
    return translate(options, PRODUCER)


def _groups(values: Values) -> Iterator[TopicGroup]:
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
                values.problems.append(f"{name!r} is of no group that 'topic.creation.groups' names")
    for name, options in named.items():
        if name != _DEFAULT and "include" not in options:
            values.problems.append(f"missing 'topic.creation.{name}.include': the topics of this group")
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


SINK: Final = SinkType(ROWS, read, "adapters.source.sinks.kafka")

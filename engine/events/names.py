"""Names of topics, schemas and fields, as Debezium's default strategies make them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.events.settings import EventSettings, NameAdjustment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import CollectionId

_NOT_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_NOT_IN_AVRO = re.compile(r"[^A-Za-z0-9_.]")
_NOT_IN_FIELD = re.compile(r"[^A-Za-z0-9_]")


def topic_of(collection: CollectionId, settings: EventSettings) -> str:
    """The topic of a collection's events; what a topic can't contain becomes `_`."""
    return topic_name(settings, *collection.parts)


def topic_name(settings: EventSettings, *parts: str) -> str:
    """The prefix and the parts with the delimiter between them."""
    return _NOT_IN_TOPIC.sub("_", settings.topic_delimiter.join((settings.topic_prefix, *parts)))


def transaction_topic(settings: EventSettings) -> str:
    """The topic of transaction metadata."""
    return topic_name(settings, settings.transaction_topic)


def message_topic(settings: EventSettings) -> str:
    """The topic of logical decoding messages."""
    return topic_name(settings, "message")


def heartbeat_topic(settings: EventSettings) -> str:
    """The topic of heartbeats."""
    return f"{settings.heartbeat_prefix}{settings.topic_delimiter}{settings.topic_prefix}"


def schema_name(topic: str, part: str, settings: EventSettings) -> str:
    """The name of a table's `Key`, `Value` or `Envelope` schema."""
    name = f"{topic}.{part}"
    return avro_name(name) if settings.schema_names is NameAdjustment.AVRO else name


def avro_name(name: str) -> str:
    """A dotted name in which every character is allowed by Avro."""
    cleaned = _NOT_IN_AVRO.sub("_", name)
    return f"_{cleaned}" if cleaned[:1].isdigit() else cleaned


def field_name(name: str, settings: EventSettings) -> str:
    """The field of a column.

    Only `sanitize.field.names` changes it: Debezium 2.1.4 does not know `field.name.adjustment.mode`.
    """
    if not settings.sanitize_fields:
        return name
    cleaned = _NOT_IN_FIELD.sub("_", name)
    return f"_{cleaned}" if cleaned[:1].isdigit() else cleaned


def topic_collisions(collections: Iterable[CollectionId], settings: EventSettings) -> tuple[str, ...]:
    """A line for each topic that several collections would share, to be warned about."""
    by_topic: dict[str, list[str]] = {}
    for collection in collections:
        by_topic.setdefault(topic_of(collection, settings), []).append(str(collection))
    return tuple(
        f"{' and '.join(repr(name) for name in names)} share the topic {topic!r}"
        for topic, names in by_topic.items()
        if len(names) > 1
    )

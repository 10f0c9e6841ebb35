"""Names of topics, schemas and fields, as Debezium's default strategies make them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.events.settings import EventSettings, NameAdjustment

if TYPE_CHECKING:
    from engine.model import CollectionId

_NOT_IN_TOPIC = re.compile(r"[^A-Za-z0-9._-]")
_NOT_IN_AVRO = re.compile(r"[^A-Za-z0-9_.]")
_NOT_FIRST_IN_AVRO = frozenset("0123456789.")
_NOT_IN_FIELD = re.compile(r"[^A-Za-z0-9_]")
_LONGEST_TOPIC = 249
"""The most characters that Kafka allows in a topic's name."""


def topic_of(collection: CollectionId, settings: EventSettings) -> str:
    """The topic of a collection's events. Characters that a topic can't contain become `_`."""
    return topic_name(settings, *collection.parts)


def topic_name(settings: EventSettings, *parts: str) -> str:
    """The prefix and the parts joined by the delimiter, truncated if too long for Kafka."""
    name = settings.topic_delimiter.join((settings.topic_prefix, *parts))
    return _cleaned(name, _NOT_IN_TOPIC)[:_LONGEST_TOPIC]


def transaction_topic(settings: EventSettings) -> str:
    """The topic of transaction metadata."""
    return topic_name(settings, settings.transaction_topic)


def schema_topic(settings: EventSettings) -> str:
    """The topic of schema changes: the prefix itself."""
    return topic_name(settings)


def message_topic(settings: EventSettings) -> str:
    """The topic of logical decoding messages; its delimiter is always a dot."""
    return f"{settings.topic_prefix}.message"


def heartbeat_topic(settings: EventSettings) -> str:
    """The topic of heartbeats."""
    return f"{settings.heartbeat_prefix}{settings.topic_delimiter}{settings.topic_prefix}"


def schema_name(topic: str, part: str, settings: EventSettings) -> str:
    """The name of a table's `Key`, `Value` or `Envelope` schema."""
    name = f"{topic}.{part}"
    return avro_name(name) if settings.schema_names is NameAdjustment.AVRO else name


def avro_name(name: str) -> str:
    """A dotted name with every character that Avro does not allow in its place replaced by `_`."""
    cleaned = _cleaned(name, _NOT_IN_AVRO)
    return f"_{cleaned[1:]}" if cleaned[:1] in _NOT_FIRST_IN_AVRO else cleaned


def field_name(name: str, settings: EventSettings) -> str:
    """The field name of a column.

    Only `sanitize.field.names` changes it: Debezium 2.1.4 does not know `field.name.adjustment.mode`.
    """
    if not settings.sanitize_fields:
        return name
    cleaned = _cleaned(name, _NOT_IN_FIELD)
    return f"_{cleaned}" if cleaned[:1].isdigit() else cleaned


def _cleaned(name: str, unwanted: re.Pattern[str]) -> str:
    """Replace each unwanted UTF-16 unit by `_`, since Java counts characters that way."""
    return unwanted.sub(lambda found: "__" if ord(found[0]) > 0xFFFF else "_", name)

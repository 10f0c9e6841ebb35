"""The events of logical decoding messages, which `pg_logical_emit_message` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adapters.postgres.events.source_block import (
    CONNECTOR,
    SOURCE,
    sequence_text,
    source_end,
    source_snapshot,
    source_table,
)
from adapters.postgres.log.pgoutput import LogicalMessage, Messages, parse_message
from engine.events.names import message_topic
from engine.events.record.assemble import EventGroup
from engine.events.record.envelope import source_head
from engine.events.record.schema import BYTES, INT64, STRING, Schema, struct, with_schema
from engine.events.settings import BinaryMode, EventSettings
from engine.events.values.binary import encode_bytes
from engine.events.values.json_text import quote
from engine.expressions import matches

if TYPE_CHECKING:
    from adapters.postgres.events.source_block import Moment
    from adapters.postgres.log.timeline import Timeline

OWN_PREFIX = "tidemark"
"""The prefix of the empty messages by which the engine moves the log itself; they make no events."""
_KEY = struct("io.debezium.connector.postgresql.MessageKey", ("prefix", STRING.nullable()), version=1)


def message_events(
    messages: Messages, line: Timeline, settings: EventSettings, moment: Moment
) -> list[EventGroup]:
    """The events of all messages with a wanted prefix."""
    found = []
    for number in np.flatnonzero(messages.kinds == ord("M")):
        message = parse_message(bytes(messages.data[messages.starts[number] : messages.ends[number]]))
        if _wanted(message, settings):
            found.append((int(number), message))
    if not found:
        return []
    before, after = with_schema(_KEY, enabled=settings.key_schemas)
    keys = [f'{before}{{"prefix":{quote(message.prefix)}}}{after}' for _, message in found]
    before, after = with_schema(_value_schema(settings), enabled=settings.value_schemas)
    values = [
        f"{before}{_value(messages, line, number, message, settings, moment)}{after}"
        for number, message in found
    ]
    numbers = np.array([number for number, _ in found])
    key, value = (pa.array(texts, pa.large_string()) for texts in (keys, values))
    return [EventGroup(message_topic(settings), numbers, 0, key, value)]


def _wanted(message: LogicalMessage, settings: EventSettings) -> bool:
    if message.prefix == OWN_PREFIX and not message.content:
        return False
    if settings.include_message_prefixes:
        return matches(settings.include_message_prefixes, message.prefix)
    return not matches(settings.exclude_message_prefixes, message.prefix)


def _value_schema(settings: EventSettings) -> Schema:
    content = BYTES if settings.binary is BinaryMode.BYTES else STRING
    message = struct(
        "io.debezium.connector.postgresql.Message",
        ("prefix", STRING.nullable()),
        ("content", content.nullable()),
        version=1,
    )
    return struct(
        "io.debezium.connector.postgresql.MessageValue",
        ("op", STRING),
        ("ts_ms", INT64.nullable()),
        ("source", SOURCE),
        ("message", message),
        version=1,
    )


def _value(
    messages: Messages,
    line: Timeline,
    number: int,
    message: LogicalMessage,
    settings: EventSettings,
    moment: Moment,
) -> str:
    """A message event's JSON.

    A message outside transactions has no txId. Its time is that of the transaction before it, or now.
    """
    ordinal = int(line.ordinal[number])
    lsn, after = int(messages.lsns[number]), int(line.after[number])
    sequence = sequence_text(None if after < 0 else after, lsn)
    time_ms = int(line.times_ms[ordinal]) or moment.now_ms
    xid = line.xids[ordinal] if message.transactional else "null"
    source = (
        f"{source_head(CONNECTOR, settings)}{time_ms}{source_snapshot(settings)}{sequence}"
        f'{source_table("", "")}{xid},"lsn":{lsn}{source_end(moment.xmin)}'
    )
    content = quote(encode_bytes(message.content, settings.binary))
    inner = f'{{"prefix":{quote(message.prefix)},"content":{content}}}'
    return f'{{"op":"m","ts_ms":{moment.now_ms},"source":{source},"message":{inner}}}'

"""Finds the events of a topic among lines of the files sink, and parses them by the schemas that they carry.

All events of a table under one schema share a long text: from behind the key up to the payload. It is taken
from one line and looked for in all others, so no Python runs per row, and each schema is parsed once.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import ConfigError, SourceError
from engine.events.record.schema import STRING, array, struct
from engine.events.record.schema_json import schema_from_json
from engine.events.record.typed import from_json
from engine.events.values.text import join, slices, text_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.lake.turn_files import Lines
    from engine.events.record.schema import Schema
    from engine.events.values.text import Ints, Text

_VALUE: Final = ',"value":{"schema":'
"""Begins an event's value. No key has this text: quotes inside of strings are escaped."""
_PAYLOAD: Final = ',"payload":'
_TOMBSTONE: Final = ',"value":null,"headers":'
_HEADERS: Final = array(struct("header", ("key", STRING), ("value", STRING)))
_DECODER: Final = json.JSONDecoder()


class ParsedEvents(NamedTuple):
    """Events of one schema: their envelopes as a struct array, and where their lines begin."""

    schema: Schema
    envelopes: pa.StructArray
    begins: Ints


def of_topic(lines: Lines, topic: str) -> tuple[Text, Ints]:
    """The lines of a topic, and where they begin."""
    there = pc.starts_with(lines.texts, '{"topic":' + orjson.dumps(topic).decode() + ",")
    rows = np.flatnonzero(there.to_numpy(zero_copy_only=False))
    return _taken(lines.texts, rows), lines.begins[rows]


def _taken(texts: Text, rows: Ints) -> Text:
    """These rows. They ascend, so as many as there are are all."""
    return texts if len(rows) == len(texts) else texts.take(rows)


def parsed_events(lines: Lines, topic: str) -> Iterator[ParsedEvents]:
    """The change events of a topic, one batch per schema; within each the order of the lines is kept.

    Tombstones are left out: each follows a delete. Raises ConfigError if the events carry no schemas.
    """
    texts, begins = of_topic(lines, topic)
    while len(texts):
        sample = texts[0].as_py()
        if not _is_event(sample, topic):
            kept = np.flatnonzero(_contains(texts, _VALUE) | ~_contains(texts, _TOMBSTONE))
            texts, begins = _taken(texts, kept), begins[kept]
            continue
        prefix, schema = _value_schema(sample, topic)
        found = pc.find_substring(texts, prefix).to_numpy(zero_copy_only=False)
        alike, others = np.flatnonzero(found >= 0), np.flatnonzero(found < 0)
        payloads = found[alike] + len(prefix.encode())
        yield ParsedEvents(schema, _envelopes(_taken(texts, alike), payloads, schema), begins[alike])
        texts, begins = texts.take(others), begins[others]


def newest_schema(lines: Lines, topic: str) -> Schema | None:
    """The schema of the last change event of a topic; None if there is none."""
    texts, _begins = of_topic(lines, topic)
    for at in reversed(range(len(texts))):
        line = texts[at].as_py()
        if _is_event(line, topic):
            return _value_schema(line, topic)[1]
    return None


def _is_event(line: str, topic: str) -> bool:
    """Whether a line is no tombstone. Raises ConfigError if it is neither that nor an event with a schema."""
    if _VALUE in line:
        return True
    if _TOMBSTONE in line:
        return False
    raise ConfigError(
        f"events of {topic!r} carry no schemas, so their columns have no types",
        hint="set value.converter.schemas.enable=true (the default) where the job runs",
    )


def _contains(texts: Text, pattern: str) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.match_substring(texts, pattern).to_numpy(
        zero_copy_only=False
    )
    return found


def _value_schema(line: str, topic: str) -> tuple[str, Schema]:
    """The text from behind a line's key up to its payload, and the schema in it."""
    at = line.index(_VALUE)
    try:
        _value, end = _DECODER.raw_decode(line, at + len(_VALUE))
        schema = _schema(line[at + len(_VALUE) : end])
    except ValueError as error:
        raise SourceError(f"a line of {topic!r} can't be read", hint="is the file damaged?") from error
    if not line.startswith(_PAYLOAD, end):
        raise SourceError(f"a line of {topic!r} has no payload", hint="is the file damaged?")
    return line[at : end + len(_PAYLOAD)], schema


@lru_cache(maxsize=64)
def _schema(text: str) -> Schema:
    return schema_from_json(text)


def _envelopes(texts: Text, starts: Ints, schema: Schema) -> pa.StructArray:
    """The payloads that begin at `starts` of these lines."""
    offsets, data = text_parts(texts)
    payloads = slices(data, offsets[:-1] + starts, offsets[1:] - len("\n"), np.ones(len(texts), bool))
    wrapped = struct("", ("value", struct("", ("payload", schema))), ("headers", _HEADERS))
    parsed = from_json(join(['{"value":{"payload":', payloads], len(texts)), wrapped)
    return parsed.field("value").field("payload")

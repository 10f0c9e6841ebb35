"""Renders events as lines of text with Arrow; no Python runs per row.

Owns the two formats: JSON lines and readable lines. The sinks decide where the bytes go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT: Final = pa.large_string()


def json_lines(batch: pa.RecordBatch, affixes: tuple[str, str] = ("", "")) -> pa.LargeStringArray:
    """One JSON object per event: topic, key, value (both as JSON, or null), headers (a list).

    `affixes` is put before and after each value; no value is null then.
    """
    before, after = affixes
    topics = _topics(batch, lambda topic: '{"topic":' + orjson.dumps(topic).decode() + ',"key":')
    key, value = _column(batch, "key"), _column(batch, "value")
    headers = _column(batch, "headers")
    opened = _text(f',"value":{before}')
    if headers.null_count == len(headers):
        return _joined(topics, key, opened, value, _text(json_ending(after)))
    headers = pc.fill_null(headers, _text("[]"))
    return _joined(topics, key, opened, value, _text(f'{after},"headers":'), headers, _text("}\n"))


def json_ending(after: str) -> str:
    """What comes after the value of an event without headers, `after` included."""
    return f'{after},"headers":[]}}\n'


def readable_lines(batch: pa.RecordBatch) -> pa.LargeStringArray:
    """One readable line per event: topic, key, value, and any headers."""
    topics = _topics(batch, lambda topic: topic + " ")
    headers = pc.binary_join_element_wise(_text(" "), _column(batch, "headers"), _text(""))
    headers = pc.fill_null(headers, _text(""))
    key, value = _column(batch, "key"), _column(batch, "value")
    return _joined(topics, key, _text(" "), value, headers, _text("\n"))


def _text(text: str) -> pa.Scalar:
    return pa.scalar(text, _TEXT)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(name).cast(_TEXT)


def _topics(batch: pa.RecordBatch, rendered: Callable[[str], str]) -> pa.Array | pa.Scalar:
    """The topic of each event, rendered once per name; a Scalar if the batch has one name."""
    topics = batch.column("topic")
    names = [rendered(name) for name in topics.dictionary.to_pylist()]
    return _text(names[0]) if len(names) == 1 else pa.array(names, _TEXT).take(topics.indices)


def _joined(*pieces: pa.Array | pa.Scalar) -> pa.LargeStringArray:
    """Join the pieces row by row; a null piece becomes `null`."""
    return pc.binary_join_element_wise(*pieces, _text(""), null_handling="replace", null_replacement="null")

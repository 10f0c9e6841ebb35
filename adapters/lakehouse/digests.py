"""Digests of rows as a lake's tables hold them. Pure; runs on executors.

What windows have read and what a table holds are digested alike. A column may have been widened since, so
equal values have one text, whatever the width of their type:

| values | text |
|---|---|
| integers, booleans, texts | as they are |
| floats | as doubles |
| decimals | with 38 digits behind the point |
| dates and times | to the microsecond, UTC |
| binary | in hexadecimal |
| arrays, maps, structs | the texts of their members |

A row is the texts of its columns, joined by tabs. Within a text tabs and backslashes are escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError
from engine.verify.compared_digests import digests_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.values.text import Text

_TEXT: Final = pa.large_string()
_NULL: Final = "\\N"
_TAB: Final = pa.scalar("\t", _TEXT)
_EXACT: Final = pa.decimal256(76, 38)
"""Holds each decimal of up to 38 digits."""
_MOMENT: Final = pa.timestamp("us")


def digests(columns: Sequence[pa.Array]) -> pa.Array:
    """A digest (`DIGEST`) for each row of these columns, which are of one length."""
    texts = _joined(columns)
    return digests_of_rows(pa.nulls(len(texts), _TEXT), texts)


def _joined(columns: Sequence[pa.Array]) -> Text:
    return pc.binary_join_element_wise(*map(_member, columns), _TAB)


def _member(values: pa.Array) -> Text:
    """Texts that can be joined; null has one, too."""
    texts = _texts(values)
    if not _is_plain(values.type):
        for sign, escaped in (("\\", "\\\\"), ("\t", "\\t")):
            texts = pc.replace_substring(texts, sign, escaped)
    return pc.fill_null(texts, _NULL) if texts.null_count else texts


def _is_plain(kind: pa.DataType) -> bool:
    """Whether no text of these values has a tab or a backslash."""
    return not (pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _texts(values: pa.Array) -> Text:
    """The texts of values; null for null."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _where_valid(values, _joined(values.flatten()))
    if pa.types.is_map(kind):
        return _lists(values, _joined([values.keys, values.items]))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(values, values.values)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _hexadecimal(values.cast(pa.large_binary()))
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
    elif pa.types.is_decimal(kind):
        values = values.cast(_EXACT)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        values = values.cast(_MOMENT)
    elif pa.types.is_nested(kind):
        raise InvariantError(f"values of {kind} have no digest")
    return values.cast(_TEXT)


def _lists(values: pa.ListArray, members: pa.Array) -> Text:
    """Lists of these members: how many there are, then their texts."""
    lists = pa.LargeListArray.from_arrays(values.offsets.cast(pa.int64()), _member(members))
    counts = pc.list_value_length(lists).cast(_TEXT)
    return _where_valid(values, pc.binary_join_element_wise(counts, pc.binary_join(lists, _TAB), _TAB))


def _where_valid(values: pa.Array, texts: Text) -> Text:
    return pc.if_else(values.is_valid(), texts, pa.scalar(None, _TEXT)) if values.null_count else texts


def _hexadecimal(values: pa.LargeBinaryArray) -> Text:
    if not len(values):
        return pa.array([], _TEXT)
    _valid, ends, data = values.buffers()
    begins = np.frombuffer(ends, np.int64)[values.offset : values.offset + len(values) + 1]
    content = b"" if data is None else data.slice(int(begins[0]), int(begins[-1] - begins[0])).to_pybytes()
    offsets = pa.py_buffer(np.ascontiguousarray((begins - begins[0]) * 2))
    texts = pa.LargeStringArray.from_buffers(len(values), offsets, pa.py_buffer(content.hex().encode()))
    return _where_valid(values, texts)

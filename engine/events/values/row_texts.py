"""Splits rows read by a query, one text per row (`row_form`), into columns in bulk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError, SourceError
from engine.events.damaged import reading_bytes
from engine.events.values.row_form import ESCAPES, SEPARATOR, RowMode
from engine.events.values.text import Bytes, Ints, Text, slices, text_parts

if TYPE_CHECKING:
    from engine.events.values.row_form import RowShape


class SeparatorInData(SourceError):
    """A value contains the separator. The rows must be read again in an exact form."""


def split_rows(texts: pa.Array, shape: RowShape, mode: RowMode) -> list[Text]:
    """The columns of row texts, null for NULL.

    `texts` are strings or large strings without null. Raises SeparatorInData in FAST mode, and SourceError in
    EXACT mode if the lengths don't fit the values.
    """
    if texts.null_count:
        raise InvariantError("a row's text is null")
    if not shape.columns or len(texts) == 0:
        return [pa.nulls(0, pa.large_string()) for _ in shape.columns]
    offsets, data = text_parts(texts)
    if mode is RowMode.EXACT:
        with reading_bytes("a row with lengths"):
            return _split_exact(texts, offsets, data, shape)
    columns = _split_fast(offsets, data, shape)
    return [_unescaped(column) for column in columns] if mode is RowMode.ESCAPED else columns


def _unescaped(texts: Text) -> Text:
    for plain, escaped in reversed(ESCAPES):
        texts = pc.replace_substring(texts, escaped, plain)
    return texts


def _split_fast(offsets: Ints, data: Bytes, shape: RowShape) -> list[Text]:
    rows, width = len(offsets) - 1, len(shape.columns)
    marks = np.flatnonzero(data[offsets[0] : offsets[-1]] == ord(SEPARATOR)) + offsets[0]
    if len(marks) != rows * width:
        raise SeparatorInData("a value holds the character U+001F", hint="read the rows in exact mode")
    places, flagged = marks.reshape(rows, width), shape.flagged
    if (places[:, 0] != offsets[:-1] + len(flagged)).any() or (places[:, -1] >= offsets[1:]).any():
        raise SeparatorInData("a value holds the character U+001F", hint="read the rows in exact mode")
    edges = np.empty((width + 1, rows), np.int64)
    edges[:width] = places.T
    edges[width] = offsets[1:]
    columns = []
    for index in range(width):
        begins, ends = edges[index] + 1, edges[index + 1]
        if index in flagged:
            given = data[offsets[:-1] + flagged.index(index)] == ord("f")
        elif shape.may_be_empty[index]:
            given = np.ones(rows, bool)
        else:
            given = begins < ends
        columns.append(slices(data, begins, ends, given))
    return columns


def _split_exact(texts: pa.Array, offsets: Ints, data: Bytes, shape: RowShape) -> list[Text]:
    rows, width = len(offsets) - 1, len(shape.columns)
    heads = pc.list_element(pc.split_pattern(texts, ",;", max_splits=1), 0)
    lengths = (
        pc.cast(pc.list_flatten(pc.split_pattern(heads, ",")), pa.int64()).to_numpy().reshape(rows, width)
    )
    begins = offsets[:-1] + pc.binary_length(heads).to_numpy() + 2
    columns = []
    for index in range(width):
        given = lengths[:, index] >= 0
        ends = begins + np.where(given, lengths[:, index], 0)
        columns.append(slices(data, begins, ends, given))
        begins = ends
    return columns

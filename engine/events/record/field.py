"""One column of an event: how its text is converted, and what replaces a missing value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.record.schema import Schema, struct
from engine.events.record.special_decimals import with_specials
from engine.events.record.typed import arrow_type, constant, is_decimal, typed_values
from engine.events.values.json_strings import escape
from engine.events.values.json_text import quote
from engine.events.values.text import Piece, Text, fill, join, scalar

Encode = Callable[[Text], Text]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a type's text becomes JSON.

    - `encode` returns the inside of a JSON string if `quoted`, else JSON. Null stays null. A value that the
      schema can't hold (NaN as a decimal) becomes null, even in events of a NOT NULL column, since any other
      value would be wrong. As a typed value it is marked, see `special_decimals.py`.
    - `filler` is the JSON for a NOT NULL column whose value is unknown.
    - `placeholder` is the JSON for an unchanged value that the log left out (None: as NULL).
    - `plain`, for JSON strings, returns the string before escaping, so that it can be truncated.
    - `text`: the column holds characters, so masks apply to it.
    - `lost`: all values are treated as NULL.
    """

    schema: Schema
    encode: Encode
    quoted: bool
    filler: str
    placeholder: str | None = None
    plain: Encode | None = None
    text: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a key or a row.

    `column` is the index of the input column. `missing` is the JSON for NULL. `shape` changes a string before
    it is escaped (masks, truncation). It gets `raw_missing` for NULL and `raw_placeholder` for an unchanged
    value.
    """

    name: str
    column: int
    conversion: Conversion
    schema: Schema
    missing: str
    shape: Callable[[Text], Text] | None = None
    raw_missing: str | None = None
    raw_placeholder: str | None = None

    def pieces(self, texts: Text, unchanged: Mask | None = None) -> list[Piece]:
        """The column as JSON. `unchanged` marks values that the log left out; `texts` is null there."""
        if self.conversion.lost:
            texts = pa.nulls(len(texts), pa.large_string())
        if self.shape is not None:
            shaped = escape(self.shape(self._raw(texts, unchanged)))
            return [fill(join(['"', shaped, '"'], len(shaped)), self.missing)]
        if unchanged is None or self.conversion.placeholder is None:
            return self._show(texts)
        shown = join(self._show(texts), len(texts))
        return [pc.if_else(pa.array(unchanged), scalar(self.conversion.placeholder), shown)]

    def typed(self, texts: Text, unchanged: Mask | None = None) -> pa.Array:
        """The column as typed values, the same that `pieces` writes. Decimals that JSON lacks are marked."""
        conversion, kind = self.conversion, arrow_type(self.schema)
        if conversion.lost:
            texts = pa.nulls(len(texts), pa.large_string())
        if self.shape is not None:
            shaped = self.shape(self._raw(texts, unchanged))
            return (
                shaped
                if self.missing == "null"
                else fill(shaped, constant(self.missing, self.schema).as_py())
            )
        if texts.null_count == len(texts):
            values = pa.nulls(len(texts), kind)
        elif conversion.plain is not None:
            values = conversion.plain(texts)
        else:
            values = typed_values(conversion.encode(texts), self.schema)
            if is_decimal(self.schema) and values.null_count > texts.null_count:
                values = with_specials(values, texts)
        if self.missing != "null" and texts.null_count:
            values = pc.if_else(pc.is_null(texts), constant(self.missing, self.schema), values)
        if unchanged is None or conversion.placeholder is None:
            return values
        return pc.if_else(pa.array(unchanged), constant(conversion.placeholder, self.schema), values)

    def _raw(self, texts: Text, unchanged: Mask | None) -> Text:
        texts = texts if self.conversion.plain is None else self.conversion.plain(texts)
        if unchanged is not None and self.raw_placeholder is not None:
            texts = pc.if_else(pa.array(unchanged), scalar(self.raw_placeholder), texts)
        return texts if self.raw_missing is None else fill(texts, self.raw_missing)

    def _show(self, texts: Text) -> list[Piece]:
        if texts.null_count == len(texts):
            return [self.missing]
        shown = self.conversion.encode(texts)
        if shown.null_count > texts.null_count:
            return [self._with_misfits(texts, shown)]
        if not self.conversion.quoted:
            return [fill(shown, self.missing)]
        if shown.null_count == 0:
            return ['"', shown, '"']
        return [fill(join(['"', shown, '"'], len(shown)), self.missing)]

    def _with_misfits(self, texts: Text, shown: Text) -> Text:
        """The column with JSON null for values that the type can't hold, whatever replaces NULL."""
        whole = join(['"', shown, '"'], len(shown)) if self.conversion.quoted else shown
        missing = pc.if_else(pc.is_null(texts), scalar(self.missing), scalar("null"))
        return pc.coalesce(whole, missing)


def struct_array(fields: tuple[Field, ...], columns: list[pa.Array]) -> pa.StructArray:
    """The rows of the columns that belong to these fields."""
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(struct_of("", fields))))


def struct_of(name: str, fields: Iterable[Field]) -> Schema:
    """The schema of rows of these fields."""
    return struct(name, *((field.name, field.schema) for field in fields))


def object_pieces(fields: tuple[Field, ...], shown: list[list[Piece]]) -> list[Piece]:
    """`{"a":…,"b":…}` from the pieces of each field."""
    pieces: list[Piece] = ["{"]
    for place, (field, parts) in enumerate(zip(fields, shown, strict=True)):
        pieces += [f"{',' if place else ''}{quote(field.name)}:", *parts]
    return [*pieces, "}"]

"""One column of an event: how its text is converted, and what replaces a missing value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.text import Piece, Text, escape, fill, join, quote, scalar

if TYPE_CHECKING:
    from engine.events.record.schema import Schema

Encode = Callable[[Text], Text]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Conversion:
    """How a type's text becomes JSON.

    - `encode` returns the inside of a JSON string if `quoted`, else JSON. Null stays null. A value that the
      schema can't hold (NaN as a decimal) becomes null, even in events of a NOT NULL column, since any other
      value would be wrong.
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


def object_pieces(fields: tuple[Field, ...], shown: list[list[Piece]]) -> list[Piece]:
    """`{"a":…,"b":…}` from the pieces of each field."""
    pieces: list[Piece] = ["{"]
    for place, (field, parts) in enumerate(zip(fields, shown, strict=True)):
        pieces += [f"{',' if place else ''}{quote(field.name)}:", *parts]
    return [*pieces, "}"]

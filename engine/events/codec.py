"""One table's codec: columns of database text in, keys and rows of events out.

Both roads end here, the log and the rows read by a query, so that a row is the same bytes from
either. What a column becomes was settled when the codec was built; here nothing is decided per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from engine.events.record.envelope import around_read
from engine.events.record.field import Field, Mask, object_pieces
from engine.events.record.headers import simple_texts
from engine.events.values.text import Piece, Text, join, slices, text_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class Row:
    """A batch of rows encoded: the key's JSON (None where the table has none) and the row's pieces."""

    key: Text | None
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class TableCodec:
    """How the rows of one table become events; a plain value, sent to executors as it is.

    `columns` are the names of the input columns in order. `key_wrap` and `value_wrap` stand around
    the payloads (the schemas, where they are on), `header_wrap` around a key's in a header that is
    JSON. `source` is the part of the source block that all
    rows of the table share. `merge_key` are the indexes of the columns that identify a row.
    `never_filled` are columns whose unchanged values are not taken from old rows. `bag`: rows have no key,
    and are told apart by all of their columns, which several may have alike.
    `emit` false: no events; `signal` true: its rows are read as signals.
    """

    collection: CollectionId
    topic: str
    columns: tuple[str, ...]
    fields: tuple[Field, ...]
    key: tuple[Field, ...]
    key_wrap: tuple[str, str]
    value_wrap: tuple[str, str]
    source: tuple[str, str]
    merge_key: tuple[int, ...] = ()
    never_filled: frozenset[int] = frozenset()
    bag: bool = False
    emit: bool = True
    signal: bool = False
    warnings: tuple[str, ...] = field(default=(), compare=False)
    header_wrap: tuple[str, str] | None = None

    def row(self, columns: Sequence[Text], unchanged: Sequence[Mask | None] | None = None) -> Row:
        """Encode rows. `unchanged[i]` marks the values of column i that the log left out."""
        rows = len(columns[0]) if columns else 0
        marks = unchanged or [None] * len(columns)
        encoded = {}
        for one in self.fields:
            encoded[one.name, one.column] = one.pieces(columns[one.column], marks[one.column])
        shown = [encoded[one.name, one.column] for one in self.fields]
        return Row(self._key(columns, encoded, rows, marks), object_pieces(self.fields, shown))

    def _key(
        self,
        columns: Sequence[Text],
        encoded: dict[tuple[str, int], list[Piece]],
        rows: int,
        marks: Sequence[Mask | None],
    ) -> Text | None:
        if not self.key:
            return None
        plain = {one.column for one in self.fields if one.shape is None}
        shown = [
            encoded[one.name, one.column]
            if one.column in plain
            else one.pieces(columns[one.column], marks[one.column])
            for one in self.key
        ]
        return join([self.key_wrap[0], *object_pieces(self.key, shown), self.key_wrap[1]], rows)

    def key_headers(self, keys: Text) -> Text:
        """Keys of events as the values of headers."""
        if self.header_wrap == self.key_wrap:
            return keys
        offsets, data = text_parts(keys)
        before, after = (len(text.encode()) for text in self.key_wrap)
        payloads = slices(data, offsets[:-1] + before, offsets[1:] - after, np.ones(len(keys), bool))
        if self.header_wrap is None:
            return simple_texts(payloads, self.key)
        return join([self.header_wrap[0], payloads, self.header_wrap[1]], len(keys))

    def reads(self, columns: Sequence[Text]) -> tuple[Text | None, Text]:
        """Keys of READ events, and of their values the rows: what `around_reads` stands around."""
        encoded = self.row(columns)
        return encoded.key, join(encoded.pieces, len(columns[0]))

    def around_reads(self, source_json: str, ts_ms: int) -> tuple[str, str]:
        """What stands before and behind the row in the value of a READ event.

        `source_json` is its source block, `ts_ms` the present.
        """
        (opened, closed), (before, after) = self.value_wrap, around_read(source_json, ts_ms)
        return opened + before, after + closed

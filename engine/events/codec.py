"""One table's codec: columns of database text in, keys and rows of events out.

Entries of the log and rows read by a query are both encoded here, so a row gives the same bytes either way.
How each column is converted is decided when the codec is built; nothing is decided per row.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.events.record.envelope import delete_row_affixes, read_row_affixes
from engine.events.record.field import Field, Mask, object_pieces, struct_array
from engine.events.record.headers import simple_texts
from engine.events.record.schema import MASKED
from engine.events.values.text import Piece, Text, join, slices, text_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.record.schema import RecordSchemas
    from engine.model import CollectionId


@dataclass(frozen=True, slots=True)
class Row:
    """An encoded batch of rows: the keys' JSON (None if the table has no key) and the rows' pieces.

    Typed rows have one piece: a struct array of `key`, if there is one, and `row`.
    """

    key: Text | None
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class TableCodec:
    """How the rows of one table become events. A plain value that goes to the executors.

    - `columns` are the names of the input columns in order.
    - `key_affixes` and `value_affixes` are the texts around the payloads (the schemas, if enabled).
      `header_affixes` are those around a key's payload in a JSON header.
    - `source` is the part of the source block that all rows of the table share.
    - `merge_key` are the indexes of the columns that identify a row.
    - `never_filled` are columns whose unchanged values are not taken from old rows.
    - `bag`: rows have no key. All columns together identify a row, and duplicates are possible.
    - `emit` false: no events. `signal` true: the rows are signals.
    - `schemas` are those of typed events; None for rendered ones.
    """

    collection: CollectionId
    topic: str
    columns: tuple[str, ...]
    fields: tuple[Field, ...]
    key: tuple[Field, ...]
    key_affixes: tuple[str, str]
    value_affixes: tuple[str, str]
    source: tuple[str, str]
    merge_key: tuple[int, ...] = ()
    never_filled: frozenset[int] = frozenset()
    bag: bool = False
    emit: bool = True
    signal: bool = False
    warnings: tuple[str, ...] = field(default=(), compare=False)
    header_affixes: tuple[str, str] | None = None
    schemas: RecordSchemas | None = None

    @property
    def unmasked(self) -> TableCodec:
        """The codec without the columns whose values are masked, so that nobody can compare them."""
        return replace(
            self,
            fields=tuple(attribute for attribute in self.fields if MASKED not in attribute.schema.parameters),
        )

    def row(self, columns: Sequence[Text], unchanged: Sequence[Mask | None] | None = None) -> Row:
        """Encode rows. `unchanged[i]` marks the values of column i that the log left out."""
        rows = len(columns[0]) if columns else 0
        marks = unchanged or [None] * len(columns)
        if self.schemas is not None:
            return Row(self._key(columns, {}, rows, marks), [self._typed(columns, marks)])
        encoded = {}
        for member in self.fields:
            encoded[member.name, member.column] = member.pieces(columns[member.column], marks[member.column])
        shown = [encoded[member.name, member.column] for member in self.fields]
        return Row(self._key(columns, encoded, rows, marks), object_pieces(self.fields, shown))

    def _typed(self, columns: Sequence[Text], marks: Sequence[Mask | None]) -> pa.StructArray:
        """The rows, and their keys if they have any, as one array."""
        members = {"row": self.fields, "key": self.key} if self.key else {"row": self.fields}
        arrays = [
            struct_array(
                fields, [member.typed(columns[member.column], marks[member.column]) for member in fields]
            )
            for fields in members.values()
        ]
        return pa.StructArray.from_arrays(arrays, list(members))

    def _key(
        self,
        columns: Sequence[Text],
        encoded: dict[tuple[str, int], list[Piece]],
        rows: int,
        marks: Sequence[Mask | None],
    ) -> Text | None:
        if not self.key:
            return None
        plain = {
            (member.name, member.column) for member in self.fields if member.shape is None
        } & encoded.keys()
        shown = [
            encoded[member.name, member.column]
            if (member.name, member.column) in plain
            else member.pieces(columns[member.column], marks[member.column])
            for member in self.key
        ]
        return join([self.key_affixes[0], *object_pieces(self.key, shown), self.key_affixes[1]], rows)

    def key_headers(self, keys: Text) -> Text:
        """The keys of events, as header values."""
        if self.header_affixes == self.key_affixes:
            return keys
        offsets, data = text_parts(keys)
        before, after = (len(text.encode()) for text in self.key_affixes)
        payloads = slices(data, offsets[:-1] + before, offsets[1:] - after, np.ones(len(keys), bool))
        if self.header_affixes is None:
            return simple_texts(payloads, self.key)
        return join([self.header_affixes[0], payloads, self.header_affixes[1]], len(keys))

    def reads(self, columns: Sequence[Text]) -> tuple[Text | None, Text]:
        """The keys of READ events, and the rows in their values, to be completed by `read_affixes`."""
        encoded = self.row(columns)
        return encoded.key, join(encoded.pieces, len(columns[0]))

    def read_affixes(self, source_json: str, ts_ms: int) -> tuple[str, str]:
        """The text before and after the row in the value of a READ event.

        `source_json` is the source block, `ts_ms` the current time.
        """
        (opened, closed), (before, after) = self.value_affixes, read_row_affixes(source_json, ts_ms)
        return opened + before, after + closed

    def delete_affixes(self, source_json: str, ts_ms: int) -> tuple[str, str]:
        """The same for the row in the value of a delete event."""
        (opened, closed), (before, after) = self.value_affixes, delete_row_affixes(source_json, ts_ms)
        return opened + before, after + closed

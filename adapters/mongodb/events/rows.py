"""Encodes documents read by queries as staged READ events: raw BSON in, Arrow out.

Pure; runs on executors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adapters.mongodb.documents.bson_walk import Kind, elements
from adapters.mongodb.documents.columns import id_columns, written
from adapters.mongodb.documents.extended_json import value_text
from adapters.mongodb.documents.keys import key_text
from engine.events.batch import EVENTS
from engine.events.columns import parsed_events
from engine.events.damaged import reading_bytes
from engine.events.values.json_strings import escape
from engine.events.values.text import join
from engine.snapshot.merge_key import merge_keys
from engine.staging.reads import affixes_for
from engine.staging.rows import STAGED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.mongodb.documents.columns import Written
    from adapters.mongodb.events.codec import CollectionCodec
    from engine.events.values.text import Ints, Piece, Text
    from engine.staging.affixes import Affixes

_SAME_KEY = frozenset({Kind.INT32, Kind.INT64, Kind.OBJECT_ID})
"""Types whose merge key has the text of the event's key."""
_TEXT = EVENTS.field("key").type


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """How documents of one collection become READ events. Sent to the executors."""

    codec: CollectionCodec
    source_json: str
    ts_ms: int
    marked: Mapping[str, str] = field(default_factory=dict)
    """The source blocks of documents that carry a snapshot marker."""

    @property
    def affixes(self) -> Affixes:
        """What surrounds each document in its event's value."""
        return affixes_for(self._affixes, self.source_json, self.marked)

    def _affixes(self, source_json: str) -> tuple[str, str]:
        before, after = self.codec.value_affixes
        tail = (
            f'","patch":null,"filter":null,"updateDescription":null,"source":{source_json},"op":"r"'
            f',"ts_ms":{self.ts_ms},"transaction":null}}'
        )
        return f'{before}{{"before":null,"after":"', tail + after

    def batches(self, raw: bytes, starts: Ints) -> list[pa.RecordBatch]:
        """The staged rows of the documents at these offsets (ascending): of STAGED, or typed events.

        Raises SourceError if one is damaged.
        """
        with reading_bytes("a document"):
            return self._batches(raw, starts)

    def _batches(self, raw: bytes, starts: Ints) -> list[pa.RecordBatch]:
        found, others = ([], range(len(starts))) if self.codec.field_rules.rules else written(raw, starts)
        batches = [self._alike(raw, shape) for shape in found]
        if others:
            batches.append(self._one_by_one(raw, [int(starts[row]) for row in others]))
        return batches

    def _alike(self, raw: bytes, shape: Written) -> pa.RecordBatch:
        """Documents of one shape."""
        ids = id_columns(raw, shape.ids) if shape.ids else None
        if ids is not None:
            return self._staged(ids, ids, shape.embedded())
        places = shape.ids.starts.tolist() if shape.ids else [None] * len(shape.rows)
        ends = shape.ids.ends.tolist() if shape.ids else places
        kind = shape.ids.kind if shape.ids else 0
        pairs = [_id_texts(raw, kind, start, end) for start, end in zip(places, ends, strict=True)]
        return self._staged(*_columns(pairs), shape.embedded())

    def _one_by_one(self, raw: bytes, starts: Sequence[int]) -> pa.RecordBatch:
        """Documents with uncommon shapes, or with field rules."""
        texts = pa.array([self.codec.document_json(raw, start) for start in starts], _TEXT)
        return self._staged(*_columns([_ids(raw, start) for start in starts]), [escape(texts)])

    def _staged(self, ids: Text, merge: Text, embedded: list[Piece]) -> pa.RecordBatch:
        codec, rows = self.codec, len(ids)
        before, after = codec.key_affixes
        keys = join([f'{before}{{"id":"', escape(ids), f'"}}{after}'], rows)
        values = join(embedded, rows)
        if codec.schemas is not None:
            whole = join([self.affixes.before, values, self.affixes.after], rows)
            events = parsed_events(codec, pa.nulls(rows, pa.int64()), keys, whole)
            return events.append_column(STAGED.field("merge_key"), merge_keys([merge]))
        topics = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(rows, np.int32)), pa.array([codec.topic], pa.string())
        )
        return pa.RecordBatch.from_arrays(
            [topics, keys, values, pa.nulls(rows, _TEXT), merge_keys([merge])], schema=STAGED
        )


def _columns(pairs: Sequence[tuple[str, str]]) -> tuple[Text, Text]:
    return pa.array([shown for shown, _merge in pairs], _TEXT), pa.array(
        [merge for _shown, merge in pairs], _TEXT
    )


def _ids(raw: bytes, start: int) -> tuple[str, str]:
    """The text of a document's event key, and its merge key."""
    for name, kind, begin, end in elements(raw, start):
        if name == b"_id":
            return _id_texts(raw, kind, begin, end)
    return "null", "null"


def _id_texts(raw: bytes, kind: int, start: int, end: int) -> tuple[str, str]:
    shown = value_text(raw, kind, start, end)
    return shown, shown if kind in _SAME_KEY else key_text(raw, kind, start, end)

"""Documents read by a query to staged READ events: raw BSON in, Arrow out. Pure; runs on executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adapters.mongodb.extended import KEY, value_text
from adapters.mongodb.raw import Kind, elements
from engine.events.batch import EVENTS
from engine.merge_key import merge_keys
from engine.staging import STAGED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.mongodb.codec import CollectionCodec

_SAME_KEY = frozenset({Kind.INT32, Kind.INT64, Kind.STRING, Kind.OBJECT_ID})
"""Types whose merge key is the text of the event's key."""


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """How documents of one collection become READ events; goes to the executors."""

    codec: CollectionCodec
    source_json: str
    ts_ms: int

    def batch(self, raws: Sequence[bytes]) -> pa.RecordBatch:
        """The staged rows of these documents."""
        codec = self.codec
        before, after = codec.value_wrap
        head = f'{before}{{"before":null,"after":'
        tail = (
            f',"patch":null,"filter":null,"updateDescription":null,"source":{self.source_json},"op":"r"'
            f',"ts_ms":{self.ts_ms},"transaction":null}}{after}'
        )
        ids = [_ids(raw) for raw in raws]
        text = EVENTS.field("key").type
        keys = pa.array([codec.key(shown) for shown, _merge in ids], text)
        values = pa.array([f"{head}{codec.document(raw, 0)}{tail}" for raw in raws], text)
        merge = merge_keys([pa.array([merged for _shown, merged in ids], text)])
        topics = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(raws), np.int32)), pa.array([codec.topic], pa.string())
        )
        return pa.RecordBatch.from_arrays(
            [topics, keys, values, pa.nulls(len(raws), text), merge], schema=STAGED
        )


def _ids(raw: bytes) -> tuple[str, str]:
    """The event's key and the merge key of a document."""
    for name, kind, start, end in elements(raw):
        if name == b"_id":
            shown = value_text(raw, kind, start, end)
            return shown, shown if kind in _SAME_KEY else value_text(raw, kind, start, end, KEY)
    return "null", "null"

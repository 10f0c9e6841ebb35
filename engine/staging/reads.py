"""Turns rows read by a query into staged READ events: row texts in, Arrow out. Pure; runs on executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.values.row_texts import split_rows
from engine.snapshot.merge_key import KEY_TYPE, merge_keys
from engine.staging.staged_rows import STAGED

if TYPE_CHECKING:
    from engine.events.codec import TableCodec
    from engine.events.values.row_texts import RowMode, RowShape

_TEXT = EVENTS.field("key").type


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """How the rows of one table become READ events. Goes to the executors.

    `source_json` is the complete source block, `ts_ms` the time of the events.
    """

    codec: TableCodec
    shape: RowShape
    source_json: str
    ts_ms: int

    @property
    def around(self) -> tuple[str, str]:
        """The text before and after each row in its event's value."""
        return self.codec.around_reads(self.source_json, self.ts_ms)

    def staged(self, rows: pa.Array, mode: RowMode) -> pa.RecordBatch:
        """The rows as a batch of STAGED. Raises SeparatorInData in FAST mode."""
        columns = split_rows(rows, self.shape, mode)
        keys, values = self.codec.reads(columns)
        count = len(values)
        chosen = [columns[at] for at in self.codec.merge_key]
        merge = merge_keys(chosen) if chosen else pa.repeat(pa.scalar(b"", KEY_TYPE), count)
        topics = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(count, np.int32)), pa.array([self.codec.topic], pa.string())
        )
        shown = pa.nulls(count, _TEXT) if keys is None else keys
        return pa.RecordBatch.from_arrays(
            [topics, shown, values, pa.nulls(count, _TEXT), merge], schema=STAGED
        )

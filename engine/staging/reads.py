"""Turns rows read by a query into staged READ events: row texts in, Arrow out. Pure; runs on executors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.events.batch import EVENTS
from engine.events.columns import typed_reads
from engine.events.values.row_texts import split_rows
from engine.snapshot.merge_key import KEY_TYPE, merge_keys
from engine.staging.affixes import Affixes
from engine.staging.rows import STAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.events.codec import TableCodec
    from engine.events.values.row_form import RowMode, RowShape
    from engine.events.values.text import Text

_TEXT = EVENTS.field("key").type


def affixes_for(
    affixes_of: Callable[[str], tuple[str, str]], source_json: str, marked: Mapping[str, str]
) -> Affixes:
    """What `affixes_of` writes before and after rows for these source blocks."""
    before, after = affixes_of(source_json)
    return Affixes(before, after, {marker: affixes_of(source)[1] for marker, source in marked.items()})


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """How the rows of one table become READ events. Goes to the executors.

    `source_json` is the complete source block, `ts_ms` the time of the events. `marked` has the source block
    of rows that carry a snapshot marker. Rows that are `compared` don't go to the sink.
    """

    codec: TableCodec
    shape: RowShape
    source_json: str
    ts_ms: int
    marked: Mapping[str, str] = field(default_factory=dict)
    compared: bool = False

    @property
    def affixes(self) -> Affixes:
        """What surrounds each row in its event's value."""
        affixes_of = partial(self.codec.read_affixes, ts_ms=self.ts_ms)
        return affixes_for(affixes_of, self.source_json, self.marked)

    def staged(self, rows: pa.Array, mode: RowMode) -> pa.RecordBatch:
        """The rows as a batch of STAGED, or as typed events with their merge keys.

        Raises SeparatorInData in FAST mode.
        """
        columns = split_rows(rows, self.shape, mode)
        if self.codec.schemas is not None:
            events = typed_reads(self.codec, columns, self.source_json, self.ts_ms)
            return events.append_column(STAGED.field("merge_key"), self._merge_keys(columns))
        keys, values = self.codec.reads(columns)
        count = len(values)
        topics = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(count, np.int32)), pa.array([self.codec.topic], pa.string())
        )
        shown = pa.nulls(count, _TEXT) if keys is None else keys
        return pa.RecordBatch.from_arrays(
            [topics, shown, values, pa.nulls(count, _TEXT), self._merge_keys(columns)], schema=STAGED
        )

    def _merge_keys(self, columns: Sequence[Text]) -> pa.LargeBinaryArray:
        chosen = [columns[at] for at in self.codec.merge_key]
        return merge_keys(chosen) if chosen else pa.repeat(pa.scalar(b"", KEY_TYPE), len(columns[0]))

"""The delete events of rows that only a copy has. Pure.

No log has these deletes, so they are made of what the copy says: the key, and the row as `before`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from engine.events.batch import EVENTS
from engine.verify.event_history import folded, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.codec import TableCodec
    from engine.verify.event_history import Columns


@dataclass(frozen=True, slots=True)
class DeleteEvents:
    """How the delete events of a collection are written, as of now.

    `key_affixes` are the texts around a key, `affixes` those around the row in the event's value. Rows have
    these `columns`. With `tombstones` each delete is followed by one.
    """

    topic: str
    key_affixes: tuple[str, str]
    affixes: tuple[str, str]
    columns: Columns
    tombstones: bool

    @classmethod
    def of_table(cls, codec: TableCodec, source_json: str, now_ms: int, *, tombstones: bool) -> Self:
        """Those of a described table, with this source block."""
        affixes = codec.delete_affixes(source_json, now_ms)
        columns = tuple(member.name for member in codec.fields)
        return cls(codec.topic, codec.key_affixes, affixes, columns, tombstones)

    def batch(self, rows: Sequence[tuple[str, str | None]]) -> pa.RecordBatch:
        """The events for these keys and rows, as a batch of EVENTS."""
        keys: list[str] = []
        values: list[str | None] = []
        for key, row in rows:
            made = [f"{self.affixes[0]}{self._before(row)}{self.affixes[1]}", *([None] * self.tombstones)]
            keys += [f"{self.key_affixes[0]}{key}{self.key_affixes[1]}"] * len(made)
            values += made
        topics = pa.DictionaryArray.from_arrays(
            pa.array([0] * len(keys), pa.int32()), pa.array([self.topic], pa.string())
        )
        text = EVENTS.field("key").type
        return pa.RecordBatch.from_arrays(
            [topics, pa.array(keys, text), pa.array(values, text), pa.nulls(len(keys), text)], schema=EVENTS
        )

    def _before(self, row: str | None) -> str:
        """The row with the columns that the collection has now; null if the copy has none of them."""
        known = None if row is None else next(folded([row.encode()], ()))
        return "null" if known is None else texts(known, [self.columns])[0]

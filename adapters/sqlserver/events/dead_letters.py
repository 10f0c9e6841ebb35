"""Change rows as dead letters: what a table that is set aside would have emitted, with its bytes.

A line says where in the log the row stands, in which transaction, what kind of change it is, and has the
row's text, as the server put it together, in base64. Nothing in it is decoded. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adapters.sqlserver.log.changes import RAW, in_order
from adapters.sqlserver.server.position import Place
from engine.isolation.incomplete import letter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_WORDS = {1: "delete", 2: "insert", 3: "update from", 4: "update to"}
_AROUND = 120


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table in a span, with the columns of `changes.RAW`, in the log's order."""

    table: pa.Table

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    @property
    def size(self) -> int:
        """About how many bytes their lines have."""
        texts = pc.sum(pc.binary_length(self.table["r"])).as_py() or 0
        return _AROUND * self.count + 4 * texts // 3

    def lines(self) -> Iterator[bytes]:
        """A line of JSON each, in order."""
        for row in self.table.to_pylist():
            place = Place(row["commit"], row["command"], row["change"], row["operation"])
            yield letter(str(place), row["commit"], _WORDS[row["operation"]], row["r"].encode())


def rows_of(batches: Sequence[pa.RecordBatch], instances: Collection[int]) -> Rows:
    """The change rows of these instances; nothing else of the batches is kept."""
    wanted = pa.array(sorted(instances), pa.int32())
    mine = [batch.filter(pc.is_in(batch.column("instance"), wanted)) for batch in batches]
    return Rows(in_order(mine) if mine else RAW.empty_table())

"""Change rows as dead letters: the rows of a table that is set aside, as raw text.

Each line has the row's place in the log, its transaction, the operation, and the row's text in base64,
exactly as the server built it. Nothing is decoded. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adapters.sqlserver.log.changes import RAW, in_order
from adapters.sqlserver.server.position import LogPosition
from engine.isolation.incomplete import letter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_WORDS = {1: "delete", 2: "insert", 3: "update from", 4: "update to"}
_AROUND = 120


@dataclass(frozen=True, slots=True)
class Rows:
    """A table's rows in a span, with the columns of `changes.RAW`, in log order."""

    table: pa.Table

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.table.num_rows)

    @property
    def size(self) -> int:
        """The approximate size of their lines, in bytes."""
        texts = pc.sum(pc.binary_length(self.table["r"])).as_py() or 0
        return _AROUND * self.count + 4 * texts // 3

    def lines(self) -> Iterator[bytes]:
        """One line of JSON per row, in order."""
        for row in self.table.to_pylist():
            position = LogPosition(row["commit"], row["command"], row["change"], row["operation"])
            yield letter(str(position), row["commit"], _WORDS[row["operation"]], row["r"].encode())


def rows_of(batches: Sequence[pa.RecordBatch], instances: Collection[int]) -> Rows:
    """The change rows of these instances. Nothing else of the batches is kept."""
    wanted = pa.array(sorted(instances), pa.int32())
    mine = [batch.filter(pc.is_in(batch.column("instance"), wanted)) for batch in batches]
    return Rows(in_order(mine) if mine else RAW.empty_table())

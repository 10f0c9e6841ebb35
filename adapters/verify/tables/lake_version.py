"""A version of a lake's table, as a comparison reads it. Tasks digest its rows and sort them into files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from adapters.lakehouse.digests import digests
from adapters.lakehouse.tables.statements import quoted
from adapters.verify.partitions import write_files
from adapters.verify.tables.table_comparison import held_rows
from engine.errors import SinkError, SinkRefused
from engine.verify.compared_digests import DIGEST
from engine.verify.comparison import COPIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adapters.lake.table_name import TableName
    from adapters.lakehouse.sink import LakeSink
    from adapters.lakehouse.tables.spark_tables import PinnedTable, SparkTables
    from adapters.verify.tables.table_comparison import Keys
    from engine.verify.copy import ExtraRow

_ROW_BYTES: Final = 64
_MOMENT_S: Final = 0.05
_PATHS: Final = StructType().add("path", "string")


@dataclass(frozen=True, slots=True)
class ExtraKeys:
    """The keys of rows that only a table has, as it has them, and where each stands, by its digest."""

    rows: pa.Table = field(default_factory=lambda: pa.table({}))
    places: dict[bytes, int] = field(default_factory=dict)

    def shown(self, digest: bytes) -> tuple[str | None, ...]:
        """A key as texts."""
        (row,) = self.rows.slice(self.places[digest], 1).to_pylist()
        return tuple(None if part is None else str(part) for part in row.values())

    def of(self, digests: Iterable[bytes]) -> pa.RecordBatch:
        """The keys with these digests; those that are not known are left out."""
        places = [self.places[digest] for digest in digests if digest in self.places]
        return self.rows.take(pa.array(places, pa.int64())).combine_chunks().to_batches()[0]


@dataclass(frozen=True, slots=True)
class Shape:
    """What is compared of a table: its own names of the columns that events have, and of those of the key."""

    columns: tuple[str, ...]
    key: tuple[str, ...]


class HeldVersion:
    """Implements `TargetRows` for a table, which has no shape if windows have read no row.

    `stale` says whether nothing can be compared any more. `learn` is told the keys of extra rows.
    """

    def __init__(
        self,
        sink: LakeSink,
        table: tuple[SparkTables, TableName, Shape | None],
        stale: Callable[[], bool],
        learn: Callable[[ExtraKeys], None],
    ) -> None:
        self._sink, self._stale, self._learn = sink, stale, learn
        self._tables, self._name, self._known = table
        self._pinned: PinnedTable | None = None
        self._shape = Shape((), ())

    def cancel(self) -> None:
        """Nothing: a scan ends by itself, and nobody waits for it."""

    def close(self) -> None:
        """Nothing is kept open."""

    def ready(self, upto: int, moments: Callable[[float], Iterator[None]]) -> int | None:
        """Wait until the turn is merged, and take the version that the table has then."""
        waits = moments(_MOMENT_S)
        while not self._sink.merged(upto):
            next(waits)
        self._pinned = self._tables.pinned(self._name)
        turn = upto if self._pinned is None else max(upto, self._pinned.turn or 0)
        while self._sink.touched.newest < turn:
            next(waits)
        if self._stale():
            return None
        self._shape = self._known or self._bare_shape()
        return turn

    def _bare_shape(self) -> Shape:
        """The shape of a table of which windows have read no row: only its keys count."""
        if self._pinned is None:
            return self._shape
        there = {name.lower() for name in self._pinned.rows.columns}
        key = tuple(self._pinned.key.split(","))
        if not there.issuperset(name.lower() for name in key):
            raise SinkRefused("the columns of its key are not known", where=str(self._name))
        return Shape(key, key)

    def size(self) -> int:
        """By the number of rows, which a format knows as a rule."""
        if self._pinned is None:
            return 0
        counted = self._tables.collect(self._name, self._pinned.rows.groupBy().count())
        return int(counted.column(0)[0].as_py()) * _ROW_BYTES

    def sorted(
        self, into: str, partitions: int, while_wanted: Callable[[Iterable[pa.Table]], Iterator[pa.Table]]
    ) -> list[str]:
        """Have tasks write the files."""
        if self._pinned is None:
            return write_files(while_wanted([]), into, COPIED, partitions)
        written = self._scanned(SortRows(self._shape, into, partitions), _PATHS)
        return [str(path) for path in written.column("path").to_pylist()]

    def keys(self, extra: Sequence[ExtraRow]) -> Keys:
        """Look for the digests, and keep the keys as the table has them."""
        if self._pinned is None or not extra:
            self._learn(ExtraKeys())
            return {}
        kinds = {column.name.lower(): column.dataType for column in self._pinned.rows.schema}
        made = StructType().add("digest", "binary")
        for number, name in enumerate(self._shape.key):
            made = made.add(f"c{number}", kinds[name.lower()])
        wanted = pa.array({row.key for row in extra}, DIGEST)
        found = self._scanned(FindKeys(self._shape, wanted), made)
        rows = found.select(range(1, found.num_columns)).rename_columns(list(self._shape.key))
        keys = ExtraKeys(rows, {digest: at for at, digest in enumerate(found.column("digest").to_pylist())})
        self._learn(keys)
        return {digest: keys.shown(digest) for digest in keys.places}

    def _scanned(self, task: SortRows | FindKeys, made: StructType) -> pa.Table:
        """What tasks make of the rows."""
        if self._pinned is None:
            raise SinkError("the table is missing", where=str(self._name))
        frame = self._pinned.rows
        there = {name.lower() for name in frame.columns}
        asked = [
            f.col(quoted(name)).alias(name)
            if name.lower() in there
            else f.lit(None).cast("string").alias(name)
            for name in dict.fromkeys((*self._shape.columns, *self._shape.key))
        ]
        # Spark asks a function for its name.
        found = frame.select(*asked).mapInArrow(lambda batches: task(iter(batches)), made)
        return self._tables.collect(self._name, found)


@dataclass(frozen=True, slots=True)
class SortRows:
    """The task that sorts the rows of a part of a table into files of COPIED; gives their paths."""

    shape: Shape
    into: str
    partitions: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write files of names of its own: another attempt may have left others."""
        rows = (self._events(batch) for batch in batches if batch.num_rows)
        paths = write_files(rows, f"{self.into}-{uuid4().hex}", COPIED, self.partitions)
        yield pa.RecordBatch.from_arrays([pa.array(paths, pa.string())], ["path"])

    def _events(self, batch: pa.RecordBatch) -> pa.Table:
        keys, rows = (_digested(batch, names) for names in (self.shape.key, self.shape.columns))
        nowhere = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
        return held_rows(keys, rows, nowhere, nowhere)


@dataclass(frozen=True, slots=True)
class FindKeys:
    """The task that gives the keys of rows whose digests are wanted, each behind its digest."""

    shape: Shape
    wanted: pa.Array

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Look at every row."""
        for batch in batches:
            keys = _digested(batch, self.shape.key)
            found = batch.select(list(self.shape.key)).filter(pc.is_in(keys, value_set=self.wanted))
            digest = keys.filter(pc.is_in(keys, value_set=self.wanted)).cast(pa.binary())
            names = ["digest", *(f"c{number}" for number in range(len(self.shape.key)))]
            yield pa.RecordBatch.from_arrays([digest, *found.columns], names)


def _digested(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    return digests([batch.column(name) for name in names])

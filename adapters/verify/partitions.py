"""Files of sorted events and rows: a batch for each partition, by the digests of the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from engine.snapshot.merge_key import key_of
from engine.verify.compared_digests import DIGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

_WRITTEN_ROWS: Final = 1_000_000
_PARTITION_ROWS: Final = 500_000
_MOST_PARTITIONS: Final = 256
_LEAST_ROW_BYTES: Final = 64
"""A row of a table has more, with its header."""


def partitions_of(rows_seen: int, table_bytes: int) -> int:
    """Into how many partitions the rows of a table and those seen are sorted, a power of two."""
    rows = max(rows_seen, table_bytes // _LEAST_ROW_BYTES)
    return min(_MOST_PARTITIONS, 1 << (rows // _PARTITION_ROWS).bit_length())


def write_files(tables: Iterable[pa.Table], into: str, schema: pa.Schema, partitions: int) -> list[str]:
    """Write tables to files, each of about a million rows, whose names begin with `into`. At least one."""
    paths: list[str] = []
    waiting: list[pa.Table] = []

    def write() -> None:
        paths.append(f"{into}-{len(paths)}.arrow")
        write_partitions(paths[-1], pa.concat_tables([schema.empty_table(), *waiting]), partitions)
        waiting.clear()

    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= _WRITTEN_ROWS:
            write()
    write()
    return paths


def write_partitions(path: str, table: pa.Table, partitions: int) -> None:
    """Write a table as one batch for each partition, by the digests of its keys. The order is kept."""
    table = table.combine_chunks()
    first = np.zeros(len(table), np.int64)
    if len(table):
        keys = table.column("key").chunk(0)
        first = (
            np.frombuffer(keys.buffers()[1], np.uint8)
            .reshape(-1, DIGEST.byte_width)[:, 0][keys.offset : keys.offset + len(keys)]
            .astype(np.int64)
        )
    partition = first * partitions >> 8
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], np.arange(partitions), side="right")
    table = table.take(pa.array(order))
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, table.schema) as stream:
        start = 0
        for end in ends.tolist():
            piece = table.slice(start, end - start).combine_chunks()
            batches = piece.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
            stream.write_batch(batches[0])
            start = end


def partition_of(paths: Sequence[str], partition: int, schema: pa.Schema) -> pa.Table:
    """A partition of these files, one after another."""
    tables = [schema.empty_table()]
    for path in paths:
        with pa.memory_map(path) as file, pa.ipc.open_file(file) as stream:
            tables.append(pa.Table.from_batches([stream.get_batch(partition)], schema))
    return pa.concat_tables(tables).combine_chunks()


def keys_shown(seen: pa.Table, rows: Sequence[int] | Ints) -> tuple[str, ...]:
    """The keys of rows seen as a JSON list of their columns, as the database writes them."""
    keys = seen.column("merge_key").take(pa.array(rows, pa.int64())).to_pylist()
    return tuple(orjson.dumps(key_of(key)).decode() for key in keys)

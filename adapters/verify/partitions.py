"""Files of sorted events and rows: a batch for each partition, by the digests of the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from engine.verify.compared_digests import DIGEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]


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

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

from adapters.lakehouse.files.data_file import DeadRows, TableFile
from adapters.lakehouse.files.position_deletes import read_deletes, write_deletes
from adapters.lakehouse.files.roaring import NONE

if TYPE_CHECKING:
    from pathlib import Path


def test_rows_that_several_files_list_are_read_by_the_files_that_they_are_of(tmp_path: Path):
    one = write_deletes(tmp_path, [gone("b", 1, 5), gone("a", 7)], "zstd")
    two = write_deletes(tmp_path, [gone("b", 0, 5)], "zstd")

    found = read_deletes([str(one), str(two)])

    assert {name: positions.tolist() for name, positions in found.items()} == {"a": [7], "b": [0, 1, 5]}


def test_rows_stand_in_the_order_and_under_the_numbers_that_iceberg_asks_for(tmp_path: Path):
    listed = pq.read_table(write_deletes(tmp_path, [gone("b", 1, 5), gone("a", 7)], "zstd"))

    assert listed.to_pylist() == [
        {"file_path": "a", "pos": 7},
        {"file_path": "b", "pos": 1},
        {"file_path": "b", "pos": 5},
    ]
    numbers = [listed.schema.field(name).metadata[b"PARQUET:field_id"] for name in ("file_path", "pos")]
    assert numbers == [b"2147483546", b"2147483545"]


def gone(name: str, *positions: int) -> DeadRows:
    return DeadRows(TableFile(name, f"/{name}", NONE), np.array(positions))

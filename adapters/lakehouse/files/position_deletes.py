"""Position deletes of Iceberg: files that list rows of data files which are gone, in Parquet.

Source: https://iceberg.apache.org/spec/#position-delete-files
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from adapters.lakehouse.files.data_file import field_of
from adapters.lakehouse.files.roaring import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from adapters.lakehouse.files.data_file import DeadRows
    from adapters.lakehouse.files.roaring import Positions

_FILE, _POSITION = "file_path", "pos"
_SCHEMA: Final = pa.schema(
    [
        field_of(_FILE, pa.string(), 2147483546, nullable=False),
        field_of(_POSITION, pa.int64(), 2147483545, nullable=False),
    ]
)


def write_deletes(directory: Path, gone: Sequence[DeadRows], codec: str) -> Path:
    """Write a file that lists these rows."""
    path = directory / f"deletes-{uuid.uuid4()}.parquet"
    with pq.ParquetWriter(
        path,
        _SCHEMA,
        compression=codec,
        store_schema=False,
        column_encoding={_POSITION: "DELTA_BINARY_PACKED"},
        use_dictionary=[_FILE],
    ) as writer:
        # They are to stand in order of names and positions.
        for file, positions in sorted(gone, key=lambda part: part.file.name):
            names = pa.repeat(pa.scalar(file.name), len(positions))
            writer.write_table(pa.Table.from_arrays([names, pa.array(positions)], schema=_SCHEMA))
    return path


def read_deletes(paths: Sequence[str]) -> dict[str, Positions]:
    """The rows that are listed in any of these files, by the names of theirs."""
    parts: dict[str, list[Positions]] = {}
    for path in paths:
        with pq.ParquetFile(path) as file:
            for number in range(file.num_row_groups):
                listed = file.read_row_group(number, [_FILE, _POSITION])
                names = listed.column(_FILE).combine_chunks().dictionary_encode()
                order, positions = names.indices.to_numpy(), listed.column(_POSITION).to_numpy()
                for at, name in enumerate(names.dictionary.to_pylist()):
                    parts.setdefault(name, []).append(positions[order == at])
    return {name: np.unique(np.concatenate([NONE, *found])) for name, found in parts.items()}

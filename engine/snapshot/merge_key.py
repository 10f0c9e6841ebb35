"""A row's merge key as canonical bytes, the same from the log and from a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key

KEY_TYPE = pa.large_binary()
"""The type of merge keys; `merge_keys` defines the bytes."""


def merge_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """The rows' keys as `large_binary`: for each column its length in four bytes (-1: NULL), then its text.

    `columns` are the key's columns in key order, as the database's text; at least one.
    """
    parts: list[pa.Array | pa.Scalar] = []
    for column in columns:
        data = column.cast(pa.large_string()).cast(pa.large_binary())
        lengths = pc.fill_null(pc.binary_length(data), -1).to_numpy(zero_copy_only=False).astype(">i4")
        offsets = pa.py_buffer(np.arange(0, 4 * len(data) + 1, 4, dtype=np.int64))
        parts.append(
            pa.LargeBinaryArray.from_buffers(
                pa.large_binary(), len(data), [None, offsets, pa.py_buffer(lengths)]
            )
        )
        parts.append(pc.fill_null(data, b"") if data.null_count else data)
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def merge_keys_of(keys: Sequence[Key]) -> list[bytes]:
    """The canonical bytes of keys with the same columns."""
    columns = [pa.array(column, pa.large_string()) for column in zip(*keys, strict=True)]
    found: list[bytes] = merge_keys(columns).to_pylist() if columns else []
    return found


def key_of(merge_key: bytes) -> Key:
    """The key's columns, parsed from its canonical bytes."""
    columns: list[str | None] = []
    at = 0
    while at < len(merge_key):
        length = int.from_bytes(merge_key[at : at + 4], "big", signed=True)
        at += 4
        columns.append(None if length < 0 else merge_key[at : at + length].decode())
        at += max(length, 0)
    return tuple(columns)

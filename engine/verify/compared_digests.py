"""Digests of the keys and rows that are compared with a copy, the same from a query and from an event. Pure.

A key is compared by the digest of its JSON text, a row by the digest of key and row (`row_digest.py`). Events
may carry the Connect schema of their key, and the settings may change that. So only the key itself counts,
without its schema.

Texts of equal rows are equal as long as they have the same columns. Texts that differ don't prove a
difference: `event_history.py` compares them column by column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import InvariantError, SourceError
from engine.verify.row_digest import DIGEST_BYTES, row_digests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SURVIVES: Final = "tidemark: survives"
"""A column of rows that were emitted: whether no newer entry supersedes the row."""
COLUMNS: Final = b"columns"
"""The metadata of a schema of digests that has the names of the rows' columns, as a JSON list."""
DIGEST: Final = pa.binary(DIGEST_BYTES)
SEEN_ROWS: Final = pa.schema(
    [
        ("key", DIGEST),
        ("row", DIGEST),
        ("merge_key", pa.large_binary()),
        ("turn", pa.int64()),
        ("seen", pa.int8()),
    ]
)
"""What windows have read, in the order of their turns. Of a key's several rows the last one counts."""
_SEED: Final = 0
"""Nobody else sees these digests, so they need no seed of their own."""
_WRAPPED: Final = '{"schema":{"type":"struct"'
"""How a key with its schema begins. No column of a key is an object with a type."""


class _WithSchema(msgspec.Struct):
    payload: msgspec.Raw


_AS_WITH_SCHEMA: Final = msgspec.json.Decoder(_WithSchema)


def bare_keys(keys: pa.Array) -> pa.Array:
    """The keys without their schemas, where they have them. All are of one table, and none is null."""
    wrapped = pc.starts_with(keys, _WRAPPED)
    if not pc.any(wrapped).as_py():
        return keys
    first = keys[0].as_py()
    if first.startswith(_WRAPPED):
        own = _bare(first)
        before, after = first.rsplit(own, 1)
        if pc.all(pc.and_(pc.starts_with(keys, before), pc.ends_with(keys, after))).as_py():
            return pc.utf8_slice_codeunits(keys, len(before), -len(after))
    # Keys of several versions of the table, or of the settings.
    texts: Sequence[str] = keys.to_pylist()
    return pa.array([_bare(text) if text.startswith(_WRAPPED) else text for text in texts], keys.type)


def _bare(key: str) -> str:
    return bytes(_AS_WITH_SCHEMA.decode(key).payload).decode()


def key_digests(keys: pa.Array) -> pa.Array:
    """The digests of bare keys."""
    if keys.null_count:
        raise InvariantError("rows without a key can't be compared")
    return _array(row_digests(pa.nulls(len(keys), pa.large_string()), keys, _SEED), len(keys))


def digests_of_rows(keys: pa.Array, rows: pa.Array) -> pa.Array:
    """The digests of rows under their bare keys."""
    return _array(row_digests(keys, rows, _SEED), len(rows))


def _array(digests: bytes, rows: int) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(DIGEST, rows, [None, pa.py_buffer(digests)])


def refuse_shared_keys(seen: pa.Table, latest: NDArray[np.int64]) -> None:
    """Raise SourceError if different rows of SEEN_ROWS have the same event key.

    `latest` has for each row the number of the last one under its event key. That must be the same row.
    """
    again = np.flatnonzero(latest != np.arange(len(latest)))
    keys = seen.column("merge_key")
    if pc.any(pc.not_equal(keys.take(pa.array(again)), keys.take(pa.array(latest[again])))).as_py():
        raise SourceError(
            "rows share the key of their events, so nothing tells which of them an event is of",
            hint="let message.key.columns name columns that identify a row",
        )

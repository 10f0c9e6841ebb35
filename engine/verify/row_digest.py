"""Digests of rows, and their sum over many rows in any order. Pure; runs on executors.

The canonical bytes of a row are its event's texts, in UTF-8:

    the key of the event, a line break (0x0A), the row as it stands in the value

The key is empty if the event has none. The row is the text of `after`: a JSON object, or for MongoDB what is
between the quotes of that string. Both are JSON, so a null and the type of every value are part of them, and
neither contains a line break.

A row's digest is the 128-bit XXH3 of these bytes under a seed of 64 bits. The digests of several rows are
added as unsigned integers modulo 2^128. The sum does not depend on the order of the rows, sums of separate
ranges add up to that of all of them, and a row that is there twice counts twice. It says whether two sets of
rows are equal where nobody forges rows: XXH3 is fast, not cryptographic.

Hashing a batch runs in compiled code (`map` over a C function). In numpy it took about twice as long, since
rows had to be cut into blocks of one width first.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALGORITHM: Final = "xxh3-128-sum"
"""The name of this way to add up rows, in certificates."""
DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << 8 * DIGEST_BYTES
_AT_ONCE: Final = 4096
_BREAK: Final = pa.scalar(b"\n", pa.large_binary())


def row_digests(keys: pa.Array, rows: pa.Array, seed: int) -> bytes:
    """The digests of rows, one after another. `keys` and `rows` are as many texts; a key may be null."""
    digests = bytearray()
    for start in range(0, len(rows), _AT_ONCE):
        texts = _canonical(keys.slice(start, _AT_ONCE), rows.slice(start, _AT_ONCE))
        digests += b"".join(map(xxh3_128_digest, texts.to_pylist(), repeat(seed)))
    return bytes(digests)


def _canonical(keys: pa.Array, rows: pa.Array) -> pa.Array:
    known = pc.fill_null(keys, "") if keys.null_count else keys
    pieces = (text.cast(pa.large_string()).cast(pa.large_binary()) for text in (known, rows))
    return pc.binary_join_element_wise(*pieces, _BREAK)


def digest_sum(digests: bytes | memoryview | pa.Buffer, survives: NDArray[np.bool_] | None = None) -> int:
    """The sum of these digests; with `survives`, of those for which it is true."""
    words = np.frombuffer(digests, ">u4").reshape(-1, DIGEST_BYTES // 4)
    chosen = words if survives is None else words[survives]
    total = 0
    for word in chosen.sum(axis=0, dtype=np.uint64).tolist():
        total = (total << 32) + word
    return total % _MODULUS

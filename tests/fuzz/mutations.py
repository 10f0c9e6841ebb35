"""Bad input made of good input: bytes changed, cut out, doubled, moved, and numbers at their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

_TELLING = (
    *(b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\x80", b"(" * 50),
    *(b"[" * 60, b'"', b"'", b"\\", b"\\\\E\\Q", b"${env:X}", b"{", b"}", b"--", b"/*", b"*+", b"(?=", b"\n"),
    *(
        b"99999999999999999999",
        b"1e999",
        b"NaN",
        b"null",
        b"\xed\xa0\x80",
        b"\xc3\xa9",
        b"\\u0000",
        b"$where",
    ),
)


def mutated(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the inputs after one to six changes; at times none of it is left."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(data))
        upto = min(len(data), at + chance.randint(1, 8))
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at:upto] = chance.randbytes(upto - at)
            case 2:
                del data[at:upto]
            case 3:
                data[at:at] = chance.choice(_TELLING)
            case 4:
                data[at:at] = data[chance.randint(0, len(data)) :][:20]
            case _:
                data[at:upto] = chance.choice(_TELLING)[: max(1, upto - at)]
    return bytes(data)

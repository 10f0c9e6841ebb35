"""Bad input made of good input: bytes changed, cut out, doubled, moved, and numbers at their limits."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

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
_ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, 1e308, "", "x", "\0", "-1", "1e9"),
    *(
        "9" * 30,
        "٣",
        "'\\\"",
        "00000000:00000000:0000",
        "82",
        [],
        {},
        [[]],
        {"": None},
        [0, 0],
        "//8=",
        "AAAA",
    ),
)
"""What stands in the place of a value."""


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


def mutated_json(seeds: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the documents with one to three of its values exchanged, left out or nested; it stays JSON."""
    document = orjson.loads(chance.choice(seeds))
    for _ in range(chance.randint(1, 3)):
        places = list(_places(document))
        if not places:
            break
        holder, at = chance.choice(places)
        match chance.randrange(4):
            case 0:
                del holder[at]
            case 1:
                holder[at] = [holder[at]]
            case 2:
                other, there = chance.choice(places)
                holder[at] = copy.deepcopy(other[there])
            case _:
                holder[at] = copy.deepcopy(chance.choice(_ODD))
    return orjson.dumps(document)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a document, as who holds it and where; from the outermost on."""
    if isinstance(value, dict):
        names = list(value)
    else:
        names = list(range(len(value))) if isinstance(value, list) else []
    for name in names:
        yield value, name
        yield from _places(value[name])

"""The documents of a history: their ids and fields, and the writers' actions. Pure except for `act`.

Writers know a document by its ordinal `n`, which determines its `_id`. Every version ever written has a
unique text in `ver`, so a document that is read shows which write it is from.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import json_util
from bson.binary import Binary
from bson.code import Code
from bson.codec_options import CodecOptions
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from tests.raw_ids import Raw, int32, invalid, nested, text
from tests.strict_json import CODEC

if TYPE_CHECKING:
    from collections.abc import Callable

    from pymongo.client_session import ClientSession
    from pymongo.collection import Collection

    from tests.torture.statements import Step
    from tests.torture.tables import TableShape
    from tests.torture.truth import Row

DATABASE: Final = "shop"
_CANONICAL = json_util.CANONICAL_JSON_OPTIONS.with_options(datetime_conversion=CODEC.datetime_conversion)
_EXACT = Context(prec=60)
_BEGIN = datetime(2024, 3, 30, tzinfo=UTC)
_WORDS = ("a", "B", "ä", "Z", "_", "aa", "É")
_VERSIONS = itertools.count(1)
_RAW_CODEC: CodecOptions[Any] = CODEC.with_options(document_class=RawBSONDocument)
GIANT = 9 << 20
"""Length of a field such that a document has room for one of these, and an event not for two."""


def _digest(number: int) -> bytes:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).digest()


_MIXED: tuple[Callable[[int], Any], ...] = (
    lambda n: n,
    lambda n: f"{_WORDS[n % 7]}{n}",
    lambda n: Int64(n * 1_000_003 << 13),
    lambda n: n + 0.25,
    lambda n: ObjectId(_digest(n)[:12]),
    lambda n: {"a": n % 7, "b": [str(n), n]},
    lambda n: Decimal128(f"{n}.5"),
    lambda n: Binary(_digest(n)[:5]),
    lambda n: _BEGIN + timedelta(minutes=37 * n),
    lambda n: -n if n > 9 else None if n < 9 else True,
)
_RAW: tuple[Callable[[int], Raw], ...] = (
    lambda n: invalid(f"{n:04}".encode() + b"\xff"),
    lambda n: (0x0C, text(b"shop.t") + _digest(n)[:12]),
    lambda n: (0x03, nested((b"a", invalid(b"\xc0\x80")), (b"b", int32(n)))),
    lambda n: (0x0E, text(f"symbol{n}".encode())),
    lambda n: (0x05, _old_binary(f"{n:05}".encode())),
    lambda n: (0x03, nested((b"a", int32(n)), (b"b", (0x06, b"")))),
)


def _old_binary(content: bytes) -> bytes:
    return (len(content) + 4).to_bytes(4, "little") + b"\x02" + len(content).to_bytes(4, "little") + content


IDS: dict[str, Callable[[int], Any]] = {
    "int32": lambda n: n,
    "int64": lambda n: Int64(n * 1_000_003 - 170_000),
    "string": lambda n: f"{_WORDS[n % 7]}{n}",
    "collated": lambda n: f"Ab{n}",
    "oid": lambda n: ObjectId(_digest(n)[:12]),
    "fraction": lambda n: n / 3.0 - 7,
    "object": lambda n: {"a": n % 7, "b": str(n)},
    "capped": lambda n: n,
    "mixed": lambda n: _MIXED[n % len(_MIXED)](n),
    "mixed too": lambda n: _MIXED[n * 7 % 6](n),
    "raw": lambda n: RawId(_RAW[n % len(_RAW)](n)),
}
"""The `_id` of a document by the kind of its collection."""


@dataclass(frozen=True, slots=True)
class RawId:
    """An `_id` by its type and bytes, for values that Python can't represent."""

    raw: Raw


def under(one_id: Any, others: dict[str, Any]) -> Any:
    """A document with this id. Without other fields, it is the filter that finds the document."""
    if not isinstance(one_id, RawId):
        return {"_id": one_id, **others}
    kind, value = one_id.raw
    rest = bson.encode(others)[4:-1]
    body = bytes([kind]) + b"_id\0" + value + rest
    return RawBSONDocument((len(body) + 5).to_bytes(4, "little") + body + b"\0", _RAW_CODEC)


def options(shape: TableShape) -> dict[str, Any]:
    """How the collection is created: with images, so that the truth about updates is known."""
    more: dict[str, Any] = {"changeStreamPreAndPostImages": {"enabled": True}}
    if shape.key == "collated":
        more["collation"] = {"locale": "en", "strength": 2}
    if shape.key == "capped":
        more |= {"capped": True, "size": 64 << 20}
    return more


def version() -> str:
    """A text that no other write has."""
    return f"w{next(_VERSIONS)}"


def fields(n: int) -> dict[str, Any]:
    """A new version of a document, without its id."""
    found = {
        "n": n,
        "ver": version(),
        "v": f"it's \x1f{n}" if n % 5 == 2 else f"v{n}",
        "big": hashlib.sha256(str(n).encode()).hexdigest() * 20,
        "at": _BEGIN + timedelta(milliseconds=n),
        "f": n / 7.0,
        "x": Int64(n),
        "j": {"n": n, "é": None, "deep": {"s": "t"}},
        "list": ["a", "b", f"c{n}"],
    }
    return {name: value for name, value in found.items() if name != "v" or n % 5}


def make(database: Any, shape: TableShape, name: str = "") -> Any:
    """Create the collection, or one like it. The server removes its documents once `gone_at` is past."""
    collection = database.create_collection(name or shape.name, **options(shape))
    let_expire(collection, shape)
    return collection


def let_expire(collection: Any, shape: TableShape) -> None:
    """Create the TTL index, unless it exists."""
    if shape.key != "capped":
        collection.create_index("gone_at", expireAfterSeconds=0)


def document(shape: TableShape, n: int) -> Any:
    """A new document."""
    return under(IDS[shape.key](n), fields(n))


def respelled(value: Any) -> Any:
    """The same number as another type, which the server treats as the same id."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    match value % 3:
        case 0:
            return Decimal128(str(value))
        case 1:
            return float(value)
    return Int64(value)


# What writers do.


def act(step: Step, shape: TableShape, collection: Collection[Any], session: ClientSession | None) -> None:
    """One step, in a transaction or on its own."""
    verb, _place, *rest = step
    one_id = IDS[shape.key]
    if verb == "bulk":
        chosen: dict[str, Any] = {"n": {"$mod": rest}}
        collection.update_many(chosen, {"$set": {"v": "bulk", "ver": version()}}, session=session)
        return
    for n in rest[0]:
        chosen = under(one_id(n), {})
        match verb:
            case "put":
                collection.replace_one(chosen, fields(n), upsert=True, session=session)
            case "respell":
                collection.replace_one(chosen, under(respelled(one_id(n)), fields(n)), session=session)
            case "remove":
                collection.delete_one(chosen, session=session)
            case _:
                collection.update_one(chosen, _changes(verb, n, one_id(n)), session=session)


def _changes(verb: str, n: int, one_id: Any) -> Any:
    """An update. It sets only texts, which look the same in every form of JSON."""
    ver = version()
    if verb == "rewrite":
        number = isinstance(one_id, int) and not isinstance(one_id, bool)
        return [{"$set": {"ver": ver, **({"_id": respelled(one_id)} if number else {})}}]
    found: dict[str, Any] = {
        "touch": {"$set": {"v": f"touched {ver}", "j.deep.s": ver, "ver": ver}},
        "extend": {"$set": {"ver": ver, f"new{n % 4}": "ä\n"}, "$push": {"list": ver}},
        "strip": {"$set": {"ver": ver}, "$unset": {"v": "", "j.é": ""}},
        "cut": [{"$set": {"ver": ver, "list": {"$slice": ["$list", 1]}}}],
        "upset": {"$set": {"ver": ver, "list.0": ver}, "$rename": {"big": "large"}},
        "expire": {"$set": {"ver": ver, "gone_at": _BEGIN}},
        "shrink": {"$set": {"ver": ver}, "$unset": {"giant": ""}},
        # The job's own process can't write code.
        "spoil": {"$set": {"ver": ver, "bad": Code(ver)}},
        "heal": {"$set": {"ver": ver}, "$unset": {"bad": ""}},
    }
    # The document and the update don't fit into one event.
    return {"$set": {"ver": ver, "giant": ver[-1] * GIANT}} if verb == "swell" else found[verb]


# As the oracle sees documents.


def row(found: dict[str, Any]) -> Row:
    """A document as the oracle's row: its key, and all of it as text that shows every type."""
    return {"_id": key_of(found["_id"]), "doc": canonical(found)}


def canonical(value: Any) -> str:
    """Canonical extended JSON."""
    return json_util.dumps(value, json_options=_CANONICAL, ensure_ascii=False)


def read_canonical(text: str) -> Any:
    """The value of a canonical text."""
    return json_util.loads(text, json_options=_CANONICAL)


def plain(raw: bytes) -> Any:
    """A document, decoded so that it encodes to the same bytes."""
    return bson.decode(raw, codec_options=CODEC)


def key_of(value: Any) -> str:
    """A text that identifies an id as consumers do: 1 and 1.0 differ, unlike on the server."""
    return json.dumps(_plain_key(value, _written), ensure_ascii=False)


def number_of(value: Any) -> str:
    """A text that is equal for ids that the server treats as equal."""
    return json.dumps(_plain_key(value, _number), ensure_ascii=False)


def _plain_key(value: Any, number: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {"object": [[name, _plain_key(member, number)] for name, member in value.items()]}
    if isinstance(value, list):
        return {"array": [_plain_key(element, number) for element in value]}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal128):
        return {"number": number(value)}
    return json.loads(canonical(value))


def _written(value: float | Decimal128) -> str:
    """As events write it: a double with its point, a decimal with its digits."""
    if isinstance(value, Decimal128):
        return f"decimal {value}"
    return str(int(value)) if isinstance(value, int) else repr(value)


def _number(value: float | Decimal128) -> str:
    exact = value.to_decimal() if isinstance(value, Decimal128) else Decimal(value)
    return str(exact.normalize(_EXACT)) if exact else "0"

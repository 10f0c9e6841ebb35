"""The documents of a history: their ids and fields, and what the writers do with them. Pure but for `act`.

A document is known to the writers by its ordinal `n`, from which its `_id` follows. Every version of one
that is ever written has a text of its own in `ver`: a document that is read tells which write it is.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import json_util
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId

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
}
"""The `_id` of a document by the kind of its collection."""


def options(shape: TableShape) -> dict[str, Any]:
    """How the collection is made; with images, so that the truth about updates can be told."""
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
    """A new version of a document, less its id."""
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


def document(shape: TableShape, n: int) -> dict[str, Any]:
    """A new document."""
    return {"_id": IDS[shape.key](n), **fields(n)}


def respelled(value: Any) -> Any:
    """The same number as another type, which the server takes for the same id."""
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    return float(value) if isinstance(value, Int64) or value % 2 else Int64(value)


# What writers do.


def act(step: Step, shape: TableShape, collection: Collection[Any], session: ClientSession | None) -> None:
    """One step of a transaction, or on its own; see `_WRITES` for the verbs."""
    verb, _place, *rest = step
    one_id = IDS[shape.key]
    if verb == "bulk":
        chosen: dict[str, Any] = {"n": {"$mod": rest}}
        collection.update_many(chosen, {"$set": {"v": "bulk", "ver": version()}}, session=session)
        return
    for n in rest[0]:
        chosen = {"_id": one_id(n)}
        match verb:
            case "put":
                collection.replace_one(chosen, fields(n), upsert=True, session=session)
            case "respell":
                collection.replace_one(chosen, {"_id": respelled(one_id(n)), **fields(n)}, session=session)
            case "remove":
                collection.delete_one(chosen, session=session)
            case _:
                collection.update_one(chosen, _changes(verb, n), session=session)


def _changes(verb: str, n: int) -> Any:
    """An update; what it sets are texts, which are the same in every form of JSON."""
    ver = version()
    match verb:
        case "touch":
            return {"$set": {"v": f"touched {ver}", "j.deep.s": ver, "ver": ver}}
        case "extend":
            return {"$set": {"ver": ver, f"new{n % 4}": "ä\n"}, "$push": {"list": ver}}
        case "strip":
            return {"$set": {"ver": ver}, "$unset": {"v": "", "j.é": ""}}
        case "cut":
            return [{"$set": {"ver": ver, "list": {"$slice": ["$list", 1]}}}]
        case "upset":
            return {"$set": {"ver": ver, "list.0": ver}, "$rename": {"big": "large"}}
    raise ValueError(f"no step {verb!r}")


# As the oracle sees them.


def row(found: dict[str, Any]) -> Row:
    """A document as the oracle's row: its key, and all of it as text that tells every type."""
    return {"_id": key_of(found["_id"]), "doc": canonical(found)}


def canonical(value: Any) -> str:
    """Canonical extended JSON."""
    return json_util.dumps(value, json_options=_CANONICAL, ensure_ascii=False)


def read_canonical(text: str) -> Any:
    """The value that was written so."""
    return json_util.loads(text, json_options=_CANONICAL)


def plain(raw: bytes) -> Any:
    """A document, decoded so that it encodes to the same bytes."""
    return bson.decode(raw, codec_options=CODEC)


def key_of(value: Any) -> str:
    """A text that is the same for ids that the server takes for equal."""
    return json.dumps(_plain_key(value), ensure_ascii=False)


def _plain_key(value: Any) -> Any:
    if isinstance(value, dict):
        return {"object": [[name, _plain_key(one)] for name, one in value.items()]}
    if isinstance(value, list):
        return {"array": [_plain_key(one) for one in value]}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal128):
        return {"number": _number(value)}
    return json.loads(canonical(value))


def _number(value: float | Decimal128) -> str:
    exact = value.to_decimal() if isinstance(value, Decimal128) else Decimal(value)
    return str(exact.normalize(_EXACT)) if exact else "0"

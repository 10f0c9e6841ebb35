"""The operations of a MongoDB case: JSON to exactly the BSON that was recorded, and how to run them.

Extended JSON of version 2, whose bare integers are 32 bits wide if they fit and whose bare decimals are
doubles, with two words of the cases' own: `$repeat` a text, and `$dup`, a document as a list of pairs, so
that a name may come twice or look like extended JSON. The driver could write none of the old types.
"""

from __future__ import annotations

import json
import struct
import time
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from bson.decimal128 import Decimal128
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError

from adapters.mongodb.documents.bson_walk import Kind

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pymongo.client_session import ClientSession

Element: TypeAlias = tuple[int, bytes]


class Pairs(list[tuple[str, Any]]):
    """A JSON object as it was written."""

    def get(self, name: str, otherwise: Any = None) -> Any:
        return dict(self).get(name, otherwise)


def parsed(text: str) -> Any:
    """A case's JSON, objects as Pairs."""
    return json.loads(text, object_pairs_hook=Pairs)


# Values.


def element(value: Any) -> Element:  # noqa: PLR0911  a type a line
    """The type and the bytes of a value."""
    match value:
        case None:
            return Kind.NULL, b""
        case bool():
            return Kind.BOOLEAN, bytes([value])
        case int():
            fits = -(2**31) <= value < 2**31
            return (Kind.INT32, struct.pack("<i", value)) if fits else (Kind.INT64, struct.pack("<q", value))
        case float():
            return Kind.DOUBLE, struct.pack("<d", value)
        case str():
            return Kind.STRING, _text(value)
        case Pairs():
            return _object(value)
        case list():
            return Kind.ARRAY, document((str(at), item) for at, item in enumerate(value))
    raise TypeError(f"no BSON for {value!r}")


def document(pairs: Any) -> bytes:
    """A document's bytes."""
    inner = b"".join(
        bytes([kind]) + name.encode() + b"\0" + data
        for name, (kind, data) in ((n, element(v)) for n, v in pairs)
    )
    return struct.pack("<i", len(inner) + 5) + inner + b"\0"


def _object(pairs: Pairs) -> Element:
    names = tuple(name for name, _ in pairs)
    special = _SPECIAL.get(names)
    return special(*(value for _, value in pairs)) if special else (Kind.DOCUMENT, document(pairs))


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return struct.pack("<i", len(data) + 1) + data + b"\0"


def _date(value: Any) -> Element:
    if isinstance(value, str):
        moment = datetime.fromisoformat(value).astimezone(UTC)
        ms = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    else:
        ms = int(value[0][1])
    return Kind.DATE, struct.pack("<q", ms)


def _binary(value: Pairs) -> Element:
    data, kind = b64decode(value.get("base64")), int(value.get("subType"), 16)
    if kind == 2:
        data = struct.pack("<i", len(data)) + data
    return Kind.BINARY, struct.pack("<iB", len(data), kind) + data


def _regex(value: Pairs) -> Element:
    return Kind.REGEX, value.get("pattern").encode() + b"\0" + value.get("options").encode() + b"\0"


def _timestamp(value: Pairs) -> Element:
    return Kind.TIMESTAMP, struct.pack("<II", value.get("i"), value.get("t"))


def _pointer(value: Pairs) -> Element:
    return Kind.DB_POINTER, _text(value.get("$ref")) + bytes.fromhex(value.get("$id").get("$oid"))


def _scoped(code: str, scope: Pairs) -> Element:
    inner = _text(code) + document(scope)
    return Kind.CODE_WITH_SCOPE, struct.pack("<i", len(inner) + 4) + inner


def _dup(pairs: list[list[Any]]) -> Element:
    return Kind.DOCUMENT, document(pairs)


_SPECIAL: dict[tuple[str, ...], Callable[..., Element]] = {
    ("$numberInt",): lambda text: (Kind.INT32, struct.pack("<i", int(text))),
    ("$numberLong",): lambda text: (Kind.INT64, struct.pack("<q", int(text))),
    ("$numberDouble",): lambda text: (Kind.DOUBLE, struct.pack("<d", float(text))),
    ("$numberDecimal",): lambda text: (Kind.DECIMAL128, Decimal128(text).bid),
    ("$oid",): lambda text: (Kind.OBJECT_ID, bytes.fromhex(text)),
    ("$date",): _date,
    ("$binary",): _binary,
    ("$uuid",): lambda text: (Kind.BINARY, struct.pack("<iB", 16, 4) + bytes.fromhex(text.replace("-", ""))),
    ("$regularExpression",): _regex,
    ("$timestamp",): _timestamp,
    ("$dbPointer",): _pointer,
    ("$code",): lambda text: (Kind.CODE, _text(text)),
    ("$code", "$scope"): _scoped,
    ("$symbol",): lambda text: (Kind.SYMBOL, _text(text)),
    ("$undefined",): lambda _true: (Kind.UNDEFINED, b""),
    ("$minKey",): lambda _one: (Kind.MIN_KEY, b""),
    ("$maxKey",): lambda _one: (Kind.MAX_KEY, b""),
    ("$repeat",): lambda given: (Kind.STRING, _text(given[0] * given[1])),
    ("$dup",): _dup,
}


def command(pairs: Pairs) -> dict[str, Any]:
    """A database command for the driver: its own fields plain, documents inside it as raw BSON."""
    return {name: _driver_value(value) for name, value in pairs}


def _driver_value(value: Any) -> Any:
    if isinstance(value, Pairs):
        kind, data = element(value)
        return (
            RawBSONDocument(data) if kind == Kind.DOCUMENT else RawBSONDocument(document([("v", value)]))["v"]
        )
    return [_driver_value(item) for item in value] if isinstance(value, list) else value


# Running them.


@dataclass(frozen=True, slots=True)
class Operations:
    """Runs a case's operations; `settle` waits for the engine, `report` hears of those that fail.

    `sessions` are those that steps have named, each with its transaction; they end with the client.
    """

    client: MongoClient[dict[str, Any]]
    settle: Callable[[], None]
    report: Callable[[str], None] = lambda _text: None
    sessions: dict[str, ClientSession] = field(default_factory=dict)

    def run(self, text: str | None) -> None:
        """Run the operations of a file, if there is one."""
        self.run_all(parsed(text) if text else [])

    def run_all(self, operations: list[Pairs]) -> None:
        """Run operations in order."""
        for operation in operations:
            self._run(operation)

    def _run(self, one: Pairs) -> None:
        if one.get("settle"):
            self.settle()
        elif (ms := one.get("sleep_ms")) is not None:
            time.sleep(ms / 1000)
        elif one.get("failpoint"):
            self.client.admin.command({"configureFailPoint": "failCommand", **command(one.get("failpoint"))})
        elif one.get("txn") is not None:
            self._transaction(one.get("txn"), abort=bool(one.get("abort")))
        elif one.get("cmd") is not None:
            self._command(one, self._session(one.get("session")))
        elif one.get("session") is not None:
            self._step(one)
        else:
            raise ValueError(f"no operation of a case: {', '.join(dict(one))}")

    def _session(self, name: str | None) -> ClientSession | None:
        """The session of this name, in a transaction; the one that it had may have ended."""
        if name is None:
            return None
        session = self.sessions.get(name) or self.client.start_session()
        self.sessions[name] = session
        if not session.in_transaction:
            session.start_transaction()
        return session

    def _step(self, one: Pairs) -> None:
        """The beginning or the end of a session's transaction."""
        session = self._session(one.get("session"))
        if session is None or one.get("start"):
            return
        try:
            session.abort_transaction() if one.get("abort") else session.commit_transaction()
        except PyMongoError as error:
            self.report(str(error))

    def _transaction(self, operations: list[Pairs], *, abort: bool) -> None:
        with self.client.start_session() as session:
            session.start_transaction()
            for operation in operations:
                self._command(operation, session)
            session.abort_transaction() if abort else session.commit_transaction()

    def _command(self, one: Pairs, session: ClientSession | None = None) -> None:
        answer = self.client[one.get("db")].command(command(one.get("cmd")), session=session, check=False)
        for error in answer.get("writeErrors", []):
            self.report(f"{error['errmsg']}")
        if not answer["ok"]:
            self.report(f"{answer['errmsg']}")

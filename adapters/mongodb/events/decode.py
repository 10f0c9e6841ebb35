"""Decodes a part of the change stream: raw BSON in, events as Arrow out. Pure; runs on executors.

Parts are decoded independently, except with transaction metadata: then each part needs the transaction that
the previous part left open. Events are decoded in a Python loop, since each has its own shape. Their full
documents are written together (`columns`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from struct import error as StructError  # noqa: N812  (it is a class)
from typing import TYPE_CHECKING, Any, TypeAlias

import bson
import numpy as np
import pyarrow as pa
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.timestamp import Timestamp

from adapters.mongodb.documents.bson_walk import Kind, cluster_time, elements, fields, int64, string
from adapters.mongodb.documents.columns import document_texts
from adapters.mongodb.documents.extended_json import RELAXED, STRICT, document_text, value_text
from adapters.mongodb.documents.keys import id_text
from adapters.mongodb.events.codec import codec_of, embedded, id_json
from adapters.mongodb.events.transactions import Boundaries, OpenTransaction
from adapters.mongodb.log.options import EMPTYING
from adapters.source.table_faults import note_fault
from engine.errors import SourceError
from engine.events.batch import EVENTS, no_events
from engine.model import CollectionId, Part
from engine.snapshot.merge import Superseded
from engine.snapshot.merge_key import merge_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adapters.mongodb.documents.bson_walk import Value
    from adapters.mongodb.events.codec import CollectionCodec, Rules

_Walked: TypeAlias = "tuple[dict[str, Value], CollectionId | None]"
"""A change event's values by name, and its collection."""
OPERATIONS = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}
"""Operations on documents, with their `op` in events."""
_ANY = CodecOptions[dict[str, Any]](
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_MS
)
_NAMESPACE = {"db": str, "coll": str}
_DESCRIBED = {"updatedFields": dict, "removedFields": list}
_NEEDED = {"operationType": str, "clusterTime": Timestamp}
_WITH_DOCUMENT = ("insert", "update", "replace")


@dataclass(frozen=True, slots=True)
class Watch:
    """What to note for the open windows: entries of these collections after a cluster time.

    `after` is (seconds, ordinal). All windows contain everything up to that time. Counting a key for a window
    that contains its change does no harm: the stream has delivered the change.
    """

    collections: frozenset[CollectionId] = frozenset()
    after: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class SignalDocument:
    """A document inserted into the signal collection: its place and its three values.

    `position` is the resume token's text. A missing or null value is None. `data` is JSON text, also for a
    document.
    """

    position: str
    id: str | None
    type: str | None
    data: str | None


@dataclass(frozen=True, slots=True)
class Emptied:
    """A drop, a rename to `to`, or an invalidation: of a `collection`, of a `database`, or of everything.

    The stream has no event for the documents that are lost, nor for those that a rename brings.
    """

    at: tuple[int, int]
    operation: str
    collection: CollectionId | None
    database: str | None
    to: CollectionId | None

    def among(self, collections: Iterable[CollectionId]) -> frozenset[CollectionId]:
        """Those of the collections that lose their documents."""
        return frozenset(one for one in collections if self._empties(one))

    def _empties(self, collection: CollectionId) -> bool:
        if self.collection is not None:
            return collection in {self.collection, self.to}
        return self.database is None or collection.parts[0] == self.database


class Lack(StrEnum):
    """Why no event has a changed document's content, in words."""

    TOO_LARGE = "the server can't send an event over 16 MB ('cursor.oversize.handling.mode' is 'skip')"
    RESPELT = "an update wrote an '_id' otherwise, as 1.0 for 1, and came without its document"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A change without a complete event: the document, by the `_id` in events' keys, and why."""

    collection: CollectionId
    id_json: str
    operation: str
    at: tuple[int, int]
    why: Lack = Lack.TOO_LARGE


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded part: its events in order, and the facts that the driver needs.

    `part` is the written file of the events, once there is one. `faults` maps collections whose changes can't
    be decoded to the reason. If there are any, the events are incomplete.
    """

    events: pa.RecordBatch
    signals: tuple[SignalDocument, ...]
    superseded: Superseded
    open: OpenTransaction | None
    entries: int
    part: Part | None = None
    emptied: tuple[Emptied, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    faults: Mapping[CollectionId, str] = field(default_factory=dict)


@dataclass(slots=True)
class _SupersedingKeys:
    """Collects the entries that supersede rows of open windows."""

    keys: dict[CollectionId, list[str]] = field(default_factory=dict)
    lacking: dict[CollectionId, list[str]] = field(default_factory=dict)

    def superseded(self) -> Superseded:
        return Superseded(
            {collection: (_merge_keys(found),) for collection, found in self.keys.items()},
            lacking={
                collection: tuple((key, key) for key in _merge_keys(found).to_pylist())
                for collection, found in self.lacking.items()
            },
        )


def _merge_keys(texts: list[str]) -> pa.LargeBinaryArray:
    return merge_keys([pa.array(texts, pa.large_string())])


def decode(
    changes: Sequence[bytes], rules: Rules, watch: Watch, now_ms: int, before: OpenTransaction | None = None
) -> Decoded:
    """Decode and encode the change events of a part. `now_ms` is their `ts_ms`.

    Raises SourceError if a change event is damaged.
    """
    try:
        return _decode(changes, rules, watch, now_ms, before)
    except (LookupError, ValueError, OverflowError, StructError, SourceError):
        if all(map(is_change, changes)):
            raise
        raise SourceError("a change of the stream is damaged", hint="read the span again") from None


def is_change(raw: bytes) -> bool:
    """Whether these bytes are a valid change event. If not, the decoder is not to blame for a failure."""
    try:
        change = bson.decode(raw, _ANY)
    except (BSONError, ValueError):
        return False
    operation, namespace = change.get("operationType"), change.get("ns", {"db": ""})
    if not isinstance(namespace, dict) or not _has({"coll": "", **namespace}, _NAMESPACE):
        return False
    needed = _NEEDED | ({"documentKey": dict} if operation in OPERATIONS else {})
    if operation == "update":
        described = change.get("updateDescription")
        return _has(change, needed) and isinstance(described, dict) and _has(described, _DESCRIBED)
    return _has(change, needed)


def _has(document: Mapping[str, Any], kinds: Mapping[str, type]) -> bool:
    return all(isinstance(document.get(name), kind) for name, kind in kinds.items())


def _decode(
    changes: Sequence[bytes], rules: Rules, watch: Watch, now_ms: int, before: OpenTransaction | None
) -> Decoded:
    part = _Part(rules, watch, now_ms, Boundaries(rules.settings, before))
    faults: dict[CollectionId | None, str] = {}
    walked = [_walked(raw) for raw in changes]
    texts = _whole_documents(changes, walked, rules, faults)
    for raw, (found, collection), whole in zip(changes, walked, texts, strict=True):
        try:
            part.add(raw, found, collection, whole)
        except Exception as error:  # noqa: BLE001  an error concerns this collection alone, whatever it is
            note_fault(faults, collection, error)
    known = {name: why for name, why in faults.items() if name is not None and rules.captures(name)}
    return replace(part.decoded(len(changes)), faults=known)


def _walked(raw: bytes) -> _Walked:
    found = fields(raw)
    return found, collection_of(raw, found.get("ns"))


def _whole_documents(
    changes: Sequence[bytes],
    walked: Sequence[_Walked],
    rules: Rules,
    faults: dict[CollectionId | None, str],
) -> list[str | None]:
    """The JSON of each event's full document, written together; None where there is none."""
    texts: list[str | None] = [None] * len(changes)
    rows, starts, offset = list[int](), list[int](), 0
    for row, (raw, (found, collection)) in enumerate(zip(changes, walked, strict=True)):
        value = found.get("fullDocument")
        if value is not None and value.kind == Kind.DOCUMENT and collection not in rules.aside:
            rows.append(row)
            starts.append(offset + value.start)
        offset += len(raw)
    joined = b"".join(changes)
    try:
        written: Iterable[str | None] = document_texts(joined, np.array(starts, np.int64))
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        # Writing them one by one shows which collection fails.
        written = [
            _document(joined, start, faults, walked[row][1]) for row, start in zip(rows, starts, strict=True)
        ]
    for row, text in zip(rows, written, strict=True):
        texts[row] = text
    return texts


def _document(
    raw: bytes, start: int, faults: dict[CollectionId | None, str], collection: CollectionId | None
) -> str | None:
    """The JSON of a document; None if it can't be written, which is noted as a fault."""
    try:
        return document_text(raw, start, STRICT)
    except Exception as error:  # noqa: BLE001  an error concerns this collection alone, whatever it is
        note_fault(faults, collection, error)
        return None


@dataclass(frozen=True, slots=True)
class _Change:
    """A change event to emit: its values by name, key, operation, time, and `after` as JSON."""

    raw: bytes
    found: dict[str, Value]
    id_json: str
    op: str
    at: tuple[int, int]
    after: str
    described: bool


class _Part:
    """Decodes change events one by one."""

    def __init__(self, rules: Rules, watch: Watch, now_ms: int, boundaries: Boundaries) -> None:
        self._rules, self._watch, self._boundaries = rules, watch, boundaries
        self._tail = f',"ts_ms":{now_ms},"transaction":'
        self._codecs: dict[CollectionId, CollectionCodec | None] = {}
        self._topics: dict[str, int] = {}
        self._columns: tuple[list[int], list[str], list[str | None]] = ([], [], [])
        self._noted, self._signals = _SupersedingKeys(), list[SignalDocument]()
        self._emptied, self._left_out = list[Emptied](), list[LeftOut]()

    def add(
        self, raw: bytes, found: dict[str, Value], collection: CollectionId | None, whole: str | None
    ) -> None:
        operation = string(raw, found["operationType"].start)
        if collection in self._rules.aside and operation in OPERATIONS:
            return
        at = cluster_time(raw, found["clusterTime"].start)
        self._note(raw, found, collection, operation, at)
        op = OPERATIONS.get(operation)
        if op is None or collection is None:
            return
        codec = self._codec(collection)
        if codec is None:
            return
        named = id_json(raw, found["documentKey"])
        if _is_bare(operation, found):
            self._left_out.append(LeftOut(collection, named, operation, at))
            return
        if codec.signal and op == "c":
            self._signals.append(_signal(raw, found))
        if op in self._rules.settings.skipped_operations:
            return
        after = self._after(raw, found, codec, whole) if op != "d" else "null"
        change = _Change(raw, found, named, op, at, after, described=operation == "update")
        respelt = _respelt(raw, found, operation)
        if respelt is not None:
            self._delete(change, codec)
            change = replace(change, id_json=respelt)
            if "fullDocument" not in found:
                self._left_out.append(LeftOut(collection, respelt, operation, at, Lack.RESPELT))
        self._emit(change, codec)

    def _delete(self, change: _Change, codec: CollectionCodec) -> None:
        """Emit a delete for a key that no later event uses."""
        if "d" not in self._rules.settings.skipped_operations:
            self._emit(replace(change, op="d", after="null", described=False), codec)

    def decoded(self, entries: int) -> Decoded:
        return Decoded(
            self._batch(),
            tuple(self._signals),
            self._noted.superseded(),
            self._boundaries.open,
            entries,
            emptied=tuple(self._emptied),
            left_out=tuple(self._left_out),
        )

    def _batch(self) -> pa.RecordBatch:
        indices, keys, values = self._columns
        if not indices:
            return no_events()
        topic = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(self._topics)))
        text = pa.large_string()
        columns = [topic, pa.array(keys, text), pa.array(values, text), pa.nulls(len(keys), text)]
        return pa.RecordBatch.from_arrays(columns, schema=EVENTS)

    def _codec(self, collection: CollectionId) -> CollectionCodec | None:
        if collection not in self._codecs:
            captured = self._rules.captures(collection)
            self._codecs[collection] = codec_of(collection, self._rules) if captured else None
        return self._codecs[collection]

    def _note(
        self,
        raw: bytes,
        found: dict[str, Value],
        collection: CollectionId | None,
        operation: str,
        at: tuple[int, int],
    ) -> None:
        if operation in EMPTYING:
            to = collection_of(raw, found.get("to"))
            self._emptied.append(Emptied(at, operation, collection, _database(raw, found.get("ns")), to))
        elif at > self._watch.after and collection in self._watch.collections and "documentKey" in found:
            key = id_text(raw, found["documentKey"].start) or "null"
            self._noted.keys.setdefault(collection, []).append(key)
            if operation in _WITH_DOCUMENT and not _has_document(found):
                # Not looked up, deleted since, or stripped from an event that was too large.
                self._noted.lacking.setdefault(collection, []).append(key)

    @staticmethod
    def _after(raw: bytes, found: dict[str, Value], codec: CollectionCodec, whole: str | None) -> str:
        if codec.field_rules.rules:
            return codec.optional_document(raw, found.get("fullDocument"))
        return "null" if whole is None else embedded(whole)

    def _emit(self, change: _Change, codec: CollectionCodec) -> None:
        raw, found, op, at = change.raw, change.found, change.op, change.at
        key = codec.key(change.id_json)
        before = codec.optional_document(raw, found.get("fullDocumentBeforeChange"))
        described = change.described
        update = codec.update_description(raw, found["updateDescription"].start) if described else "null"
        lsid, number = session_of(raw, found)
        block = self._block(codec, lsid, number, at[0])
        session = "null" if lsid is None else embedded(lsid)
        value = (
            f'{codec.value_wrap[0]}{{"before":{before},"after":{change.after},"patch":null,"filter":null'
            f',"updateDescription":{update},"source":{codec.head}{at[0]}000{codec.source}{at[1]}'
            f',"lsid":{session},"txnNumber":{"null" if number is None else number}}},"op":"{op}"'
            f"{self._tail}{block}}}{codec.value_wrap[1]}"
        )
        self._append(codec.topic, key, value)
        if op == "d" and self._rules.settings.tombstones:
            self._append(codec.topic, key, None)

    def _block(self, codec: CollectionCodec, lsid: str | None, number: int | None, seconds: int) -> str:
        if not self._rules.settings.transaction_metadata:
            return "null"
        transaction = None if lsid is None else f"{lsid}:{number}"
        for event in self._boundaries.before(transaction, seconds):
            self._append(*event)
        if transaction is None:
            return "null"
        return self._boundaries.count(f"{self._rules.replica_set}.{codec.collection}")

    def _append(self, topic: str, key: str, value: str | None) -> None:
        indices, keys, values = self._columns
        indices.append(self._topics.setdefault(topic, len(self._topics)))
        keys.append(key)
        values.append(value)


def collection_of(raw: bytes, namespace: Value | None) -> CollectionId | None:
    """The collection of an event's namespace; None if it names only a database."""
    if namespace is None:
        return None
    found = fields(raw, namespace.start)
    if "coll" not in found:
        return None
    return CollectionId((string(raw, found["db"].start), string(raw, found["coll"].start)))


def _database(raw: bytes, namespace: Value | None) -> str | None:
    return None if namespace is None else string(raw, fields(raw, namespace.start)["db"].start)


def _has_document(found: dict[str, Value]) -> bool:
    return "fullDocument" in found and found["fullDocument"].kind == Kind.DOCUMENT


def _is_bare(operation: str, found: dict[str, Value]) -> bool:
    """Whether the event was stripped of its content because it was too large."""
    if operation == "update":
        return "updateDescription" not in found
    return operation in _WITH_DOCUMENT and "fullDocument" not in found


def _respelt(raw: bytes, found: dict[str, Value], operation: str) -> str | None:
    """A document's new `_id`, as in keys, if a change rewrote it; else None.

    The server treats 1 and 1.0 as equal, so a replacement, or an update by a pipeline, may swap one for the
    other. This event has the old form, and all later events have the new one.
    """
    key = found["documentKey"]
    if operation == "replace" and _has_document(found):
        start = found["fullDocument"].start
        if raw.startswith(raw[key.start + 4 : key.end - 1], start + 4):
            return None
        place = _place_of_id(raw, start)
    elif operation == "update":
        described = found["updateDescription"]
        if raw.find(b"_id\0", described.start, described.end) < 0:
            return None
        place = _place_of_id(raw, fields(raw, described.start)["updatedFields"].start)
    else:
        return None
    before = _place_of_id(raw, key.start)
    if place is None or before is None or _bytes(raw, place) == _bytes(raw, before):
        return None
    text = value_text(raw, *place)
    # 32-bit and 64-bit integers are written alike, so the key stays the same.
    return None if text == value_text(raw, *before) else text


def _place_of_id(raw: bytes, start: int) -> tuple[int, int, int] | None:
    """Type, start and end of the `_id` of the document at `start`."""
    return next(
        ((kind, begin, end) for name, kind, begin, end in elements(raw, start) if name == b"_id"), None
    )


def _bytes(raw: bytes, place: tuple[int, int, int]) -> tuple[int, bytes]:
    kind, start, end = place
    return kind, raw[start:end]


def session_of(raw: bytes, found: dict[str, Value]) -> tuple[str | None, int | None]:
    """The session and number of an event's transaction; None outside transactions."""
    if "lsid" not in found or "txnNumber" not in found:
        return None, None
    return document_text(raw, found["lsid"].start, STRICT), int64(raw, found["txnNumber"].start)[0]


def _signal(raw: bytes, found: dict[str, Value]) -> SignalDocument:
    """The first three values of the inserted document, by position."""
    token = fields(raw, found["_id"].start)["_data"]
    values = [_plain(raw, *one[1:]) for one in elements(raw, found["fullDocument"].start)]
    padded = [*values[:3], None, None, None] if len(values) <= 3 else [values[0], values[1], None]
    return SignalDocument(string(raw, token.start), padded[0], padded[1], padded[2])


def _plain(raw: bytes, kind: int, start: int, end: int) -> str | None:
    """A string's own text, None for null, JSON for anything else."""
    if kind == Kind.STRING:
        return string(raw, start)
    return None if kind == Kind.NULL else value_text(raw, kind, start, end, RELAXED)

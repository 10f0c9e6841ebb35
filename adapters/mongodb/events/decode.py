"""Decodes a part of the change stream: raw BSON in, events as Arrow out. Pure; runs on executors.

Parts are decoded independently, except with transaction metadata: then each part needs the transaction that
the previous part left open. Events are decoded in a Python loop, since each has its own shape. Their full
documents are written together (`columns`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from struct import error as StructError  # noqa: N812  (it is a class)
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from adapters.mongodb.documents.bson_walk import Kind, cluster_time, fields, string
from adapters.mongodb.documents.columns import document_texts
from adapters.mongodb.documents.extended_json import STRICT, document_text, embedded
from adapters.mongodb.documents.keys import id_text
from adapters.mongodb.events.change_event import (
    OPERATIONS,
    WITH_DOCUMENT,
    collection_of,
    database_of,
    has_document,
    is_bare,
    is_change,
    respelt,
    session_of,
    signal_of,
)
from adapters.mongodb.events.codec import codec_of, id_json
from adapters.mongodb.events.facts import CollectionRemoval, DecodedPart, Lack, LeftOut, Watch
from adapters.mongodb.events.transactions import Boundaries
from adapters.mongodb.log.options import EMPTYING
from adapters.source.log.table_faults import note_fault
from engine.errors import SourceError
from engine.events.batch import EVENTS, no_events
from engine.events.columns import parsed_events
from engine.events.counts import count_events
from engine.model import SignalRow
from engine.snapshot.merge import SupersededKeys
from engine.snapshot.merge_key import merge_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from adapters.mongodb.documents.bson_walk import Value
    from adapters.mongodb.events.codec import CollectionCodec, Rules
    from adapters.source.log.open_transaction import OpenTransaction
    from engine.model import CollectionId

_Walked: TypeAlias = "tuple[dict[str, Value], CollectionId | None]"
"""A change event's values by name, and its collection."""


@dataclass(slots=True)
class _SupersedingKeys:
    """Collects the entries that supersede rows of open windows."""

    keys: dict[CollectionId, list[str]] = field(default_factory=dict)
    lacking: dict[CollectionId, list[str]] = field(default_factory=dict)

    def superseded(self) -> SupersededKeys:
        return SupersededKeys(
            {collection: (_merge_keys(keys),) for collection, keys in self.keys.items()},
            lacking={
                collection: tuple((key, key) for key in _merge_keys(keys).to_pylist())
                for collection, keys in self.lacking.items()
            },
        )


def _merge_keys(texts: list[str]) -> pa.LargeBinaryArray:
    return merge_keys([pa.array(texts, pa.large_string())])


def decode(
    changes: Sequence[bytes], rules: Rules, watch: Watch, now_ms: int, before: OpenTransaction | None = None
) -> DecodedPart:
    """Decode and encode the change events of a part. `now_ms` is their `ts_ms`.

    Raises SourceError if a change event is damaged.
    """
    try:
        return _decode(changes, rules, watch, now_ms, before)
    except (LookupError, ValueError, OverflowError, StructError, SourceError):
        if all(map(is_change, changes)):
            raise
        raise SourceError("a change of the stream is damaged", hint="read the span again") from None


def _decode(
    changes: Sequence[bytes], rules: Rules, watch: Watch, now_ms: int, before: OpenTransaction | None
) -> DecodedPart:
    part = _Part(rules, watch, now_ms, Boundaries(rules.settings, before))
    faults: dict[CollectionId | None, str] = {}
    walked = [_walked(raw) for raw in changes]
    texts = _whole_documents(changes, walked, rules, faults)
    for raw, (values, collection), whole in zip(changes, walked, texts, strict=True):
        try:
            part.add(raw, values, collection, whole)
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
    for row, (raw, (values, collection)) in enumerate(zip(changes, walked, strict=True)):
        value = values.get("fullDocument")
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
        self._events = 0
        self._operations: list[str] = []
        self._columns: tuple[list[int], list[str], list[str | None]] = ([], [], [])
        self._typed: dict[CollectionId, tuple[list[int], list[str], list[str | None]]] = {}
        self._noted = {after: _SupersedingKeys() for after in watch.after}
        self._signals = list[SignalRow]()
        self._emptied, self._left_out = list[CollectionRemoval](), list[LeftOut]()

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
        if is_bare(operation, found):
            if op not in self._rules.settings.skipped_operations:
                self._left_out.append(LeftOut(collection, named, operation, at))
            return
        if codec.signal and op == "c":
            self._signals.append(signal_of(raw, found))
        new_id = respelt(raw, found, operation)
        if new_id is None and op in self._rules.settings.skipped_operations:
            return
        after = self._after(raw, found, codec, whole) if op != "d" else "null"
        change = _Change(raw, found, named, op, at, after, described=operation == "update")
        if new_id is None:
            self._emit(change, codec)
            return
        self._move(change, replace(change, id_json=new_id), codec)
        if "fullDocument" not in found:
            self._left_out.append(LeftOut(collection, new_id, operation, at, Lack.RESPELT))

    def _move(self, old: _Change, new: _Change, codec: CollectionCodec) -> None:
        """Emit a delete for a key that no later event uses, and the change under the new one.

        If updates are skipped, the change is a create, as with keys that change on the other sources.
        """
        skipped = self._rules.settings.skipped_operations
        if "d" not in skipped:
            self._emit(replace(old, op="d", after="null", described=False), codec)
        if new.op not in skipped:
            self._emit(new, codec)
        elif "c" not in skipped and has_document(new.found):
            self._emit(replace(new, op="c", described=False), codec)

    def decoded(self, entries: int) -> DecodedPart:
        return DecodedPart(
            self._batch(),
            tuple(self._signals),
            {after: noted.superseded() for after, noted in self._noted.items()},
            self._boundaries.open,
            entries,
            emptied=tuple(self._emptied),
            left_out=tuple(self._left_out),
            columns=tuple(self._typed_batches()),
            counts=count_events(Counter(self._operations)),
        )

    def _typed_batches(self) -> Iterator[pa.RecordBatch]:
        for collection, (order, keys, values) in self._typed.items():
            codec = self._codec(collection)
            if codec is not None:
                text = pa.large_string()
                yield parsed_events(codec, pa.array(order), pa.array(keys, text), pa.array(values, text))

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
            self._emptied.append(
                CollectionRemoval(at, operation, collection, database_of(raw, found.get("ns")), to)
            )
        elif collection in self._watch.collections and "documentKey" in found:
            key = id_text(raw, found["documentKey"].start) or "null"
            for noted in (noted for after, noted in self._noted.items() if at > after):
                noted.keys.setdefault(collection, []).append(key)
                if operation in WITH_DOCUMENT and not has_document(found):
                    # Not looked up, deleted since, or stripped from an event that was too large.
                    noted.lacking.setdefault(collection, []).append(key)

    @staticmethod
    def _after(raw: bytes, found: dict[str, Value], codec: CollectionCodec, whole: str | None) -> str:
        if codec.field_rules.rules:
            return codec.optional_document(raw, found.get("fullDocument"))
        return "null" if whole is None else embedded(whole)

    def _emit(self, change: _Change, codec: CollectionCodec) -> None:
        raw, found, op, at = change.raw, change.found, change.op, change.at
        key = codec.key(change.id_json)
        before = "null" if op == "c" else codec.optional_document(raw, found.get("fullDocumentBeforeChange"))
        described = change.described
        update = codec.update_description(raw, found["updateDescription"].start) if described else "null"
        lsid, number = session_of(raw, found)
        block = self._block(codec, lsid, number, at[0])
        session = "null" if lsid is None else embedded(lsid)
        value = (
            f'{codec.value_affixes[0]}{{"before":{before},"after":{change.after},"patch":null,"filter":null'
            f',"updateDescription":{update},"source":{codec.head}{at[0]}000{codec.source}{at[1]}'
            f',"lsid":{session},"txnNumber":{"null" if number is None else number}}},"op":"{op}"'
            f"{self._tail}{block}}}{codec.value_affixes[1]}"
        )
        self._operations.append(op)
        self._add(codec, key, value)
        if op == "d" and self._rules.settings.tombstones:
            self._add(codec, key, None)

    def _block(self, codec: CollectionCodec, lsid: str | None, number: int | None, seconds: int) -> str:
        if not self._rules.settings.transaction_metadata:
            return "null"
        transaction = None if lsid is None else f"{lsid}:{number}"
        for event in self._boundaries.before(transaction, seconds):
            self._append(*event)
        if transaction is None:
            return "null"
        return self._boundaries.count(f"{self._rules.replica_set}.{codec.collection}")

    def _add(self, codec: CollectionCodec, key: str, value: str | None) -> None:
        if codec.schemas is None:
            self._append(codec.topic, key, value)
            return
        order, keys, values = self._typed.setdefault(codec.collection, ([], [], []))
        order.append(self._events)
        keys.append(key)
        values.append(value)
        self._events += 1

    def _append(self, topic: str, key: str, value: str | None) -> None:
        indices, keys, values = self._columns
        indices.append(self._topics.setdefault(topic, len(self._topics)))
        keys.append(key)
        values.append(value)

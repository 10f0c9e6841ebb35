"""Change events as a server sends them: BSON, their parts, and the answers that carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import bson
from bson.timestamp import Timestamp

from tests.simulation.mongodb.replica_set import LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.simulation.mongodb.replica_set import Document, Entry, ReplicaSet, Time

_WRITES = ("insert", "update", "replace", "delete")
_SESSION = {"id": bson.Binary(b"\1" * 16, 4), "uid": b"\2" * 32}


class Wanted(NamedTuple):
    """What a stream asks for: looked-up documents, pre-images, identities alone, parts, times alone."""

    looks_up: bool
    pre_images: bool
    bare: bool
    splits: bool
    times: bool = False


def wanted_of(pipeline: Sequence[Mapping[str, Any]]) -> Wanted:
    """What a pipeline asks for."""
    stage, rest = pipeline[0]["$changeStream"], pipeline[1:]
    projected = [sorted(stage["$project"]) for stage in rest if "$project" in stage]
    return Wanted(
        stage.get("fullDocument") == "updateLookup",
        stage.get("fullDocumentBeforeChange") == "whenAvailable",
        any("documentKey" in names for names in projected),
        any("$changeStreamSplitLargeEvent" in stage for stage in rest),
        ["clusterTime"] in projected,
    )


class Event(NamedTuple):
    """An event's fields, and what its fields count in MB. `text` is its token's text."""

    text: str
    fields: Document
    sizes: Mapping[str, int]

    @property
    def size(self) -> int:
        """What the event counts."""
        return 1 + sum(self.sizes.values())


def event_of(entry: Entry, wanted: Wanted, now: ReplicaSet) -> Event:
    """The event of an entry, with the document as the majority has it now where it is looked up."""
    if wanted.times:
        return Event(entry.text, {"clusterTime": Timestamp(*entry.time)}, {})
    database, name = entry.collection.parts
    fields: Document = {"operationType": entry.op, "clusterTime": Timestamp(*entry.time)}
    fields["ns"] = {"db": database} if entry.op == "dropDatabase" else {"db": database, "coll": name}
    if entry.to is not None:
        fields["to"] = dict(zip(("db", "coll"), entry.to.parts, strict=True))
    sizes: dict[str, int] = {}
    if entry.op in _WRITES:
        fields["documentKey"] = {"_id": entry.key}
    if entry.op in _WRITES and not wanted.bare:
        _fill(fields, sizes, entry, wanted, now)
    if entry.transaction and not wanted.bare:
        fields |= {"lsid": _SESSION, "txnNumber": bson.Int64(entry.transaction)}
    return Event(entry.text, fields, sizes)


def _fill(fields: Document, sizes: dict[str, int], entry: Entry, wanted: Wanted, now: ReplicaSet) -> None:
    if entry.op == "update":
        changed = dict(entry.changed or {})
        fields["updateDescription"] = {"updatedFields": changed, "removedFields": [], "truncatedArrays": []}
        sizes["updateDescription"] = entry.after["size"] if entry.after and "large" in changed else 0
        if wanted.looks_up:
            state = now.states[now.majority].get(entry.collection)
            found = None if state is None else state.docs.get(entry.key)
            fields["fullDocument"] = found
            sizes["fullDocument"] = found["size"] if found else 0
    elif entry.after is not None:
        fields["fullDocument"] = entry.after
        sizes["fullDocument"] = entry.after.get("size", 0)
    if wanted.pre_images and entry.before is not None:
        fields["fullDocumentBeforeChange"] = entry.before
        sizes["fullDocumentBeforeChange"] = entry.before.get("size", 0)


def parts_of(event: Event) -> list[tuple[str, Document]]:
    """An event that is too large in parts, each with its token: a large field in each."""
    large = [name for name in event.fields if event.sizes.get(name, 0)]
    groups = [[name for name in event.fields if name not in large], *([name] for name in large)]
    found = []
    for number, names in enumerate(groups, 1):
        last = number == len(groups)
        part: Document = {"_id": {"_data": event.text + ("FF" if last else f"{number:02X}")}}
        part["splitEvent"] = {"fragment": number, "of": len(groups)}
        found.append((part["_id"]["_data"], {**part, **{name: event.fields[name] for name in names}}))
    return found


def invalidation(entry: Entry) -> tuple[str, Document]:
    """What ends a stream behind an entry, with its token."""
    text = f"{entry.text}F0"
    return text, {
        "_id": {"_data": text},
        "operationType": "invalidate",
        "clusterTime": Timestamp(*entry.time),
    }


def too_large(event: Event) -> bool:
    """Whether the server can't send an event as it is."""
    return event.size > LIMIT


def answer(batch: str, events: Sequence[Document], cursor: int, upto: str, times: tuple[Time, Time]) -> bytes:
    """An answer with events; `upto` is the token behind them.

    The times are the majority's, which a stream reads, and the cluster's.
    """
    operation, cluster = times
    return bson.encode(
        {
            "cursor": {
                batch: list(events),
                "id": bson.Int64(cursor),
                "ns": "admin.$cmd.aggregate",
                "postBatchResumeToken": {"_data": upto},
            },
            "operationTime": Timestamp(*operation),
            "$clusterTime": {"clusterTime": Timestamp(*cluster)},
            "ok": 1.0,
        }
    )

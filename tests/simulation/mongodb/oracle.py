"""The judge of MongoDB's world: the sink's events held against the oplog and the documents of each time.

It follows the oplog entry by entry as the events come out of the sink. Every change of a captured document
must come once, in order, with what the stream may have of it. A READ must show the document exactly as it
stands at that place. Drops, renames and changes that no event can carry leave no event: they are passed when
an event or a READ shows that the stream is behind them, or the saved position does.

    oplog    update a      drop t       insert a
    sink     u a           -            c a
    READ     a, updated ┘  └ no document    └ the new a

An update's document is looked up when its event is made: it may be of any later time, or none. A consumer's
copy is made from the events alone. It may be ahead of the stream by such a document; never behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from tests.simulation.mongodb.replica_set import LIMIT, OPERATIONS, SIGNALS, TABLES
from tests.simulation.record_sink import shown
from tests.simulation.source import in_scope
from tests.simulation.turns import Turns
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from engine.model import CollectionId, Scope
    from tests.simulation.copies import Finished
    from tests.simulation.mongodb.replica_set import Document, Entry, ReplicaSet, Time
    from tests.simulation.record_sink import Record


class MongoOracle(Turns):
    """Judges one history. `position` is how many entries of the oplog were passed.

    `skips`: changes that are too large for an event leave none. `whole` are the collections of which a
    snapshot was finished; `stale` those of which consumers may keep documents that a drop or rename took.
    `lacking` are those of which the stream lacked documents, `told` those of which the job has said so. Of
    `partial` documents, the last event was an update whose document was gone when it was looked up. `undone`
    ones were looked up as they were behind the time to which the server was put back.
    """

    def __init__(self, replica_set: ReplicaSet, *, knows: bool, looks_up: bool, skips: bool) -> None:
        super().__init__(knows=knows)
        self.replica_set, self._looks_up, self._skips = replica_set, looks_up, skips
        self.consumer: dict[CollectionId, dict[Any, Document]] = {table: {} for table in TABLES}
        self.whole: set[CollectionId] = set()
        self.stale: set[CollectionId] = set()
        self.lacking: set[CollectionId] = set()
        self.told: set[CollectionId] = set()
        self.partial: set[tuple[CollectionId, Any]] = set()
        self.undone: set[tuple[CollectionId, Any]] = set()
        self.unsure = False
        self._due: list[tuple[CollectionId, Scope | None]] = []
        self._just_untold: set[CollectionId] = set()
        self.reads = self.begun_at = self.furthest = 0
        self.started = False
        self.asked_for: Callable[[CollectionId, Any], bool] = lambda _collection, _key: True

    def begin(self, at: int) -> None:
        """The log begins here: what precedes it is known to snapshots alone."""
        self.position = self.begun_at = self.furthest = at
        for table in TABLES:
            self.consumer[table].clear()

    def begin_anew(self, at: int) -> None:
        """A new log begins here. Consumers keep what they have, and repairs make up for what they lack."""
        self.position = self.begun_at = self.furthest = at
        self.lacking.clear()
        self.whole.clear()
        self._just_untold.clear()
        self._due.clear()

    def follow(self, replica_set: ReplicaSet) -> None:
        """Judge by an older copy of the replica set, which goes on in its place."""
        self.replica_set, self.unsure = replica_set, False
        # An update's document may have been looked up as it was behind the time of the older copy.
        self.undone = {
            (table, key)
            for table, copy in self.consumer.items()
            for key, document in copy.items()
            if document not in self._later(table, key)
        }

    # Events.

    def turn(self, number: int, events: Sequence[Record]) -> None:
        """Take in the events of a turn, or of an attempt at one."""
        again = self.starts(number)
        if again is not None:
            self.position = again
        for event in events:
            if event.op == "r":
                self._read(event, number)
            else:
                self._entry(event, number)

    def pass_over(self, upto: Time, *, whole: bool, alone: bool) -> None:
        """A turn was saved, and has passed entries without events up to a time.

        If not the `whole` time was passed, an event of it may have been. It was one that has a time `alone`,
        such as a drop or a rename, or one of a transaction.
        """
        log = self.replica_set.log
        while self.position < len(log) and self._silent(entry := log[self.position]):
            passed = whole or (alone and entry.op in {"drop", "rename"})
            if entry.time > upto or (entry.time == upto and not passed):
                break
            self._pass()
        self._just_untold.clear()
        due, self._due = self._due, []
        for collection, scope in due:
            self._check_copy(collection, scope)

    def _silent(self, entry: Entry) -> bool:
        """Whether an entry has no event of its own."""
        return not entry.told or self._left_out(entry)

    def _left_out(self, entry: Entry) -> bool:
        """Whether no event can carry a change, however little is asked of it."""
        if not self._skips or not entry.told:
            return False
        size = entry.after["size"] if entry.after and entry.collection != SIGNALS else 0
        return bool(size and entry.op in {"insert", "replace"} and 1 + size > LIMIT) or bool(
            entry.op == "update" and "large" in (entry.changed or {}) and 1 + size > LIMIT
        )

    def _pass(self) -> None:
        """Go behind an entry, and note what the stream can't tell of it."""
        entry = self.replica_set.log[self.position]
        self.position += 1
        fresh = self.position > self.furthest
        self.furthest = max(self.furthest, self.position)
        if entry.op in {"drop", "rename"}:
            self.stale.add(entry.collection)
            if entry.to in self.consumer:
                assert entry.to is not None
                self._just_untold.add(entry.to)
                self.stale.add(entry.to)
                self.whole.discard(entry.to)
                if fresh:
                    self.lacking.add(entry.to)
        elif self._left_out(entry):
            self._just_untold.add(entry.collection)
            self.stale.add(entry.collection)
            self.whole.discard(entry.collection)
            if fresh:
                self.lacking.add(entry.collection)

    @property
    def unjudged(self) -> set[CollectionId]:
        """The collections of which it can't be said what consumers should have.

        No event tells when the stream has passed a drop or a rename.
        """
        if self.unsure:
            return set(TABLES)
        removed = self._removals_ahead
        return {name for entry in removed for name in (entry.collection, entry.to) if name is not None}

    @property
    def _removals_ahead(self) -> Sequence[Entry]:
        """The drops and renames that the stream has not passed."""
        ahead = self.replica_set.log[self.position :]
        return [entry for entry in ahead if entry.op in {"drop", "rename"}]

    def rows_of(self, collection: CollectionId) -> Mapping[Any, Document]:
        """The documents at the place that the stream has reached."""
        return self._rows(collection)

    def differences(self) -> dict[CollectionId, dict[str, int]]:
        """How many documents consumers lack, have otherwise, and have alone, for each collection.

        Where consumers have what a document will be later, there may be a difference or not: such a
        collection is left out, and so is one with `partial` documents that may be right.
        """
        found: dict[CollectionId, dict[str, int]] = {}
        for collection in sorted(set(TABLES) - self.unjudged):
            copy, rows = self.consumer[collection], self._rows(collection)
            counts = {"missing": 0, "different": 0, "extra": 0}
            for key in copy.keys() | rows.keys():
                partial = (collection, key) in self.partial
                if copy.get(key) == rows.get(key) and not partial:
                    continue
                if copy.get(key) in self._later(collection, key):
                    break
                kind = "missing" if key not in copy else "extra" if key not in rows else "different"
                counts[kind] += 1
            else:
                found[collection] = counts
        return found

    @property
    def untold(self) -> list[CollectionId]:
        """The collections that lack something, and nobody was told so."""
        return sorted(self.lacking - self.told)

    def _rows(self, collection: CollectionId, at: int | None = None) -> Mapping[Any, Document]:
        stored = self.replica_set.states[self.position if at is None else at].get(collection)
        return stored.docs if stored else {}

    def _later(self, collection: CollectionId, key: Any) -> Iterator[Document | None]:
        """The document now and at all later times."""
        for at in range(self.position, len(self.replica_set.states)):
            yield self._rows(collection, at).get(key)

    def _entry(self, event: Record, turn: int) -> None:
        log, said = self.replica_set.log, shown(event)
        while self.position < len(log) and self._silent(log[self.position]):
            self._pass()
        if self.position >= len(log):
            raise Violation(f"turn {turn}: the log ends, sent was {said}")
        entry, source = log[self.position], event.value["source"]
        place = (
            (source["ts_ms"] // 1000, source["ord"]),
            event.collection,
            orjson.loads(event.key["id"] if event.key else "null"),
        )
        op = OPERATIONS[entry.op]
        if place != (entry.time, entry.collection, entry.key) or event.op != op:
            raise Violation(
                f"turn {turn}: the log goes on with entry {entry.at} ({entry.op} of {entry.key!r} in"
                f" {entry.collection} at {entry.time}), sent was {said} at {place[0]}"
            )
        self._pass()
        self._check_content(entry, event, f"turn {turn}: entry {entry.at}")
        if entry.collection in self.consumer:
            self._consume(entry, event)

    def _check_content(self, entry: Entry, event: Record, what: str) -> None:
        after = _document(event.value["after"])
        if entry.op == "update":
            described = orjson.loads(event.value["updateDescription"]["updatedFields"])
            if described != entry.changed:
                raise Violation(f"{what} wrote {entry.changed}, sent was {described}")
            if after is not None and (
                not self._looks_up or after not in self._later(entry.collection, entry.key)
            ):
                raise Violation(f"{what}: no later document is {after}")
        elif after != entry.after:
            raise Violation(f"{what} is {entry.after}, sent was {after}")
        before = _document(event.value["before"])
        if before not in (None, entry.before):
            raise Violation(f"{what}: the document before is {entry.before}, sent was {before}")

    def _consume(self, entry: Entry, event: Record) -> None:
        """What a consumer does with an event."""
        copy, key = self.consumer[entry.collection], entry.key
        after = _document(event.value["after"])
        if event.op == "d":
            copy.pop(key, None)
        elif after is not None:
            copy[key] = after
        elif key in copy and entry.changed:
            copy[key] = {**copy[key], **entry.changed}
            self.partial.add((entry.collection, key))
            return
        self._renewed(entry.collection, key)

    def _renewed(self, collection: CollectionId, key: Any) -> None:
        """Note that consumers have got a whole document, or none."""
        self.partial.discard((collection, key))
        self.undone.discard((collection, key))

    def _read(self, event: Record, turn: int) -> None:
        self.reads += 1
        collection, after = event.collection, _document(event.value["after"])
        if collection == SIGNALS or after is None:
            return
        key = after["_id"]
        if not self.asked_for(collection, key):
            raise Violation(f"turn {turn}: no signal asked for {shown(event)}")
        if self.unsure:  # the server was put back, and the job has not seen it yet
            self.consumer[collection][key] = after
            self._renewed(collection, key)
            return
        log = self.replica_set.log
        while (found := self._rows(collection).get(key)) != after:
            if self.position >= len(log) or not self._silent(log[self.position]):
                raise Violation(
                    f"turn {turn}: {shown(event)}, and the document is {found} here (entry {self.position})"
                )
            self._pass()
        self.consumer[collection][key] = after
        self._renewed(collection, key)

    # Answers.

    def finished(self, collection: CollectionId, _finished: Finished, scope: Scope | None = None) -> None:
        """A snapshot was answered as finished; what differs may come of what the turn has passed as well."""
        if collection not in self.consumer or self.unsure:
            return
        if collection in self._just_untold:
            return  # a job that was started anew may tell now what the turn before has finished
        if scope is None:
            self.whole.add(collection)
        if self._differing(collection, scope) is not None:
            self._due.append((collection, scope))

    def _check_copy(self, collection: CollectionId, scope: Scope | None = None) -> None:
        key = self._differing(collection, scope)
        if key is not None:
            is_, have = self._rows(collection).get(key), self.consumer[collection].get(key)
            raise Violation(
                f"the snapshot of {collection.parts[-1]} is finished; document {key} is {is_},"
                f" consumers have {have} (entry {self.position})"
            )

    def _differing(self, collection: CollectionId, scope: Scope | None) -> Any:
        """A document of which consumers have what it neither is nor becomes; None if there is none.

        A snapshot may have found a collection gone that the stream has yet to see dropped or renamed. It is
        complete then, without the rows that were left.
        """
        if any(entry.collection == collection for entry in self._removals_ahead):
            return None
        copy, rows = self.consumer[collection], self._rows(collection)
        for key in sorted(copy.keys() | rows.keys()):
            if not in_scope(scope, key) or (key not in rows and collection in self.stale):
                continue
            if copy.get(key) not in self._later(collection, key) and (collection, key) not in self.undone:
                return key
        return None

    def end(self) -> None:
        """The history is over: everything was streamed, and what was finished is complete."""
        log = self.replica_set.log
        while self.position < len(log) and log[self.position].op == "noop":
            self._pass()  # an idle primary may have written it when the job had ended
        if self.position != len(self.replica_set.log):
            raise Violation(f"the stream ended at entry {self.position} of {len(self.replica_set.log)}")
        if self.untold:
            raise Violation(f"{self.untold[0]} lacks changes, and nobody was told")
        for collection, scope in (*self._due, *((collection, None) for collection in sorted(self.whole))):
            self._check_copy(collection, scope)


def _document(text: str | None) -> Document | None:
    """A document of an event; an update whose document is gone has none."""
    found: Document | None = None if text is None else orjson.loads(text)
    return found

"""The judge of PostgreSQL's world: the sink's events held against the server's log and its rows.

It follows the log entry by entry as the events come out of the sink, and so knows each table at the place
that the stream has reached. Every entry must come once, in order, with what the log has of it. A READ must
show the row exactly as it stands at that place. A consumer's copy is made from the events alone: it knows a
row by `id`, or by `code` where the log has no `id` of it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.simulation.copies import ALL, Change, Copies, CopyRead
from tests.simulation.differences import differences
from tests.simulation.postgres.cluster import UNCHANGED
from tests.simulation.postgres.tables import SIGNALS, B, P, T, U
from tests.simulation.record_sink import shown
from tests.simulation.source import in_scope
from tests.simulation.turns import Turns
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.model import CollectionId, Scope
    from tests.simulation.copies import Finished
    from tests.simulation.postgres.cluster import Cluster, Entry
    from tests.simulation.postgres.tables import Values
    from tests.simulation.record_sink import Record

PLACEHOLDER = "__debezium_unavailable_value"
_KEYED = (T, U, P)
_NO_ROW = -(10**9)


class PostgresOracle(Turns):
    """Judges one history. `position` is how many entries of the log were sent.

    `gapped` are tables of which the log lacks changes; `told` are those that the job has said so of. The key
    of `unkeyed` tables was changed where the log does not show it: they may be `skipped`, if that is told.
    Consumers must know rows of `by_code` tables by `code`. The large value of `joined` rows is known only to
    consumers that take it from the row of the key before.
    """

    def __init__(self, cluster: Cluster, *, knows: bool) -> None:
        super().__init__(knows=knows)
        self.cluster = cluster
        self.rows: dict[CollectionId, dict[int, Values]] = {collection: {} for collection in _KEYED}
        self.copies = Copies()
        self.consumer: dict[CollectionId, dict[int, Values]] = {collection: {} for collection in _KEYED}
        self.whole: set[CollectionId] = set()
        self.told: set[CollectionId] = set()
        self.skipped: set[CollectionId] = set()
        self.unkeyed: set[CollectionId] = set()
        self.joined: set[tuple[CollectionId, int]] = set()
        self.by_code: set[CollectionId] = set()
        self._gapped_before: set[CollectionId] = set()
        self.reads = self.begun_at = 0
        self.started = False
        self.asked_for: Callable[[CollectionId, Any], bool] = lambda _collection, _key: True
        self.snapshots_of: Callable[[CollectionId], int] = lambda _collection: 1

    def begin(self, at: int) -> None:
        """The log begins here: what precedes it is known to snapshots alone."""
        self.begun_at = at
        self._replay(at)
        for table in _KEYED:
            self.consumer[table].clear()

    def begin_anew(self, at: int) -> None:
        """A new log begins here. Consumers keep what they have, and repairs make up for what they lack."""
        self._gapped_before.clear()
        self.skipped.clear()
        self.whole.clear()
        self.begun_at = at
        self._replay(at)

    def follow(self, cluster: Cluster) -> None:
        """Judge by an older copy of the server, which goes on in its place."""
        # What was read of these tables showed changes that are in no log now.
        self._gapped_before |= self.gapped
        self.cluster = cluster

    @property
    def gapped(self) -> set[CollectionId]:
        """The tables of which the log lacks changes since it was begun."""
        return (
            self._gapped_before
            | self.skipped
            | {entry.collection for entry in self.cluster.unpublished if entry.at >= self.begun_at}
        )

    @property
    def unjudged(self) -> set[CollectionId]:
        """The tables of which it can't be said what consumers should have."""
        return self.gapped | self.unkeyed | self.by_code

    def rows_of(self, collection: CollectionId) -> Mapping[int, Values]:
        """The rows of a table at the place that the stream has reached."""
        return self.rows[collection]

    def differences(self) -> dict[CollectionId, dict[str, int]]:
        """How many rows consumers lack, have otherwise, and have alone, for each table that is judged.

        They know rows by their keys alone, and so lack the large values of `joined` rows.
        """
        found = {}
        for table in (table for table in _KEYED if table not in self.unjudged):
            lacking = {key for collection, key in self.joined if collection == table}
            found[table] = differences(self.rows[table], self.consumer[table], lacking)
        return found

    @property
    def untold(self) -> set[CollectionId]:
        """The tables that were streamed, lack changes, and of which nobody was told so."""
        return (self.cluster.missed | self.skipped) - self.told - {SIGNALS}

    # Events.

    def turn(self, number: int, events: Sequence[Record]) -> None:
        """Take in the events of a turn, or of an attempt at one."""
        again = self.starts(number)
        if again is not None:
            self._replay(again)
        read: Counter[Any] = Counter()
        left = list(reversed(events))
        while left:
            event = left.pop()
            if event.op == "r":
                self._read(event, number, read)
                continue
            while (entry := self._next(event)).collection in self.unkeyed and not _tells(event, entry):
                # The table was set aside: its key changed somewhere in the log, and nobody knows where.
                self.skipped.add(entry.collection)
                self._apply(entry)
                self.position += 1
            self._entry(entry, event, left, number)

    def pass_over(self, aside: set[CollectionId], lsn: int) -> None:
        """Entries of tables that are set aside were passed up to an LSN, without events."""
        log = self.cluster.log
        while self.position < len(log):
            entry = log[self.position]
            if entry.collection not in aside or entry.commit_lsn >= lsn:
                return
            self.skipped.add(entry.collection)
            self._apply(entry)
            self.position += 1

    def _next(self, event: Record) -> Entry:
        if self.position >= len(self.cluster.log):
            raise Violation(f"turn {self.last_turn}: the log ends, sent was {shown(event)}")
        return self.cluster.log[self.position]

    def _replay(self, upto: int) -> None:
        self.rows = {collection: {} for collection in _KEYED}
        # What was changed before the log began is in the rows that are read, whether it was published or not.
        unlogged = [entry for entry in self.cluster.unpublished if entry.at < self.begun_at]
        past = list(heapq.merge(unlogged, self.cluster.log[:upto], key=lambda entry: entry.at))
        for entry in past:
            if entry.collection != B:
                self._apply(entry)
        self.copies.again(self.last_turn, map(_change, (entry for entry in past if entry.collection == B)))
        self.position = upto

    def _apply(self, entry: Entry) -> None:
        if entry.collection == B:
            self.copies.apply(_change(entry))
        elif entry.collection != SIGNALS:
            rows = self.rows[entry.collection]
            if entry.op == "t":
                rows.clear()
            if entry.before:
                rows.pop(entry.before["id"], None)
            if entry.whole:
                rows[entry.whole["id"]] = entry.whole

    def _entry(self, entry: Entry, event: Record, left: list[Record], turn: int) -> None:
        said = shown(event)
        place = (event.value["source"]["lsn"], event.value["source"]["txId"], event.collection)
        if place != (entry.lsn, entry.xid, entry.collection):
            raise Violation(
                f"turn {turn}: the log goes on with entry {entry.at} ({entry.op} {entry.collection.parts[-1]}"
                f" at {entry.lsn} of {entry.xid}), sent was {said} at {place[0]} of {place[1]}"
            )
        moved: Values = {}
        if event.op == "d" and entry.op == "u":
            # The headers of both events say that they are one row; so a consumer may keep its large value.
            moved = self._consume(event, entry)
            if not left or left[-1].op != "c" or left[-1].value["source"]["lsn"] != entry.lsn:
                raise Violation(f"turn {turn}: entry {entry.at} was sent as a deletion alone: {said}")
            event = left.pop()
        elif entry.mark and entry.op == "u" and _moved(entry):
            raise Violation(f"turn {turn}: entry {entry.at} changes a key, sent was {said} alone")
        elif event.op != entry.op:
            raise Violation(f"turn {turn}: entry {entry.at} is {entry.op}, sent was {said}")
        new = entry.whole if entry.mark == "O" else entry.new  # the old row has what the new one leaves out
        _check(event.value["after"] if entry.new else None, new, f"turn {turn}: entry {entry.at}")
        if entry.mark == "O":
            before = event.value["before"]
            if event.op != "c" or entry.op == "c":
                _check(before, entry.old, f"turn {turn}: the old row of entry {entry.at}")
        self._consume(event, entry, moved)
        self._apply(entry)
        self.position += 1

    def _consume(self, event: Record, entry: Entry, moved: Values | None = None) -> Values:
        """What a consumer does with an event, by what the event says; returns the row that it removed."""
        if event.collection in {B, SIGNALS}:
            return {}
        copy = self.consumer[event.collection]
        if event.op == "t":
            copy.clear()
            self.joined = {row for row in self.joined if row[0] != event.collection}
            return {}
        if entry.identity == "i":
            self.by_code.add(event.collection)
        known = {**(event.value["before"] or {}), **_known(event.key)}
        if event.op == "d":
            if entry.identity == "i":
                known.pop("id", None)  # the log has `code` alone, and the event a default
            return copy.pop(_id_of(copy, known), {})
        after = event.value["after"]
        own = copy.pop(after["id"], {})
        before = own or moved or {}
        if not before and entry.identity == "i":
            # The row is known by `code`: it may have had another `id`.
            before = copy.pop(_id_of(copy, {"code": after["code"]}), {})
        row = event.collection, after["id"]
        if after["large"] == PLACEHOLDER and "large" in before:
            after = {**after, "large": before["large"]}
            if not own:
                self.joined.add(row)
        elif after["large"] != PLACEHOLDER:
            self.joined.discard(row)
        copy[after["id"]] = after
        return {}

    def _read(self, event: Record, turn: int, read: Counter[Any]) -> None:
        self.reads += 1
        collection, after = event.collection, event.value["after"]
        if collection == SIGNALS:
            return  # an initial snapshot reads the signal table, too
        key = after["n"] if collection == B else after["id"]
        if not self.asked_for(collection, key):
            raise Violation(f"turn {turn}: no signal asked for {shown(event)}")
        if collection in self.gapped:
            if collection != B:  # a log that begins anew finds it in the copy
                self.consumer[collection][key] = after
            return
        if collection == B:
            self.copies.read(CopyRead(turn, ALL, key), read, self.snapshots_of(collection))
            return
        row = self.rows[collection].get(key)
        if row != after:
            what = "is gone here" if row is None else f"is {row} here"
            raise Violation(f"turn {turn}: {shown(event)}, and the row {what} (entry {self.position})")
        copy = self.consumer[collection]
        if collection in self.by_code:
            copy.pop(_id_of(copy, {"code": after["code"]}), None)
        copy[key] = after
        self.joined.discard((collection, key))

    # Answers.

    def finished(self, collection: CollectionId, finished: Finished, scope: Scope | None = None) -> None:
        """A snapshot was answered as finished."""
        if collection in self.gapped:
            return
        if collection == B:
            self.copies.finished(finished, lambda key: in_scope(scope, key))
            return
        if scope is None:
            self.whole.add(collection)
        self._check_copy(collection, scope)

    def _check_copy(self, collection: CollectionId, scope: Scope | None = None) -> None:
        copy, rows = self.consumer[collection], self.rows[collection]
        for key in sorted(copy.keys() | rows.keys()):
            if copy.get(key) != rows.get(key) and in_scope(scope, key):
                raise Violation(
                    f"the snapshot of {collection.parts[-1]} is finished; row {key} is {rows.get(key)},"
                    f" consumers have {copy.get(key)}"
                )

    def end(self) -> None:
        """The history is over: everything was streamed, and what was finished is complete."""
        if self.position != len(self.cluster.log):
            raise Violation(f"the stream ended at entry {self.position} of {len(self.cluster.log)}")
        if self.untold:
            raise Violation(f"{min(self.untold)} lacks changes, and nobody was told")
        for collection in self.whole - self.gapped:
            self._check_copy(collection)


def _change(entry: Entry) -> Change:
    old = entry.before["n"] if entry.before else None
    new = entry.whole["n"] if entry.whole else None
    return Change(entry.at, entry.xid, old, new, entry.op == "t", entry.hidden)


def _tells(event: Record, entry: Entry) -> bool:
    """Whether an event tells of an entry."""
    source = event.value["source"]
    return (source["lsn"], source["txId"], event.collection) == (entry.lsn, entry.xid, entry.collection)


def _moved(entry: Entry) -> bool:
    """Whether the log shows that a row's `id` was changed."""
    old, new = entry.old or {}, entry.new or {}
    return entry.collection in _KEYED and old.get("id") is not None and old["id"] != new["id"]


def _known(key: Mapping[str, Any] | None) -> Values:
    return {name: value for name, value in (key or {}).items() if value is not None}


def _id_of(copy: Mapping[int, Values], known: Values) -> int:
    """The row that an event is about, as far as it tells; `_NO_ROW` for none."""
    if "id" in known:
        return int(known["id"]) if known["id"] in copy else _NO_ROW
    code = known.get("code")
    return next((key for key, row in copy.items() if code and row["code"] == code), _NO_ROW)


def _check(found: Values | None, wanted: Values | None, what: str) -> None:
    if wanted is None or found is None:
        if found is not wanted:
            raise Violation(f"{what} is {wanted}, sent was {found}")
        return
    for name, value in wanted.items():
        if found.get(name) != (PLACEHOLDER if value == UNCHANGED else value):
            raise Violation(f"{what}: {name} is {value!r}, sent was {found.get(name)!r}")

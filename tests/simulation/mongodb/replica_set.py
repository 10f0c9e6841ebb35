"""A simulated replica set: an oplog by cluster times, its majority, and each collection as of each time.

    written     the primary has an entry in its oplog, and shows it to whoever reads what is newest
    majority    change streams and reads as of a time see an entry only once the majority has it
    delivered   how much of that the network has let through to the stream

Whoever reads as of a time that the majority has not reached waits for it. An election may undo what the
majority lacks: those entries were in no stream. Cluster times never go back.

    t, u    captured, under integer `_id`s
    c       captured and capped: the server can't read it as of a time, and deletes nothing of it
    w       not captured: whole collections are written there and renamed onto others, as `$out` does
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DATABASE = "db"
T, U, C, W = (CollectionId((DATABASE, name)) for name in "tucw")
SIGNALS = CollectionId((DATABASE, "signals"))
TABLES = (T, U, C)
NAMES = {"t": T, "u": U, "c": C, "w": W}
Document: TypeAlias = "dict[str, Any]"
Time: TypeAlias = "tuple[int, int]"
OPERATIONS = {"insert": "c", "update": "u", "replace": "u", "delete": "d"}
HEAVY, HUGE = 10, 16
"""What a large document counts, in MB. An event may have 16, and has one besides its documents."""
LIMIT = 16


class Entry(NamedTuple):
    """An event's entry in the oplog. `at` is its place; those of a transaction share a time, by `number`.

    `before` and `after` are the document; `changed` the fields that an update wrote. `to` is a rename's
    target. `text` is the resume token's text.
    """

    at: int
    time: Time
    number: int
    op: str
    collection: CollectionId
    before: Document | None = None
    after: Document | None = None
    changed: Mapping[str, Any] | None = None
    to: CollectionId | None = None
    transaction: int = 0
    term: int = 1

    @property
    def key(self) -> Any:
        """The `_id`."""
        return (self.after or self.before or {}).get("_id")

    @property
    def told(self) -> bool:
        """Whether it becomes an event of ours."""
        return self.op in OPERATIONS and (self.collection in TABLES or self.collection == SIGNALS)

    @property
    def text(self) -> str:
        """Its resume token."""
        # What was written under another primary is another event, even if it had the same time.
        return high_water_mark(self.time) + f"{self.term:02X}{self.number:04X}"


def high_water_mark(time: Time) -> str:
    """The text of a resume token that precedes all events of its time."""
    return "82{:08X}{:08X}29".format(*time)


def is_mark(text: str) -> bool:
    """Whether a token is of no event."""
    return len(text) == len(high_water_mark((0, 0)))


@dataclass(frozen=True, slots=True)
class Stored:
    """A collection as of a time. `uuid` changes when it is made anew."""

    uuid: int
    docs: Mapping[Any, Document]
    capped: bool = False


_NONE = Stored(0, {})
State: TypeAlias = "Mapping[CollectionId, Stored]"


@dataclass(slots=True)
class ReplicaSet:
    """The primary, and what the majority has of its oplog. `now_s` is its clock.

    `states` has the collections before each entry, and the present ones last. `kept` is the first entry that
    the oplog still has.
    """

    now_s: Callable[[], float]
    log: list[Entry] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    open: dict[int, list[tuple[Any, ...]]] = field(default_factory=dict)
    majority: int = 0
    delivered: int = 0
    kept: int = 0
    clock: Time = (0, 0)
    serial: int = 0
    uuids: int = 0
    term: int = 1
    identity: str = "5f0000000000000000000001"

    def __post_init__(self) -> None:
        if not self.states:
            self.states.append({name: Stored(self._uuid(), {}, name == C) for name in (*TABLES, SIGNALS)})

    def _uuid(self) -> int:
        self.uuids += 1
        return self.uuids

    # What is there.

    @property
    def newest(self) -> State:
        """The collections as the primary has them."""
        return self.states[-1]

    @property
    def streamable(self) -> int:
        """How many entries a change stream may send now; it has a transaction as a whole."""
        end = min(self.majority, self.delivered)
        while 0 < end < len(self.log) and self.log[end].time == self.log[end - 1].time:
            end -= 1
        return end

    @property
    def hidden(self) -> list[int]:
        """The entries that the majority lacks."""
        return list(range(self.majority, len(self.log)))

    def show(self, at: int) -> None:
        """Let the majority have an entry, and what precedes it. A transaction comes as a whole."""
        self.majority = max(self.majority, self.behind(self.log[at].time))

    def behind(self, time: Time) -> int:
        """How many entries there are up to a time."""
        return bisect_right(self.log, time, key=lambda entry: entry.time)

    def as_of(self, time: Time) -> State:
        """The collections as of a time, which whoever asks waits for."""
        end = self.behind(time)
        self.majority = max(self.majority, end)
        return self.states[end]

    def since(self, time: Time) -> State:
        """What the majority has, once it has come to a time."""
        self.majority = max(self.majority, self.behind(time))
        return self.states[self.majority]

    # What is written.

    def _tick(self) -> Time:
        seconds = int(self.now_s())
        self.clock = (seconds, 1) if seconds > self.clock[0] else (self.clock[0], self.clock[1] + 1)
        return self.clock

    def _write(self, entries: list[Entry], *, visible: bool) -> None:
        """Append the entries of one transaction or operation, under a time of their own."""
        time, first = self._tick(), len(self.log)
        for number, entry in enumerate(entries, 1):
            made = entry._replace(at=len(self.log), time=time, number=number, term=self.term)
            self.log.append(made)
            self.states.append(self._after(self.newest, made))
        if visible or self.majority > first:
            self.majority = len(self.log)

    def noop(self) -> None:
        """What an idle primary writes every ten seconds, and a new one first."""
        self._write([Entry(0, (0, 0), 0, "noop", SIGNALS)], visible=True)

    def begin(self, slot: int) -> int:
        """Begin a transaction, unless one is in progress under this number."""
        self.open.setdefault(slot, [])
        return slot

    def change(self, slot: int, collection: CollectionId, what: str, *where: int) -> None:
        """Note what a transaction does; whether it can is seen when it commits."""
        self.open[slot].append((collection, what, *where))

    def commit(self, slot: int, *, visible: bool) -> int:
        """Write a transaction; returns the number of its entries. Documents are changed once in it."""
        changes, entries = self.open.pop(slot, []), list[Entry]()
        touched = set[tuple[CollectionId, Any]]()
        for collection, what, *where in changes:
            entry = self._entry(collection, what, *where)
            if entry is not None and (collection, entry.key) not in touched:
                touched.add((collection, entry.key))
                entries.append(entry)
        if len(entries) > 1:
            # A transaction writes to no capped collection.
            entries = [entry for entry in entries if entry.collection != C]
        if entries:
            self.serial += 1
            together = self.serial if len(entries) > 1 else 0
            self._write([entry._replace(transaction=together) for entry in entries], visible=visible)
        return len(entries)

    def abort(self, slot: int) -> None:
        """Undo a transaction in progress."""
        self.open.pop(slot, None)

    def _entry(self, collection: CollectionId, what: str, *where: int) -> Entry | None:
        """One change of a document, if the collection allows it."""
        self.serial += 1
        key, stored = where[0], self.newest.get(collection, _NONE)
        before = stored.docs.get(key)
        made = Entry(0, (0, 0), 0, "", collection, before)
        value, large = f"v{self.serial}", f"L{self.serial}"
        if before is None:
            if what not in {"put", "heavy", "huge"}:
                return None
            fresh = {"_id": key, "value": value, "large": large, "size": _size(what, collection)}
            return made._replace(op="insert", after=fresh)
        match what:
            case "delete" if not stored.capped:
                return made._replace(op="delete")
            case "put" | "heavy" | "huge" if not stored.capped:
                fresh = {"_id": key, "value": value, "large": large, "size": _size(what, collection)}
                return made._replace(op="replace", after=fresh)
            case "grow":
                changed: Document = {"value": value, "large": large}
            case "touch":
                changed = {"value": value}
            case _:
                return None
        return made._replace(op="update", after={**before, **changed}, changed=changed)

    def signal(self, row: Document) -> Entry:
        """Insert a document into the signal collection."""
        self._write([Entry(0, (0, 0), 0, "insert", SIGNALS, after=row)], visible=True)
        return self.log[-1]

    # Collections.

    def drop(self, collection: CollectionId, *, visible: bool) -> None:
        """Drop a collection, if there is one. The next document that comes makes another."""
        if collection in self.newest:
            self._write([Entry(0, (0, 0), 0, "drop", collection)], visible=visible)

    def rename(self, collection: CollectionId, to: CollectionId, *, visible: bool) -> None:
        """Rename a collection, over another one if there is one of that name."""
        if collection in self.newest and collection != to:
            self._write([Entry(0, (0, 0), 0, "rename", collection, to=to)], visible=visible)

    def out(self, to: CollectionId, *, visible: bool) -> None:
        """Write a collection anew beside the old one, and rename it over that: what `$out` does."""
        self.serial += 1
        self.drop(W, visible=visible)
        for key, document in sorted(self.newest.get(to, _NONE).docs.items()):
            if key % 3 != self.serial % 3:
                fresh = {**document, "value": f"o{self.serial}-{key}"}
                self._write([Entry(0, (0, 0), 0, "insert", W, after=fresh)], visible=visible)
        self.rename(W, to, visible=visible)

    def drop_database(self, *, visible: bool) -> None:
        """Drop all collections, then the database."""
        for name in sorted(self.newest):
            self.drop(name, visible=visible)
        self._write([Entry(0, (0, 0), 0, "dropDatabase", SIGNALS)], visible=visible)

    def _after(self, state: State, entry: Entry) -> State:
        """The collections behind an entry."""
        if entry.op in {"noop", "dropDatabase"}:
            return state
        if entry.op in {"drop", "rename"}:
            left = {name: stored for name, stored in state.items() if name != entry.collection}
            return left if entry.to is None else {**left, entry.to: state[entry.collection]}
        stored = state.get(entry.collection) or Stored(self._uuid(), {})
        docs = dict(stored.docs)
        if entry.after is None:
            docs.pop(entry.key, None)
        else:
            docs[entry.key] = entry.after
        return {**state, entry.collection: replace(stored, docs=docs)}

    # What happens to the log.

    def elect(self) -> int:
        """Elect a member that has what the majority has. Returns how many entries are undone."""
        undone = len(self.log) - self.majority
        del self.log[self.majority :], self.states[self.majority + 1 :]
        self.open.clear()
        self.term += 1
        self.noop()
        return undone

    def take_over(self, before: ReplicaSet) -> None:
        """Go on in the place of the one of which this is an older copy. The clock has gone on."""
        self.serial, self.uuids = before.serial, before.uuids
        self.open.clear()
        self.term = before.term + 1
        self.majority = self.delivered = len(self.log)
        self.noop()


def _size(what: str, collection: CollectionId) -> int:
    return 0 if collection in {C, SIGNALS} else {"heavy": HEAVY, "huge": HUGE}.get(what, 0)

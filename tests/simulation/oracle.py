"""The judge: what it was told by the sink, held against the database. Knows nothing of the engine.

It follows the log as its entries come out of the sink, and so knows each table at the place that the stream
has reached. Every entry must come once and in order, READ events in between. A READ must show the row exactly
as it stands at that place: an older row would follow a newer change, a newer one would precede a change that
it contains. It also keeps a consumer's copy, made from the events alone.

Of the table without a key it judges counts (`copies.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.copies import Change, Copies, CopyRead, Finished
from tests.simulation.database import SIGNALS, B, T, U, apply
from tests.simulation.sink import Read
from tests.simulation.source import in_scope
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.model import CollectionId, Scope
    from tests.simulation.database import Database, Entry, Key, Rows
    from tests.simulation.sink import Event


@dataclass(slots=True)
class Oracle:
    """Judges one history.

    `position` is how far the stream has come, `begins` where each turn began, `sent` how often it was sent;
    `pardons` counts crashes and failures, each of which lets one turn be sent again. `whole` are the tables
    of which a snapshot was finished, and whose copy must therefore equal them. `furthest` is how far
    consumers have heard the stream: after a turn that was torn they may have what comes later, and a table
    that is finished meanwhile is `due` until then. `asked_for` says whether any signal asked for a row.
    """

    database: Database
    knows: bool
    position: int = 0
    started: bool = False
    rows: dict[CollectionId, Rows] = field(default_factory=lambda: {T: {}, U: {}})
    copies: Copies = field(default_factory=Copies)
    consumer: dict[CollectionId, Rows] = field(default_factory=lambda: {T: {}, U: {}})
    touched: dict[CollectionId, set[Key]] = field(default_factory=lambda: {T: set(), U: set()})
    begins: dict[int, int] = field(default_factory=dict)
    last_turn: int = 0
    pardons: int = 0
    resent: int = 0
    reads: int = 0
    whole: set[CollectionId] = field(default_factory=set)
    due: list[tuple[CollectionId, Scope | None]] = field(default_factory=list)
    furthest: int = 0
    first: int = 0
    asked_for: Callable[[CollectionId, Key], bool] = lambda _collection, _key: True

    def begin(self, at: int) -> None:
        """The log begins here: what precedes it is known to snapshots alone."""
        self.position = self.first = 0
        for entry in self.database.log[:at]:
            self._apply(entry)
        self.position = self.first = self.furthest = at
        for table in (T, U):
            self.consumer[table].clear()
            self.touched[table].clear()

    # Events.

    def turn(self, number: int, events: Sequence[Event]) -> None:
        """Take in the events of a turn, or of an attempt at one."""
        if number <= self.last_turn:
            self._again(number)
        elif number != self.last_turn + 1 and self.last_turn:
            raise Violation(f"turn {number} was sent after turn {self.last_turn}")
        self.last_turn = number
        self.begins[number] = self.position
        read: Counter[Any] = Counter()
        for event in events:
            if isinstance(event, Read):
                self._read(event, read)
            else:
                self._entry(event, number)
        self._check_due()

    def read_beside(self, event: Read, read: Counter[Any]) -> None:
        """Take in a READ event that came beside the turns; `read` are those of the same run before it."""
        self._read(event, read, beside=True)

    def _again(self, number: int) -> None:
        if self.knows:
            raise Violation(f"turn {number} was sent again, and the sink knows what it has")
        self.resent += 1
        if self.resent > self.pardons:
            raise Violation(f"turn {number} was sent again without a crash")
        begin = self.begins.get(number)
        if begin is None or number < self.last_turn:
            raise Violation(f"turn {number} was sent again after turn {self.last_turn}")
        self.go_to(begin, number)

    def go_to(self, begin: int, again: int = -1) -> None:
        """The stream goes on from here. `again` is the number of a turn that is sent again, -1 for none."""
        self.rows = {T: {}, U: {}}
        past = self.database.log[:begin]
        for entry in past:
            if entry.collection in self.rows:
                apply(self.rows[entry.collection], entry)
        self.copies.again(again, map(self._change, (entry for entry in past if entry.collection == B)))
        self.position = begin

    def _apply(self, entry: Entry) -> None:
        if entry.collection == B:
            self.copies.apply(self._change(entry))
        elif entry.collection != SIGNALS:
            apply(self.rows[entry.collection], entry)

    def _change(self, entry: Entry) -> Change:
        hidden = self.database.hidden_at[entry.transaction]
        old = entry.old if entry.op in {"u", "d"} else None
        new = entry.key if entry.op in {"c", "u"} else None
        return Change(entry.at, entry.transaction, old, new, entry.op == "t", hidden)

    def _entry(self, event: Entry, turn: int) -> None:
        if event.at != self.position:
            raise Violation(f"turn {turn}: the log goes on with entry {self.position}, sent was {event.at}")
        self._apply(event)
        self.position += 1
        self.furthest = max(self.furthest, self.position)
        if event.collection in self.consumer:
            apply(self.consumer[event.collection], event)
            self.touched[event.collection] |= {event.old, event.key}

    def _read(self, event: Read, read: Counter[Any], *, beside: bool = False) -> None:
        self.reads += 1
        turn = self.last_turn
        if not self.asked_for(event.collection, event.key):
            raise Violation(f"turn {turn}: no signal asked for {event.collection.parts[-1]} {event.key}")
        if event.collection == B:
            self.copies.read(CopyRead(turn, event.ticket, event.key, beside), read)
            return
        row = self.rows[event.collection].get(event.key)
        name = f"{event.collection.parts[-1]} {event.key}"
        if row is None:
            raise Violation(f"turn {turn}: READ of {name} as of entry {event.at}, which is gone here")
        if event.at > row.at:
            raise Violation(
                f"turn {turn}: READ of {name} precedes entry {event.at}, which it contains (stream at"
                f" {self.position})"
            )
        if event.at < row.at:
            raise Violation(
                f"turn {turn}: READ of {name} as of entry {event.at} follows its newer change {row.at}"
            )
        if (event.value, event.large) != (row.value, row.large):
            raise Violation(f"turn {turn}: READ of {name} shows {event!r}, the row is {row!r}")
        self.consumer[event.collection][event.key] = row

    # Answers.

    def finished(self, collection: CollectionId, finished: Finished, scope: Scope | None = None) -> None:
        """A snapshot was answered as finished: everything in its scope was delivered."""
        if collection == B:
            self.copies.finished(finished, lambda key: in_scope(scope, key))
            return
        if scope is None:
            self.whole.add(collection)
        self.due.append((collection, scope))
        self._check_due()

    def _check_due(self) -> None:
        """Check what is finished, once consumers have heard nothing that comes again."""
        if self.position >= self.furthest:
            due, self.due = self.due, []
            for collection, scope in due:
                self._check_copy(collection, scope)

    def _check_copy(self, collection: CollectionId, scope: Scope | None = None) -> None:
        copy, rows = self.consumer[collection], self.rows[collection]
        name = collection.parts[-1]
        if copy == rows:
            return
        for key in sorted(copy.keys() | rows.keys(), key=str):
            if copy.get(key) != rows.get(key) and in_scope(scope, key):
                raise Violation(
                    f"the snapshot of {name} is finished; row {key} is {rows.get(key)!r}, consumers have"
                    f" {copy.get(key)!r}"
                )

    def end(self) -> None:
        """The history is over: everything was streamed, and what was finished is complete."""
        if self.position != len(self.database.log):
            raise Violation(f"the stream ended at entry {self.position} of {len(self.database.log)}")
        for collection in (T, U):
            if collection in self.whole:
                self._check_copy(collection)
            rows, copy = self.rows[collection], self.consumer[collection]
            for key in sorted(copy.keys() | (self.touched[collection] & rows.keys()), key=str):
                mine, its = copy.get(key), rows.get(key)
                if mine is None or its is None or (mine.at, mine.value) != (its.at, its.value):
                    raise Violation(
                        f"in the end row {key} of {collection.parts[-1]} is {its!r}, consumers have {mine!r}"
                    )

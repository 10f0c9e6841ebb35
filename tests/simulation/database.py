"""A simulated database: transactions in progress, a log in commit order, visibility in an order of its own.

    open        a transaction changes rows and locks them; nobody else sees anything
    committed   its entries are in the log; no snapshot shows them yet
    visible     every new snapshot shows it

A transaction that wants a row which another open one has locked is turned away. One that wants a row which a
committed, not yet visible transaction has changed waits for that one, as locks are held until then.

Three tables: `t` and `u` have keys, `b` has none, and some of its rows are alike. An update leaves a large
value out of the log if it did not change it. A row's `place` is what a table may be cut by besides its key:
the log says where a row is, not where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Sequence

T, U, B = (CollectionId(("public", name)) for name in ("t", "u", "b"))
SIGNALS = CollectionId(("public", "signals"))
TABLES = (T, U, B)
Key: TypeAlias = "int | str"
"""The key of a row of `t` or `u`; a whole row of `b`."""


class Entry(NamedTuple):
    """An entry of the log. `op` is c, u, d or t (truncate); `large` None: left out. `at` is its number."""

    at: int
    transaction: int
    collection: CollectionId
    op: str
    old: Key
    key: Key
    value: str
    large: str | None
    place: int


class Row(NamedTuple):
    """A row, with the number of the entry that changed it last."""

    at: int
    value: str
    large: str | None
    place: int


Rows: TypeAlias = "dict[Key, Row]"


def apply(rows: Rows, entry: Entry) -> None:
    """Apply an entry to a table with keys. A move that a consumer gets again finds the row where it went."""
    op = entry.op
    if op == "t":
        rows.clear()
        return
    before = None if op == "c" else rows.pop(entry.old, None)
    if op != "d":
        large = entry.large
        known = before or rows.get(entry.key)
        if large is None and known is not None:
            large = known.large
        rows[entry.key] = Row(entry.at, entry.value, large, entry.place)


def count(copies: dict[Key, int], entry: Entry) -> None:
    """Apply an entry to a table without a key, as counts of its rows."""
    if entry.op == "t":
        copies.clear()
        return
    if entry.op != "c":
        copies[entry.old] = copies.get(entry.old, 0) - 1
        if not copies[entry.old]:
            del copies[entry.old]
    if entry.op != "d":
        copies[entry.key] = copies.get(entry.key, 0) + 1


@dataclass(slots=True)
class Transaction:
    """A transaction in progress: its changes, and the rows that it has locked."""

    id: int
    changes: list[Entry] = field(default_factory=list)
    locks: set[tuple[CollectionId, Key]] = field(default_factory=set)
    emptied: set[CollectionId] = field(default_factory=set)


@dataclass(slots=True)
class Database:
    """The tables, their log and what snapshots show of it."""

    log: list[Entry] = field(default_factory=list)
    logs: dict[CollectionId, list[Entry]] = field(default_factory=lambda: {table: [] for table in TABLES})
    visible: set[int] = field(default_factory=set)
    hidden: list[int] = field(default_factory=list)
    open: dict[int, Transaction] = field(default_factory=dict)
    rows: dict[CollectionId, Rows] = field(default_factory=lambda: {T: {}, U: {}})
    copies: dict[Key, int] = field(default_factory=dict)
    writers: dict[tuple[CollectionId, Key], int] = field(default_factory=dict)
    delivered: int = 0
    acknowledged: int = 0
    slot: int | None = None
    transactions: int = 0
    serial: int = 0
    cuts: dict[CollectionId, str] = field(default_factory=lambda: {T: "key", U: "key", B: "row"})
    forms: dict[CollectionId, int] = field(default_factory=lambda: dict.fromkeys(TABLES, 0))
    hidden_at: dict[int, frozenset[int]] = field(default_factory=dict)
    """By transaction, those that were committed before it and not visible yet."""
    poisoned: dict[CollectionId, set[Key]] = field(default_factory=lambda: {table: set() for table in TABLES})

    # Transactions.

    def begin(self, slot: int) -> Transaction:
        """The transaction in progress of this slot; a new one if there is none."""
        if slot not in self.open:
            self.transactions += 1
            self.open[slot] = Transaction(self.transactions)
        return self.open[slot]

    def change(self, transaction: Transaction, collection: CollectionId, what: str, *where: int) -> bool:
        """Make one change, if the rows allow it and nobody else has locked them."""
        self.serial += 1
        if self._taken(transaction, collection):
            return False
        if collection == B:
            return self._change_copy(transaction, what, *where)
        return self._change_row(transaction, collection, what, *where)

    def _taken(self, transaction: Transaction, collection: CollectionId) -> bool:
        return any(collection in other.emptied for other in self.open.values() if other is not transaction)

    def _locked(self, transaction: Transaction, collection: CollectionId, *keys: Key) -> bool:
        wanted = {(collection, key) for key in keys}
        if any(wanted & other.locks for other in self.open.values() if other is not transaction):
            return True
        for lock in wanted:
            self.show(self.writers.get(lock, 0))
        transaction.locks |= wanted
        return False

    def _change_row(self, transaction: Transaction, collection: CollectionId, what: str, *where: int) -> bool:
        rows = self._seen(transaction, collection)
        if what == "truncate":
            return self._truncate(transaction, collection)
        key = where[0]
        value, large = f"v{self.serial}", f"L{self.serial}"
        sent: str | None
        row = rows.get(key)
        match what:
            case "put":
                op, old, new, sent, place = "c" if row is None else "u", key, key, large, key
                place = key if row is None else row.place
            case "delete" if row is not None:
                op, old, new, sent, place = "d", key, key, None, row.place
            case "touch" if row is not None:
                op, old, new, sent, place = "u", key, key, None, row.place
            case "move" if row is not None and where[1] not in rows:
                op, old, new, sent, place = "u", key, where[1], large, row.place
            case "slip" if row is not None and where[1] not in rows:
                op, old, new, sent, place = "u", key, where[1], None, row.place
            case "shift" if row is not None:
                op, old, new, sent, place = "u", key, key, None, where[1]
            case _:
                return False
        if self._locked(transaction, collection, old, new):
            return False
        transaction.changes.append(Entry(-1, transaction.id, collection, op, old, new, value, sent, place))
        return True

    def _truncate(self, transaction: Transaction, collection: CollectionId) -> bool:
        others = [other for other in self.open.values() if other is not transaction]
        if any(lock[0] == collection for other in others for lock in other.locks):
            return False
        for lock, writer in self.writers.items():
            if lock[0] == collection:
                self.show(writer)
        transaction.emptied.add(collection)
        transaction.changes.append(Entry(-1, transaction.id, collection, "t", 0, 0, "", None, 0))
        return True

    def _change_copy(self, transaction: Transaction, what: str, *where: int) -> bool:
        """A change of `b`: its rows are named by a few letters, so that some are alike."""
        if what == "truncate":
            return self._truncate(transaction, B)
        old, new = f"r{where[0] % 4}", f"r{where[-1] % 4}"
        if what == "put":
            transaction.changes.append(Entry(-1, transaction.id, B, "c", old, old, old, "", 0))
            transaction.locks.add((B, f"{old} {self.serial}"))
            return True
        if self._seen_copies(transaction).get(old, 0) < 1 or self._locked(transaction, B, old):
            return False
        self._show_a_copy(transaction, old)
        op = "d" if what == "delete" else "u"
        transaction.changes.append(Entry(-1, transaction.id, B, op, old, new, new, "", 0))
        return True

    def _show_a_copy(self, transaction: Transaction, key: Key) -> None:
        """Wait for whoever has added the copy that is to be changed."""
        while self.copies_shown(frozenset(self.visible), transaction.changes).get(key, 0) < 1:
            self.show(self.hidden[0])

    def _seen(self, transaction: Transaction, collection: CollectionId) -> Rows:
        rows = self.rows[collection]
        mine = [change for change in transaction.changes if change.collection == collection]
        if mine:
            rows = dict(rows)
            for change in mine:
                apply(rows, change)
        return rows

    def _seen_copies(self, transaction: Transaction) -> dict[Key, int]:
        copies = dict(self.copies)
        for change in transaction.changes:
            if change.collection == B:
                count(copies, change)
        return copies

    def commit(self, slot: int, *, visible: bool) -> int:
        """Append a transaction's entries to the log. Returns their number."""
        transaction = self.open.pop(slot, None)
        if transaction is None or not transaction.changes:
            return 0
        for change in transaction.changes:
            entry = change._replace(at=len(self.log))
            self.log.append(entry)
            if entry.collection in self.logs:
                self.logs[entry.collection].append(entry)
                self._apply(entry)
        self.hidden_at[transaction.id] = frozenset(self.hidden)
        self.hidden.append(transaction.id)
        if visible:
            self.show(transaction.id)
        return len(transaction.changes)

    def _apply(self, entry: Entry) -> None:
        if entry.collection == B:
            count(self.copies, entry)
        else:
            apply(self.rows[entry.collection], entry)
        for key in (entry.old, entry.key):
            self.writers[entry.collection, key] = entry.transaction

    def abort(self, slot: int) -> None:
        """Undo a transaction in progress."""
        self.open.pop(slot, None)

    def show(self, transaction: int) -> None:
        """Let new snapshots show a committed transaction."""
        if transaction in self.hidden:
            self.hidden.remove(transaction)
            self.visible.add(transaction)

    def signal(self, text: str, *, visible: bool) -> int:
        """Commit a row of the signal table; returns its place in the log."""
        self.transactions += 1
        at = len(self.log)
        self.log.append(Entry(at, self.transactions, SIGNALS, "c", at, at, text, "", 0))
        self.hidden.append(self.transactions)
        if visible:
            self.show(self.transactions)
        return at

    # Snapshots.

    def rows_shown(self, collection: CollectionId, shown: frozenset[int]) -> Rows:
        """A table with keys as a snapshot of these transactions shows it."""
        rows: Rows = {}
        for entry in self.logs[collection]:
            if entry.transaction in shown:
                apply(rows, entry)
        return rows

    def copies_shown(self, shown: frozenset[int], own: Sequence[Entry] = ()) -> dict[Key, int]:
        """The table without a key, likewise; to a transaction with changes of its own."""
        copies: dict[Key, int] = {}
        for entry in self.logs[B]:
            if entry.transaction in shown:
                count(copies, entry)
        for entry in own:
            if entry.collection == B:
                count(copies, entry)
        return copies

    def alter(self, collection: CollectionId) -> None:
        """Change a table's definition: its rows stay, but bounds of before mean nothing now."""
        self.forms[collection] += 1
        if collection != B:
            self.cuts[collection] = "place" if self.cuts[collection] == "key" else "key"

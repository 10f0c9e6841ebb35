"""A simulated PostgreSQL server: transactions, visibility, a log of commits, locks, slots, a publication.

    open        a transaction changes rows and locks them; nobody else sees anything
    committed   its commit record is in the log; no snapshot shows it yet, and its locks are still held
    visible     every new snapshot shows it

A transaction that wants a row which another open one has locked is turned away. One that wants a row whose
last writer is committed and not yet visible waits for that one. What is published is decided where the log
has the change, as the server decides it by the catalog of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adapters.postgres.server.visibility import Visibility
from tests.simulation.postgres.tables import (
    SIGNALS,
    B,
    P,
    SimTable,
    T,
    U,
    Version,
    keyed,
    keyless,
    signal_table,
)

if TYPE_CHECKING:
    from engine.model import CollectionId
    from tests.simulation.postgres.tables import Logged, Values

UNCHANGED = "\0unchanged"
"""A large value that the log leaves out."""
_FIRST_LSN = 0x1_0000_0000
_HEADERS = (24, 40)
_CYCLE = 1 << 32


class Entry(NamedTuple):
    """An entry of the log: `op` is c, u, d or t. `at` is its number among all that are published.

    `old` is what the log has of the old row (None: nothing), `mark` whether that is its key or all of it.
    `before` is the old row itself, `sequence` its place in its transaction. `hidden` are the transactions
    that were committed before it and not visible yet.
    """

    at: int
    xid: int
    lsn: int
    commit_lsn: int
    sequence: int
    collection: CollectionId
    op: str
    relation: Logged
    old: Values | None
    mark: str
    new: Values | None
    before: Values | None
    whole: Values | None
    identity: str = "d"
    hidden: tuple[int, ...] = ()


class Commit(NamedTuple):
    """A commit in the log, with the entries that are published."""

    xid: int
    lsn: int
    end: int
    time_us: int
    entries: tuple[Entry, ...]


@dataclass(slots=True)
class Change:
    """A change of an open transaction."""

    lsn: int
    table: SimTable
    op: str
    old: Values | None
    new: Values | None
    leaf: int = 0


@dataclass(slots=True)
class Transaction:
    """A transaction in progress."""

    id: int
    changes: list[Change] = field(default_factory=list)
    emptied: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Slot:
    """A replication slot. `reader` is the process that reads it, 0 for none."""

    confirmed: int
    reader: int = 0
    application: str = ""
    lost: bool = False


@dataclass(slots=True)
class Published:
    """A publication: its oid, the transaction that wrote it, and its tables' entries (oid, writer)."""

    oid: int
    xmin: int
    entries: dict[int, tuple[int, int]]


@dataclass(slots=True)
class Cluster:
    """The server. `lost` are published entries' numbers that a table should have had and the log lacks."""

    xid: int
    identities: dict[CollectionId, tuple[str, ...]]
    timeline: int = 1
    lsn: int = _FIRST_LSN
    flushed: int = _FIRST_LSN
    commits: list[Commit] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    hidden: list[int] = field(default_factory=list)
    open: dict[int, Transaction] = field(default_factory=dict)
    tables: dict[int, SimTable] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    publication: Published | None = None
    history: str = ""
    delivered: int = 0
    now_us: int = 1_700_000_000_000_000
    serial: int = 0
    oids: int = 16_400
    watched: set[int] = field(default_factory=set)
    """The tables that a job has noted as published."""
    missed: set[CollectionId] = field(default_factory=set)
    """Those of them of which the log then lacked changes."""
    locks: dict[int, set[int]] = field(default_factory=dict)
    """The tables that processes read, by process."""
    unpublished: list[Entry] = field(default_factory=list)
    """Changes that the publication left out, with how many entries the log had before each."""

    def __post_init__(self) -> None:
        for id_ in (T, U, B, P):
            table = keyless(self.oid()) if id_ == B else keyed(self.oid(), id_, self.identities[id_])
            self.tables[table.oid] = table
        signals = signal_table(self.oid())
        self.tables[signals.oid] = signals
        self.create_publication()

    def oid(self) -> int:
        """A new oid."""
        self.oids += 1
        return self.oids

    def named(self, id_: CollectionId) -> SimTable:
        """The table of this name."""
        return next(table for table in self.tables.values() if table.id == id_)

    # The log.

    def write(self, size: int = 64) -> int:
        """Append a record to the log; returns where it begins."""
        begin = self.lsn
        self.lsn += size
        if self.lsn % 8192 in _HEADERS:
            self.lsn += 32  # where the page's header would end
        return begin

    def next_xid(self) -> int:
        """The id of a new transaction. Of each cycle, the first three ids are not given to any."""
        found = self.xid
        self.xid += 1 if (self.xid + 1) % _CYCLE else 4
        return found

    def visibility(self) -> tuple[str, Visibility]:
        """What a snapshot shows that is taken now, as text and as a value."""
        running = sorted({*self.hidden, *(value.id for value in self.open.values())})
        xmin = running[0] if running else self.xid
        text = f"{xmin}:{self.xid}:{','.join(map(str, running))}"
        return text, Visibility(xmin, self.xid, np.array(running, np.int64))

    def show(self, xid: int) -> None:
        """Let new snapshots show a committed transaction."""
        if xid in self.hidden:
            self.hidden.remove(xid)

    # The publication.

    def create_publication(self) -> None:
        """Create the publication with all tables."""
        xid = self.next_xid()
        self.publication = Published(self.oid(), xid, {oid: (self.oid(), xid) for oid in self.tables})
        self._commit(Transaction(xid))

    def drop_publication(self) -> None:
        """Drop the publication."""
        self.publication = None
        self._commit(Transaction(self.next_xid()))

    def publish(self, table: SimTable, *, on: bool) -> None:
        """Add a table to the publication, or drop it from it."""
        if self.publication is None:
            return
        xid = self.next_xid()
        if on:
            self.publication.entries[table.oid] = (self.oid(), xid)
        else:
            self.publication.entries.pop(table.oid, None)
        self._commit(Transaction(xid))

    def publishes(self, table: SimTable) -> bool:
        """Whether the publication has a table."""
        return self.publication is not None and table.oid in self.publication.entries

    # Transactions.

    def begin(self, slot: int) -> Transaction:
        """The transaction in progress of this slot; a new one if there is none."""
        if slot not in self.open:
            self.open[slot] = Transaction(self.next_xid())
        return self.open[slot]

    def change(self, transaction: Transaction, id_: CollectionId, what: str, *where: int) -> bool:
        """Make one change, if the rows allow it and nobody else has locked them."""
        table = self.named(id_)
        self.serial += 1
        others = [value for value in self.open.values() if value is not transaction]
        if transaction.emptied or any(table.oid in other.emptied for other in others):
            return False
        if what == "truncate":
            return self._truncate(transaction, table, others)
        if not table.primary:
            return self._change_copy(transaction, table, what, *where)
        return self._change_row(transaction, table, what, *where)

    def _latest(self, transaction: Transaction, table: SimTable) -> list[Version]:
        return list(table.latest(transaction.id, [value.id for value in self.open.values()]))

    def _taken(self, transaction: Transaction, version: Version) -> bool:
        """Whether another open transaction has the row; waits for a writer who is not visible yet."""
        others = {value.id for value in self.open.values()} - {transaction.id}
        if version.xmax in others or version.xmin in others:
            return True
        self.show(version.xmin)
        return False

    def _change_row(self, transaction: Transaction, table: SimTable, what: str, *where: int) -> bool:
        rows = self._latest(transaction, table)
        id_, other = where[0], where[-1]
        row = next((row for row in rows if row.values["id"] == id_), None)
        value, large = f"v{self.serial}", f"L{self.serial}"
        if row is None:
            fresh = {"id": id_, "code": 100 + self.serial, "pos": id_, "value": value, "large": large}
            fresh |= {name: None for name in table.names if name not in fresh}
            return (
                what == "put"
                and not self._blocked(transaction, table, fresh)
                and self._insert(transaction, table, fresh)
            )
        if self._taken(transaction, row):
            return False
        new = dict(row.values)
        match what:
            case "delete":
                return self._update(transaction, table, row, None)
            case "put":
                new |= {"value": value, "large": large}
            case "touch":
                new |= {"value": value}
            case "recode":
                new |= {"value": value, "code": 100 + self.serial}
            case "shift":
                new |= {"value": value, "pos": other}
            case "move" | "slip":
                if self._blocked(transaction, table, {**new, "id": other}):
                    return False
                new |= {"value": value, "id": other} | ({"large": large} if what == "move" else {})
        return self._update(transaction, table, row, new)

    def _blocked(self, transaction: Transaction, table: SimTable, values: Values) -> bool:
        """Whether a key is in use, or may be by somebody who has not ended."""
        for version in table.versions:
            if version.values["id"] != values["id"]:
                continue
            running = {value.id for value in self.open.values()} - {transaction.id}
            if version.xmin in running or version.xmax in running:
                return True
            if not version.xmax:
                return True
            self.show(version.xmax)  # the index's check waits for whoever removed the row
        return False

    def _insert(self, transaction: Transaction, table: SimTable, values: Values) -> bool:
        lsn = self.write()
        table.add(values, transaction.id)
        transaction.changes.append(Change(lsn, table, "c", None, values, table.leaf(values)))
        return True

    def _update(self, transaction: Transaction, table: SimTable, row: Version, values: Values | None) -> bool:
        row.xmax = transaction.id
        before = table.leaf(row.values) if table.partitioned else 0
        if values is None:
            transaction.changes.append(Change(self.write(), table, "d", row.values, None, before))
            return True
        table.add(values, transaction.id)
        after = table.leaf(values) if table.partitioned else 0
        if before != after:
            # A row that goes to another partition is deleted here and inserted there.
            transaction.changes.append(Change(self.write(), table, "d", row.values, None, before))
            transaction.changes.append(Change(self.write(), table, "c", None, values, after))
        else:
            transaction.changes.append(Change(self.write(), table, "u", row.values, values, before))
        return True

    def _change_copy(self, transaction: Transaction, table: SimTable, what: str, *where: int) -> bool:
        """A change of `b`: its rows are named by a few letters, so that some are alike."""
        old, new = where[0] % 4, where[-1] % 4
        if what in {"put", "recode", "shift"}:
            return self._insert(transaction, table, {"name": f"r{old}", "n": old})
        for row in self._latest(transaction, table):
            if row.values["n"] == old and not self._taken(transaction, row):
                values = None if what == "delete" else {"name": f"r{new}", "n": new}
                return self._update(transaction, table, row, values)
        return False

    def _truncate(self, transaction: Transaction, table: SimTable, others: list[Transaction]) -> bool:
        """Empty a table, in a transaction that does nothing else; the rows go when it commits."""
        if transaction.changes or any(change.table is table for other in others for change in other.changes):
            return False
        if self.locked(table):
            return False
        self.settle_writers(table)
        transaction.emptied.add(table.oid)
        transaction.changes.append(Change(self.write(), table, "t", None, None))
        return True

    def locked(self, table: SimTable) -> set[int]:
        """The processes that read a table, and so keep others from changing its definition."""
        return {pid for pid, oids in self.locks.items() if table.oid in oids}

    def settle_writers(self, table: SimTable) -> None:
        """Wait for whoever has written to a table and is not visible yet."""
        for version in table.versions:
            self.show(version.xmin)
            self.show(version.xmax)
        for commit in self.commits:
            if commit.xid in self.hidden and any(entry.collection == table.id for entry in commit.entries):
                self.show(commit.xid)

    def commit(self, slot: int, *, visible: bool) -> int:
        """Commit a transaction. Returns the number of its entries."""
        transaction = self.open.pop(slot, None)
        if transaction is None or not transaction.changes:
            return 0
        self._commit(transaction, visible=visible)
        return len(transaction.changes)

    def _commit(self, transaction: Transaction, *, visible: bool = True) -> Commit:
        self.now_us += 1000
        lsn = self.write(48)
        entries: list[Entry] = []
        hidden = tuple(xid % _CYCLE for xid in self.hidden)
        for change in transaction.changes:
            if change.op == "t":
                # Another file: the rows are gone for every snapshot, whatever its age.
                change.table.versions, change.table.file = [], self.oid()
                change.table.rewritten = transaction.id
            entry = entry_of(change, len(self.log), transaction.id % _CYCLE, lsn, len(entries))
            if self.publishes(change.table):
                entry = entry._replace(hidden=hidden)
                entries.append(entry)
                self.log.append(entry)
            else:
                self.unpublished.append(entry)
                if change.table.oid in self.watched:
                    self.missed.add(change.table.id)
        commit = Commit(transaction.id, lsn, self.lsn, self.now_us, tuple(entries))
        self.commits.append(commit)
        self.flushed = self.lsn
        if not visible:
            self.hidden.append(transaction.id)
        return commit

    def abort(self, slot: int) -> None:
        """Undo a transaction in progress."""
        transaction = self.open.pop(slot, None)
        if transaction is None:
            return
        for table in self.tables.values():
            table.versions = [version for version in table.versions if version.xmin != transaction.id]
            for version in table.versions:
                if version.xmax == transaction.id:
                    version.xmax = 0

    def insert_signal(self, row: tuple[Any, ...], *, visible: bool) -> Commit:
        """Commit a row of the signal table."""
        table = self.named(SIGNALS)
        transaction = Transaction(self.next_xid())
        self._insert(transaction, table, dict(zip(("id", "type", "data"), row, strict=True)))
        return self._commit(transaction, visible=visible)

    def flush_log(self) -> None:
        """Commit an empty transaction."""
        self._commit(Transaction(self.next_xid()))

    def take_over(self, before: Cluster, *, promoted: bool) -> None:
        """Go on in the place of the server of which this is an older copy: a standby or a backup."""
        self.now_us, self.serial = before.now_us + 1_000_000, before.serial
        self.locks, self.watched = {}, before.watched
        self.oids = before.oids
        for xid in tuple(self.hidden):
            self.show(xid)  # whatever is replayed is visible
        for slot in self.slots.values():
            slot.reader, slot.application = 0, ""
        if promoted:
            self.history += (
                f"{self.timeline}\t{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}\tno recovery target\n"
            )
            self.timeline += 1
            self.write()
            self.flushed = self.lsn

    # Definitions.

    def alter(self, table: SimTable, how: str) -> None:
        """Change a table's definition. Nobody else has a lock on it."""
        self.settle_writers(table)
        xid = self.next_xid()
        match how:
            case "rewrite":
                self._rewrite(table, xid)
            case "identity" if table.primary and not table.partitioned:
                table.identities = ("f" if table.identities[0] == "d" else "d",)
            case "key" if table.primary and not table.partitioned:
                table.primary = ("id", "code") if table.primary == ("id",) else ("id",)
        self._commit(Transaction(xid))

    def _rewrite(self, table: SimTable, xid: int) -> None:
        """Write all rows anew, which no log shows: `value` becomes another one in each."""
        rows = [version for version in table.versions if not version.xmax]
        table.versions, table.file, table.mark = [], self.oid(), xid
        table.rewritten = xid
        self.defaults(table, rows, xid)

    def defaults(self, table: SimTable, rows: list[Version], xid: int) -> None:
        """Put the rows into the new file."""
        for row in rows:
            table.add(dict(row.values), xid)


def entry_of(change: Change, at: int, xid: int, commit_lsn: int, sequence: int) -> Entry:
    """What the log has of a change."""
    table, relation = change.table, change.table.logged()
    old = new = None
    mark = ""
    identity, key = table.identity(change.leaf), table.identity_key(change.leaf)
    if change.op in "ud" and change.old is not None:
        changed = change.new is None or any(change.old[name] != change.new[name] for name in key)
        if identity == "f":
            old, mark = dict(change.old), "O"
        elif changed:
            old, mark = {name: value if name in key else None for name, value in change.old.items()}, "K"
    if change.new is not None:
        new = dict(change.new)
        if change.op == "u" and change.old and "large" in new and change.old["large"] == new["large"]:
            new["large"] = UNCHANGED
    return Entry(
        *(at, xid, change.lsn, commit_lsn, sequence, table.id, change.op, relation, old, mark, new),
        change.old,
        change.new,
        identity,
    )

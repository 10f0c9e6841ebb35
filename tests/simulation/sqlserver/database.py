"""A simulated database of SQL Server: rows under locks, a log, and the capture job that reads it.

    changed     in place, under an exclusive lock until the transaction ends; readers wait for it
    committed   the log has the transaction, under its commit's LSN
    captured    the capture job has written its change rows, for every instance of the table

`delivered` is how much of the log the capture job has read; it takes transactions as a whole. An update that
moves keys is logged as deletions and insertions: the deletions of a statement come first, by their command
ids, and each pair shares an LSN (`seqval`), whose order is another one.

    UPDATE t SET id = id + 1      command   1  2  3  4
                                  seqval    a  b  a  b
                                  change   -1 -2 +2 +3
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from adapters.sqlserver.server.forks import Fork
from adapters.sqlserver.server.table import Column
from tests.simulation.sqlserver.tables import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    SIGNALS,
    B,
    ChangeRow,
    Instance,
    SimTable,
    T,
    U,
    Values,
    bag,
    keyed,
    lsn,
    signal_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.model import CollectionId

_EXTRA = Column("extra", 9, "varchar", 20, collation="Latin1_General_BIN2")


class Entry(NamedTuple):
    """A change in the log. `old` is the row before, as the log has it: without an unchanged large value.

    `before` and `after` are the whole rows. `number` is the transaction's.
    """

    at: int
    number: int
    collection: CollectionId
    op: str
    key: Any
    before: Values | None
    after: Values | None
    old: Values | None
    command: int = 0
    change: int = 0
    commit: int = 0
    transaction: int = 0


class Commit(NamedTuple):
    """A transaction in the log, or an entry that CDC makes by itself on an idle database: `end` entries."""

    lsn: int
    end: int
    committed: str


@dataclass(slots=True)
class Transaction:
    """A transaction in progress: its changes, and the rows that it has locked, with what they were."""

    id: int
    changes: list[Entry] = field(default_factory=list)
    undo: list[tuple[SimTable, Any, Values | None]] = field(default_factory=list)


@dataclass(slots=True)
class Database:
    """The tables, the log and the change tables. `now_s` is the server's clock, `minutes` ahead of UTC.

    `locks` are exclusive locks of rows, by table and key; `whole` those of tables, by the session that has
    them. `readers` counts the queries that read a table: a change of its definition waits for them.
    """

    now_s: Callable[[], float]
    minutes: int = 0
    tables: dict[CollectionId, SimTable] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    open: dict[int, Transaction] = field(default_factory=dict)
    locks: dict[tuple[int, Any], int] = field(default_factory=dict)
    whole: dict[CollectionId, int] = field(default_factory=dict)
    readers: dict[CollectionId, int] = field(default_factory=dict)
    hidden: list[int] = field(default_factory=list)
    delivered: int = 0
    captured: int = 0
    records: int = 0x25_0000_0000
    serial: int = 0
    transactions: int = 0
    objects: int = 100
    identity: str = "7c9f0b52-0000-0000-0000-000000000001|2026-01-01"
    fork: Fork = field(default_factory=lambda: Fork("F-1"))
    lost: set[int] = field(default_factory=set)
    """Entries that no change table has any more, or never had, and that were not read before."""

    def __post_init__(self) -> None:
        if not self.tables:
            made = (keyed(1, T, nullable=True), keyed(2, U, nullable=False), bag(3), signal_table(4))
            self.tables = {table.id: table for table in made}

    def copied(self) -> Database:
        """A copy: a backup, or a replica that lags from now on. Its clock is the same one."""
        return deepcopy(self, {id(self.now_s): self.now_s})

    def take_over(self, before: Database) -> None:
        """Go on in the place of the database of which this is an older copy, in a new recovery fork.

        LSNs and object ids are given once more that the other had given behind the fork point.
        """
        for slot in sorted(self.open):
            self.abort(slot)
        self.serial = before.serial
        self.readers, self.whole = {}, {}
        number = int(before.fork.id.partition("-")[2]) + 1
        self.fork = Fork(f"F-{number}", self.fork.id, lsn(self.records + 1))

    def set_up(self) -> None:
        """Capture all tables."""
        for table in self.tables.values():
            self.enable(table)

    def _record(self) -> int:
        """The LSN of a new record of the log."""
        self.records += 1 + self.records % 3
        return self.records

    def _object(self) -> int:
        self.objects += 1
        return self.objects

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
        table = self.tables[collection]
        if self.whole.get(collection) or not where:
            return False
        moves = self._moves(table, what, *where)
        keys = {key for pair in moves for key in pair if key is not None}
        if not moves or any(
            self.locks.get((table.object_id, key), transaction.id) != transaction.id for key in keys
        ):
            return False
        self._write(transaction, table, what, moves)
        return True

    def _moves(self, table: SimTable, what: str, *where: int) -> list[tuple[Any, Any]]:
        """The keys of the rows before and after a change; none if it can't be made."""
        key = where[0]
        there = key in table.rows
        match what:
            case "put":
                return [(key if there else None, key)]
            case "delete" if there:
                return [(key, None)]
            case "touch" | "grow" | "shift" if there:
                return [(key, key)]
            case "move" if there and where[1] not in table.rows:
                return [(key, where[1])]
            case "slide":
                block: list[tuple[Any, Any]] = []
                while key in table.rows and len(block) < 3:
                    block.append((key, key + 1))
                    key += 1
                return [] if key in table.rows else block
        return []

    def _write(
        self, transaction: Transaction, table: SimTable, what: str, moves: list[tuple[Any, Any]]
    ) -> None:
        rows = table.rows
        made: list[tuple[Values | None, Values | None, int]] = []
        olds = [None if old is None else rows[old] for old, _new in moves]
        for (old, new), before in zip(moves, olds, strict=True):
            for key in {old, new} - {None}:
                self.locks[table.object_id, key] = transaction.id
                transaction.undo.append((table, key, rows.get(key)))
            after = None if new is None else self._row(table, what, new, before)
            made.append((before, after, self._record()))
        for old, _new in moves:
            rows.pop(old, None)
        for (_old, new), (_before, after, _change) in zip(moves, made, strict=True):
            if after is not None:
                rows[new] = after
        self._log(transaction, table, moves, made)

    def _log(
        self,
        transaction: Transaction,
        table: SimTable,
        moves: list[tuple[Any, Any]],
        made: list[tuple[Values | None, Values | None, int]],
    ) -> None:
        """Note the changes of a statement: all that leave a key, then all that come to one."""
        later = []
        for (old, new), (before, after, change) in zip(moves, made, strict=True):
            entry = Entry(-1, transaction.id, table.id, "", None, before, after, before, change=change)
            if before is None or after is None:
                op, key = ("c", new) if before is None else ("d", old)
                transaction.changes.append(entry._replace(op=op, key=key))
            elif old == new:
                less = dict(before)
                if "large" in less and less["large"] == after["large"]:
                    less["large"] = None
                transaction.changes.append(entry._replace(op="u", key=new, old=less))
            else:
                transaction.changes.append(entry._replace(op="d", key=old, after=None))
                later.append(entry._replace(op="c", key=new, before=None, old=None))
        transaction.changes += later

    def _row(self, table: SimTable, what: str, key: Any, before: Values | None) -> Values:
        """A row after a change; some values have what separates the columns of a row's text."""
        value = f"v{self.serial}" + ("\x1f\\" if self.serial % 9 == 0 else "")
        if table.id == B:
            return table.whole({"n": key, "value": value})
        fresh = before is None or what in {"put", "grow"}
        pos = (key if key % 4 != 3 else None) if before is None else before["pos"]
        row = {
            **(before or {}),
            "id": key,
            "value": value,
            "pos": (key * 3) % 7 if what == "shift" else pos,
            "large": before["large"] if before is not None and not fresh else self._large(table),
        }
        if any(column.name == "extra" for column in table.columns) and what == "grow":
            row["extra"] = f"e{self.serial}"
        return table.whole(row)

    def _large(self, table: SimTable) -> str | None:
        return None if table.id == T and self.serial % 5 == 0 else f"L{self.serial}"

    def commit(self, slot: int, *, visible: bool) -> int:  # noqa: ARG002  who commits releases its locks
        """Write a transaction's commit to the log and release its locks. Returns how many changes it has."""
        transaction = self.open.pop(slot, None)
        if transaction is None:
            return 0
        self._release(transaction)
        if not transaction.changes:
            return 0
        at, commit = len(self.log), self._record()
        for number, change in enumerate(transaction.changes):
            entry = change._replace(
                at=at + number, command=number + 1, commit=commit, transaction=transaction.id
            )
            self.log.append(entry)
            table = self.tables[entry.collection]
            if entry.before is not None:
                table.committed.pop(entry.before[table.key], None)
        for change in transaction.changes:
            table = self.tables[change.collection]
            if change.after is not None and table.rows.get(change.key) is not None:
                table.committed[change.key] = table.rows[change.key]
        self.commits.append(Commit(commit, len(self.log), self.time))
        return len(transaction.changes)

    def abort(self, slot: int) -> None:
        """Undo a transaction in progress."""
        transaction = self.open.pop(slot, None)
        if transaction is None:
            return
        for table, key, before in reversed(transaction.undo):
            if before is None:
                table.rows.pop(key, None)
            else:
                table.rows[key] = before
        self._release(transaction)

    def _release(self, transaction: Transaction) -> None:
        for lock in [lock for lock, owner in self.locks.items() if owner == transaction.id]:
            del self.locks[lock]

    def show(self, transaction: int) -> None:
        """A commit shows itself."""

    def writes(self, table: SimTable) -> bool:
        """Whether a transaction in progress has locked rows of a table."""
        return any(object_id == table.object_id for object_id, _key in self.locks)

    def signal(self, row: Values) -> Entry:
        """Commit a row of the signal table."""
        self.transactions += 1
        transaction = Transaction(self.transactions)
        table = self.tables[SIGNALS]
        values = table.whole(row)
        table.rows[row["id"]] = values
        change = Entry(-1, transaction.id, SIGNALS, "c", row["id"], None, values, None, change=self._record())
        transaction.changes.append(change)
        self.open[99] = transaction
        self.commit(99, visible=True)
        return self.log[-1]

    def unsignal(self, row_id: str) -> None:
        """Commit the deletion of a row of the signal table."""
        table = self.tables[SIGNALS]
        before = table.rows.pop(row_id, None)
        if before is None:
            return
        self.transactions += 1
        transaction = Transaction(self.transactions)
        change = Entry(-1, transaction.id, SIGNALS, "d", row_id, before, None, before, change=self._record())
        transaction.changes.append(change)
        self.open[99] = transaction
        self.commit(99, visible=True)

    # The clock and the capture job.

    @property
    def time(self) -> str:
        """The server's clock as text."""
        at = datetime.fromtimestamp(self.now_s() + self.minutes * 60, UTC)
        return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}"

    def idle(self) -> None:
        """The entry that CDC makes on an idle database."""
        self.commits.append(Commit(self._record(), len(self.log), self.time))

    def capture(self) -> None:
        """Let the capture job write the change rows of what it has read."""
        while self.captured < len(self.commits) and self.commits[self.captured].end <= self.delivered:
            commit = self.commits[self.captured]
            begin = self.commits[self.captured - 1].end if self.captured else 0
            self.captured += 1
            for table in self.tables.values():
                for instance in table.instances:
                    if instance.start < 0 and instance.enabled <= commit.lsn:
                        instance.start = instance.enabled
            for entry in self.log[begin : commit.end]:
                self._capture(entry, commit)

    def _capture(self, entry: Entry, commit: Commit) -> None:
        written = False
        for instance in self.tables[entry.collection].instances:
            if 0 <= instance.start <= commit.lsn:
                instance.rows += _change_rows(entry, instance, commit)
                written = True
        if not written:
            self.lost.add(entry.at)

    @property
    def greatest(self) -> int | None:
        """The greatest LSN that the capture job has processed."""
        return self.commits[self.captured - 1].lsn if self.captured else None

    # Definitions.

    def enable(self, table: SimTable) -> None:
        """Make a capture instance with the table's present columns. A third one takes the oldest's place."""
        number = self._object()
        name = f"dbo_{table.id.parts[-1]}_{number}"
        table.instances.append(Instance(name, number, table.columns, f"{number:06}", self._record()))
        self.idle()

    def disable(self, table: SimTable, *, since: int) -> None:
        """Drop a table's older capture instance; what it alone has behind entry `since` is lost."""
        older, younger = table.instances
        begins = younger.start if younger.start >= 0 else younger.enabled
        table.instances.remove(older)
        self.lost |= {
            entry.at for entry in self.log[since:] if entry.collection == table.id and entry.commit < begins
        }

    def widen(self, table: SimTable) -> None:
        """Add a column, or drop it."""
        if table.columns[-1].name == _EXTRA.name:
            table.columns = table.columns[:-1]
            for rows in (table.rows, table.committed):
                for key, row in rows.items():
                    rows[key] = {name: value for name, value in row.items() if name != _EXTRA.name}
            return
        table.columns = (*table.columns, replace(_EXTRA, position=len(table.columns) + 1))
        for rows in (table.rows, table.committed):
            for key, row in rows.items():
                rows[key] = {**row, _EXTRA.name: None}

    def clean_up(self, tables: list[SimTable], since: int) -> None:
        """Remove all change rows that there are: those from entry `since` on were not read, and are lost."""
        if self.greatest is None:
            return
        for table in tables:
            for instance in table.instances:
                if instance.start >= 0:
                    instance.start = max(instance.start, self.greatest)
                    instance.rows = [row for row in instance.rows if row.commit >= instance.start]
            self.lost |= {
                entry.at
                for entry in self.log[since:]
                if entry.collection == table.id and entry.commit < self.greatest
            }


def _change_rows(entry: Entry, instance: Instance, commit: Commit) -> list[ChangeRow]:
    """An entry's rows in a change table: one, or for an update two."""
    names = [column.name for column in instance.captured]

    def row(operation: int, values: Values | None) -> ChangeRow:
        assert values is not None
        known = {name: values.get(name) for name in names}
        return ChangeRow(commit.lsn, entry.command, entry.change, operation, commit.committed, known)

    if entry.op == "u":
        return [row(BEFORE, entry.old), row(AFTER, entry.after)]
    return [row(INSERT, entry.after) if entry.op == "c" else row(DELETE, entry.before)]

"""The questions that the adapter asks, answered by the simulated server; each connection is a process.

Each question is a step: before it is answered, anything may happen, and it may fail.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from adapters.postgres.server.questions.catalog import Catalog
from adapters.postgres.server.questions.layouts import KeyType, Layout, Layouts
from adapters.postgres.server.questions.locks import Locks
from adapters.postgres.server.questions.probes import Plan, TableProbes
from adapters.postgres.server.questions.publications import (
    Entry,
    Publications,
    UserTable,
    UserTables,
)
from adapters.postgres.server.questions.questions import Questions
from adapters.postgres.server.questions.signal_rows import FoundSignalTable, SignalTables
from adapters.postgres.server.questions.slots import FoundSlot, SlotRetention, Slots
from adapters.postgres.server.questions.snapshots import SnapshotExport, Snapshots
from adapters.postgres.server.questions.transactions import Transactions
from adapters.postgres.server.visibility import Visibility, format_lsn
from engine.errors import SchemaChanged, SourceError, TableBusy
from engine.model import CollectionId
from tests.simulation.postgres.sql import columns_of, condition, table_of
from tests.simulation.postgres.tables import SIGNALS, TYPES, SimTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from adapters.postgres.server.table import PgType, Table
    from engine.model import Key
    from tests.simulation.postgres.cluster import Cluster
    from tests.simulation.postgres.server import Process

_BOUND = re.compile(r"\((\d+), '(-?\d+)'::")
_ROWS_PER_PAGE = 2
_ROW_BYTES = 100


class _Asked:
    """A part of a connection's questions."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def _cluster(self) -> Cluster:
        return self._process.cluster


class SimCatalog(_Asked, Catalog):
    """What the catalog says."""

    def tables(self) -> list[CollectionId]:
        """All tables, by name."""
        self._process.asked()
        return sorted(table.id for table in self._cluster.tables.values())

    def describe(self, tables: Iterable[int | CollectionId], *, defaults: bool = True) -> dict[int, Table]:  # noqa: ARG002  no column has one
        """The tables by oid."""
        self._process.asked()
        wanted = set(tables)
        found = self._cluster.tables.values()
        return {table.oid: table.described() for table in found if table.oid in wanted or table.id in wanted}

    def types(self) -> dict[int, PgType]:
        """The types of columns."""
        return {kind.oid: kind for kind in TYPES}


class SimLayouts(_Asked, Layouts):
    """Partitions, columns' entries, key types."""

    def of(self, oids: Sequence[int]) -> tuple[list[Layout], Mapping[int, str]]:
        """The layouts of these tables and their partitions."""
        self._process.asked()
        found = []
        for table in self._cluster.tables.values():
            if table.oid not in oids:
                continue
            marks = f"{table.oid} {table.mark}"
            found.append(Layout(table.oid, table.oid, table.id, table.partitioned, table.file, marks))
            for leaf in range(len(table.identities) if table.partitioned else 0):
                name = CollectionId(("public", f"{table.id.parts[1]}{leaf}"))
                found.append(Layout(table.oid, table.oid * 10 + leaf, name, False, 7, marks))  # noqa: FBT003  as in the row
        return found, {}

    def key_types(self, oids: Sequence[int]) -> dict[int, KeyType]:
        """The base types of these types."""
        known = {kind.oid: kind.name for kind in TYPES}
        return {oid: KeyType(f'"pg_catalog"."{known[oid]}"', "", ()) for oid in oids}

    def hides_rows(self, oid: int) -> bool:  # noqa: ARG002  of no table
        """No table does."""
        return False

    def names(self, oids: Sequence[int]) -> dict[int, CollectionId]:
        """The names of tables."""
        self._process.asked()
        return {oid: self._cluster.tables[oid].id for oid in oids if oid in self._cluster.tables}

    def filled(self, oids: Sequence[int]) -> set[int]:  # noqa: ARG002  no column has a default
        """None."""
        return set()

    def readable(self, publication: str) -> dict[CollectionId, bool]:  # noqa: ARG002  there is one
        """All tables."""
        self._process.asked()
        return {table.id: True for table in self._cluster.tables.values()}


class SimLocks(_Asked, Locks):
    """Who waits for whom."""

    def waited_for(self, pids: Collection[int]) -> frozenset[int]:
        """The processes for whose locks a change of a definition waits."""
        waiting = self._process.server.waiting
        return frozenset(pid for table in waiting for pid in self._cluster.locked(table) if pid in pids)

    def end(self, pid: int) -> None:
        """End a session."""
        self._process.server.end(pid)

    def writers(self, oid: int) -> dict[str, str]:
        """The transactions that have written to a table and hold their locks."""
        self._process.asked()
        cluster = self._cluster
        found = {
            value.id
            for value in cluster.open.values()
            if any(change.table.oid == oid for change in value.changes)
        }
        table = cluster.tables[oid]
        for version in table.versions:
            found |= {version.xmin, version.xmax} & set(cluster.hidden)
        return {str(xid % 2**32): f"process of {xid}" for xid in sorted(found)}

    def writing(self) -> str:
        """Nobody can be seen."""
        return ""


class SimProbes(_Asked, TableProbes):
    """Sizes and keys, in the snapshot of the connection's transaction or a new one."""

    def sizes(self, oids: Sequence[int]) -> dict[int, tuple[int, float]]:
        """Bytes and estimated rows."""
        self._process.asked()
        tables = self._cluster.tables
        return {
            oid: (_ROW_BYTES * len(tables[oid].versions), float(len(tables[oid].versions) or -1))
            for oid in oids
        }

    def pages(self, oid: int) -> int:
        """The pages of a table."""
        self._process.asked()
        return 1 + self._cluster.tables[oid].places // _ROWS_PER_PAGE

    def last_rows_bytes(self, relation: str, reverse_order: str) -> float:  # noqa: ARG002  of any table
        """The size of every row."""
        return float(_ROW_BYTES)

    def check_readable(self, relation: str) -> None:  # noqa: ARG002  of any table
        """Every table is readable."""
        self._process.asked()

    def plan(self, relation: str, where: str = "true") -> Plan:
        """How many rows there are."""
        self._process.asked()
        return Plan(len(self._rows(relation, where)), limited=False)

    def ranked(self, query: str) -> list[tuple[int, Key]] | str:
        """Integers, with their ranks."""
        self._process.asked()
        values = [int(value) for _number, value in _BOUND.findall(query)]
        ranks = {value: rank for rank, value in enumerate(sorted(set(values)), 1)}
        return [(ranks[value], (str(value),)) for value in values]

    @contextmanager
    def by_index(self) -> Iterator[None]:
        """Every look-up is."""
        yield

    def key(self, texts: str, relation: str, order: str, where: str = "true", skipped: int = 0) -> Key | None:  # noqa: ARG002  the texts are the order's
        """The key of the row that comes after `skipped` others."""
        self._process.asked()
        names, reverse = columns_of(order)
        keys = [tuple(row[name] for name in names) for row in self._rows(relation, where)]
        keys.sort(reverse=reverse)
        return tuple(map(str, keys[skipped])) if skipped < len(keys) else None

    def _rows(self, relation: str, where: str) -> list[Mapping[str, Any]]:
        table = self._cluster.named(CollectionId(("public", table_of(relation))))
        return rows_of(table, self._process.snapshot(), where)


def rows_of(table: SimTable, visibility: Visibility, where: str) -> list[Mapping[str, Any]]:
    """The rows of a table that a snapshot shows and that meet a condition."""
    meets = condition(where)
    rows = [
        row.values | {"ctid": (row.place // _ROWS_PER_PAGE, 1 + row.place % _ROWS_PER_PAGE)}
        for row in table.shown(visibility)
    ]
    return [row for row in rows if meets(row)]


class SimPublications(_Asked, Publications):
    """What is published."""

    def entries(self, name: str, oids: Sequence[int] | None = None) -> list[Entry]:  # noqa: ARG002  there is one
        """What publishes these tables, or all."""
        self._process.asked()
        published = self._cluster.publication
        if published is None:
            return []
        found = [
            Entry(
                table.oid,
                table.id,
                "p" if table.partitioned else "r",
                0,
                True,  # noqa: FBT003  as in the row
                f"{published.oid} {published.xmin % 2**32} {entry[0]} {entry[1] % 2**32}",
                None,
                None,
            )
            for oid, entry in published.entries.items()
            if (oids is None or oid in oids) and (table := self._cluster.tables.get(oid))
        ]
        return sorted(found, key=lambda table: table.id)

    def lacking(self, name: str) -> str:  # noqa: ARG002  there is one
        """All operations are published."""
        return ""

    def not_full(self, oids: Sequence[int]) -> set[int]:
        """The tables without REPLICA IDENTITY FULL."""
        return {oid for oid in oids if self._cluster.tables[oid].identities != ("f",)}

    def digest(self, name: str) -> str:  # noqa: ARG002  there is one
        """A digest of the publication and its entries."""
        self._process.asked()
        published = self._cluster.publication
        return (
            ""
            if published is None
            else f"{published.oid} {published.xmin} {sorted(published.entries.items())}"
        )

    def user_tables(self) -> UserTables:
        """All tables. No name ever goes to another one."""
        found = {
            oid: UserTable(oid, table.id, 0, 10, 0, 0, unchanged=True, born_as_partition=False)
            for oid, table in self._cluster.tables.items()
        }
        return UserTables(found, str(self._cluster.visibility()[1]))

    def is_empty(self, oid: int) -> bool:  # noqa: ARG002  nobody attaches any
        """No partition has come with rows."""
        return True

    def user_tables_digest(self) -> str:
        """A digest of their names."""
        return str(sorted(self._cluster.tables))

    def partitions(self) -> list[tuple[CollectionId, CollectionId]]:
        """No table is published as its partitions."""
        return []

    def leaves(self, root: int) -> list[CollectionId]:  # noqa: ARG002  as above
        """None."""
        return []

    def has_all_tables(self, name: str) -> bool | None:  # noqa: ARG002  there is one
        """Whether the publication is for all tables; None if there is none."""
        self._process.asked()
        return None if self._cluster.publication is None else False

    def creation(self, name: str, tables: Sequence[CollectionId] | None) -> str:  # noqa: ARG002  for people
        """The statement that creates it."""
        return f"CREATE PUBLICATION {name}"


class SimSlots(_Asked, Slots):
    """Replication slots."""

    def find(self, name: str) -> FoundSlot | None:
        """The slot of this name, if there is one."""
        self._process.asked()
        slot = self._cluster.slots.get(name)
        if slot is None:
            return None
        return FoundSlot(
            "pgoutput",
            "db",
            slot.reader or None,
            "lost" if slot.lost else "reserved",
            format_lsn(slot.confirmed),
            None,
            slot.application or None,
        )

    def kept(self, name: str) -> SlotRetention | None:
        """What the server keeps for the slot."""
        slot = self._cluster.slots.get(name)
        return None if slot is None else SlotRetention("lost" if slot.lost else "reserved", 0)

    def xmin(self, name: str) -> int | None:  # noqa: ARG002  of no slot
        """Not told."""
        return None

    def end_reader(self, pid: int) -> None:
        """End the process that reads a slot."""
        self._process.asked()
        self._process.server.end(pid)

    def drop(self, name: str) -> bool:
        """Drop the slot, unless it is read."""
        self._process.asked()
        slot = self._cluster.slots.get(name)
        if slot is not None and slot.reader:
            raise SourceError(f"replication slot is active for PID {slot.reader}")
        return self._cluster.slots.pop(name, None) is not None

    def reader_timeout_s(self) -> float:
        """A minute."""
        return 60.0


class SimSnapshots(_Asked, Snapshots):
    """The transaction that holds a snapshot and locks for other sessions."""

    def begin(self, lock_timeout_ms: int | None = None) -> None:  # noqa: ARG002  nobody waits
        """Begin the transaction."""
        self._process.asked("open_window")
        self._process.begun()

    def lock(self, table: CollectionId) -> None:
        """Lock a table."""
        self._process.asked()
        found = next((entry for entry in self._cluster.tables.values() if entry.id == table), None)
        if found is None:
            raise SchemaChanged("there is no such table", where=table)
        server = self._process.server
        if found in server.waiting or any(
            found.oid in value.emptied for value in self._cluster.open.values()
        ):
            raise TableBusy("another session holds a lock", where=table)
        self._cluster.locks.setdefault(self._process.pid, set()).add(found.oid)

    def adopt(self, name: str) -> None:
        """See what another session's snapshot shows."""
        self._process.asked()
        self._process.held = self._process.server.exported(name)

    def export(self) -> SnapshotExport:
        """The transaction's snapshot, for other sessions to adopt."""
        self._process.asked()
        process, cluster = self._process, self._cluster
        text, visibility = process.held or cluster.visibility()
        process.held = (text, visibility)
        name = process.server.export(process)
        process.asked()  # the position is read after the snapshot
        return SnapshotExport(name, text, visibility, cluster.lsn)

    def rewritten(self) -> list[str]:
        """Tables that were written anew between snapshot and lock."""
        process, cluster = self._process, self._cluster
        locked, shown = cluster.locks.get(process.pid, set()), process.snapshot()
        return [
            str(table.id)
            for table in cluster.tables.values()
            if table.oid in locked and table.rewritten and shown.missing({table.rewritten % 2**32})
        ]

    def ping(self) -> bool:
        """Whether the connection still exists."""
        return not self._process.closed

    def remove_timeouts(self, statement: str) -> None:
        """There are none."""

    def begin_ending(self) -> bool:
        """End the transaction."""
        if self._process.closed:
            return False
        self._process.end_transaction()
        return True

    def finish_ending(self) -> bool:
        """Whether the connection can be used again."""
        return not self._process.closed


class SimTransactions(_Asked, Transactions):
    """What is visible, and where the log ends."""

    def visible(self) -> tuple[Visibility, float]:
        """The visible transactions, and the server's time."""
        self._process.asked()
        return self._cluster.visibility()[1], self._process.server.now_s()

    def next_id(self) -> int:
        """The id that the next transaction will get."""
        self._process.asked()
        return self._cluster.xid

    def unassigned(self) -> int:
        """The id that the next transaction will get."""
        return self.next_id()

    def log_end(self) -> int:
        """Where the written log ends."""
        return self._cluster.flushed

    def insert_end(self) -> int:
        """Where the log ends that is not yet written."""
        return self._cluster.lsn

    def flush_log(self) -> None:
        """Commit an empty transaction."""
        self._process.asked()
        self._cluster.flush_log()

    def in_recovery(self) -> bool:
        """It is no standby."""
        return False

    def identity(self) -> tuple[str, int]:
        """The server's system identifier and timeline."""
        return "7000", self._cluster.timeline


class SimSignals(_Asked, SignalTables):
    """The signal table."""

    def find(self, table: CollectionId) -> FoundSignalTable | None:  # noqa: ARG002  there is one
        """It is as it should be."""
        return FoundSignalTable(3, insert=True, delete=True, identified=False)

    def stops(self, table: CollectionId) -> frozenset[str] | None:  # noqa: ARG002  there is one
        """The rows that may ask to stop a blocking snapshot."""
        self._process.asked()
        found = self._cluster.named(SIGNALS).shown(self._cluster.visibility()[1])
        return frozenset(
            f"{table.place} {table.xmin}"
            for table in found
            if "stop-snapshot" in f"{table.values}" and "blocking" in f"{table.values}"
        )


class SimQuestions(Questions):
    """One connection to the simulated server."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.catalog, self.layouts = SimCatalog(process), SimLayouts(process)
        self.probes, self.publications = SimProbes(process), SimPublications(process)
        self.slots, self.transactions = SimSlots(process), SimTransactions(process)
        self.locks, self.snapshots = SimLocks(process), SimSnapshots(process)
        self.signals = SimSignals(process)

    def commit_locally(self) -> None:
        """There is no standby."""

    @property
    def pid(self) -> int:
        """The server's process behind the connection."""
        return self._process.pid

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self._process.closed

    def close(self) -> None:
        """Close the connection."""
        self._process.close()

"""The questions that the adapter asks, answered by the simulated server.

Each question is a step: before it is answered anything may happen, and it may fail.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.server.catalog import Catalog, Description, ListedTable
from adapters.sqlserver.server.change_tables import ChangeTables, ServerClock
from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.position import ZERO, LogPosition
from adapters.sqlserver.server.questions import Questions
from adapters.sqlserver.server.table import Table
from adapters.sqlserver.server.table_probes import TableProbes, TableSize
from engine.errors import SchemaChanged, SourceError, TableBusy
from engine.snapshot.scope import RankedKey
from tests.simulation.fallible_calls import fallible
from tests.simulation.sqlserver.sql import condition
from tests.simulation.sqlserver.tables import DATABASE, lsn, number_of, row_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from adapters.sqlserver.log.span_planner import Share
    from adapters.sqlserver.server.change_statements import ShareRead
    from adapters.sqlserver.server.forks import Fork
    from adapters.sqlserver.server.table import Capture
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import CollectionId, Key, Range
    from tests.simulation.sqlserver.database import Database
    from tests.simulation.sqlserver.tables import ChangeRow, Instance, SimTable, Values
    from tests.simulation.world import Life

_ROW_BYTES = 100


@dataclass(slots=True)
class SimInstance:
    """The server of a world, over restorations. `generation` counts what ended all sessions.

    `opened` is called when a job that opens the log asks what the database is.
    """

    database: Database
    generation: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    opened: Callable[[], None] = lambda: None


class Session:
    """A connection: ended with its process, by an administrator, or when the server fails over."""

    def __init__(self, server: SimInstance, life: Life) -> None:
        self.server, self.life = server, life
        self.number, self._generation = next(server.numbers), server.generation
        self.in_transaction = False

    @property
    def database(self) -> Database:
        """The database."""
        return self.server.database

    @property
    def alive(self) -> bool:
        """Whether the server knows it still."""
        return self._generation == self.server.generation and not self.life.dead

    def asked(self, port: str = "ask") -> None:
        """A question arrives."""
        with fallible(self.life, port):
            pass
        if not self.alive:
            raise SourceError("communication link failure")

    def release(self) -> None:
        """End the transaction, if one is open: its locks are released."""
        self.in_transaction = False
        whole = self.database.whole
        for table in [table for table, owner in whole.items() if owner == self.number]:
            del whole[table]


class SimServer(Server):
    """The adapter's `Server` for one job."""

    def __init__(self, server: SimInstance, life: Life) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # nothing is reached by drivers
        self._sim, self._life = server, life

    def open(self, database: str) -> Questions:
        """A new connection."""
        session = Session(self._sim, self._life)
        session.asked("connect")
        return SimQuestions(session, database)

    def check(self, database: str) -> None:
        """Every login works."""

    def close(self) -> None:
        """Nothing is kept."""


class SimQuestions(Questions):
    """One connection."""

    def __init__(self, session: Session, database: str) -> None:
        self.database, self._session = database, session
        session.life.sessions.append(session)
        self.catalog = SimCatalog(session)
        self.changes = SimChangeTables(session)
        self.probes = SimProbes(session)

    def log_end(self) -> LogPosition:
        """Where the transaction log ends."""
        self._session.asked()
        return LogPosition(lsn(self._session.database.records))

    def limit_lock_waits(self, timeout_ms: int) -> None:
        """Every wait is short."""

    def write_signal(self, table: CollectionId, columns: Sequence[str], *row: str | None) -> None:
        """Insert a row into the signal table."""
        with fallible(self._session.life, "mark"):
            if not self._session.alive:
                raise SourceError("communication link failure", where=table)
            self._session.database.signal(dict(zip(columns, (*row, None), strict=False)))

    def remove_signal(self, table: CollectionId, column: str, row_id: str) -> None:  # noqa: ARG002  there is one
        """Delete a row of the signal table."""
        with fallible(self._session.life, "mark"):
            if not self._session.alive:
                raise SourceError("communication link failure", where=table)
            self._session.database.unsignal(row_id)

    def begin(self, lock_timeout_ms: int) -> None:  # noqa: ARG002  nobody waits long
        """Begin the transaction that locks tables."""
        self._session.asked()
        self._session.in_transaction = True

    def lock(self, table: CollectionId) -> None:
        """Lock a table until the transaction ends."""
        self._session.asked()
        database = self._session.database
        if database.writes(database.tables[table]) or database.readers.get(table):
            raise TableBusy("lock request time out", where=table)
        database.whole[table] = self._session.number

    def in_transaction(self) -> bool:
        """Whether the transaction is still open."""
        return self._session.alive and self._session.in_transaction

    def roll_back(self) -> None:
        """End the transaction."""
        self._session.release()

    def close(self) -> None:
        """Close the connection."""
        self._session.release()


class _Asked:
    """A part of a connection's questions."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _there(self) -> Database:
        return self._session.database


class SimCatalog(_Asked, Catalog):
    """What the catalog says."""

    def description(self) -> Description:
        """What the database is."""
        self._session.asked("open_log")
        source = self._session.life.source
        if source is not None and source.opens_log:
            self._session.server.opened()
        return Description(cdc=True, writable=True, identity=self._there.identity, name=DATABASE)

    def fork(self) -> Fork:
        """The recovery fork. It is no step: histories saved before it was asked for keep their order."""
        if not self._session.alive:
            raise SourceError("communication link failure")
        return self._there.fork

    def allows_snapshots(self) -> bool:
        """It does."""
        return True

    def switching(self) -> list[Any]:
        """No table is partitioned."""
        return []

    def other_code_pages(self) -> list[Any]:
        """All columns have one code page."""
        return []

    def captures(self, selected: Callable[[CollectionId], bool]) -> tuple[Capture, ...]:
        """The capture instances whose start is known, by table, the older first."""
        self._session.asked()
        return tuple(
            table.capture(instance)
            for table in sorted(self._there.tables.values(), key=lambda table: table.id.parts)
            if selected(table.id)
            for instance in sorted(table.instances, key=lambda instance: (instance.start, instance.created))
            if instance.start >= 0
        )

    def tables(self, captures: Sequence[Capture]) -> tuple[Table, ...]:
        """The table of each capture instance, with the columns that its log has."""
        self._session.asked()
        found = []
        for capture in captures:
            table = self._there.tables[capture.table]
            instance = next(
                (instance for instance in table.instances if instance.object_id == capture.object_id), None
            )
            # An instance that was dropped meanwhile has no columns in the catalog.
            found.append(Table(capture.table, ()) if instance is None else table.as_captured(instance))
        return tuple(found)

    def listed(self) -> tuple[ListedTable, ...]:
        """Every table."""
        self._session.asked()
        tables = sorted(self._there.tables.values(), key=lambda table: table.id)
        return tuple(ListedTable(table.id, table.object_id, tracked=True) for table in tables)

    def describe(self, listed: Iterable[ListedTable]) -> tuple[Table, ...]:
        """Tables with all their columns."""
        self._session.asked()
        return tuple(self._there.tables[table.id].described() for table in listed)


class SimChangeTables(_Asked, ChangeTables):
    """The change tables."""

    def greatest(self) -> LogPosition | None:
        """The greatest LSN that the capture job has processed."""
        self._session.asked("take")
        found = self._there.greatest
        return None if found is None else LogPosition(lsn(found))

    def least(self) -> dict[str, str]:
        """The commit from which each change table is complete."""
        self._session.asked()
        return {
            instance.name: lsn(instance.start)
            for table in self._there.tables.values()
            for instance in table.instances
            if instance.start >= 0
        }

    def clock(self) -> ServerClock:
        """The server's clock."""
        return ServerClock(self._there.minutes, self._there.time)

    def agent_runs(self, query: str) -> bool | None:  # noqa: ARG002  there is one
        """It does."""
        return True

    def counts(self, asked: Sequence[Share], most: int) -> list[int]:
        """The number of rows of each share, up to `most`."""
        self._session.asked()
        return [min(most, len(self.of(share))) for share in asked]

    def commits(self, asked: Sequence[Share], offsets: Sequence[int]) -> list[str | None]:
        """The commit of the row at each share's offset."""
        self._session.asked()
        found = []
        for share, offset in zip(asked, offsets, strict=True):
            commits = sorted(row.commit for row in self.of(share))
            found.append(lsn(commits[offset]) if offset < len(commits) else None)
        return found

    def changes(self, asked: Sequence[Share], step: int) -> list[list[tuple[int, str]]]:
        """The command and the LSN of about every `step`-th change."""
        self._session.asked()
        found = []
        for share in asked:
            rows = sorted(self.of(share), key=lambda row: (row.command, row.change, row.operation))
            found.append(
                sorted(
                    (row.command, lsn(row.change))
                    for number, (row, following) in enumerate(pairwise(rows), 1)
                    if number >= step and number % step <= 1 and following.change != row.change
                )
            )
        return found

    def rows(self, reads: Sequence[ShareRead]) -> list[tuple[Any, ...]]:
        """The change rows of some shares."""
        found: list[tuple[Any, ...]] = []
        with fallible(self._session.life, "take"):
            for read in reads:
                found += self.texts(read)
        if not self._session.alive:
            raise SourceError("communication link failure")
        return found

    def texts(self, read: ShareRead) -> Iterator[tuple[Any, ...]]:
        """The rows of a share, unordered."""
        for row in reversed(self.of(read.share)):
            yield (
                read.task,
                read.share.instance,
                f"{row.commit:020X}",
                row.command,
                f"{row.change:020X}",
                row.operation,
                row.committed,
                row_text(row.values, read.columns, read.mode),
            )

    def of(self, share: Share) -> list[ChangeRow]:
        """The change rows of a share."""
        instance = self._instance(share)
        if instance is None:
            raise SourceError("invalid object name", where=share.capture.table)
        return list(filter(_inside(share), instance.rows))

    def _instance(self, share: Share) -> Instance | None:
        table = self._there.tables[share.capture.table]
        return next(
            (instance for instance in table.instances if instance.object_id == share.capture.object_id), None
        )


def _inside(share: Share) -> Callable[[ChangeRow], bool]:
    """What chooses the rows of a share: what `change_statements._rows` says."""
    after, upto = share.after, share.upto
    first, last = number_of(share.first), number_of(share.last)
    streamed = (after.command, number_of(after.change))
    end = (upto.command, number_of(upto.change))
    begins_inside = not after.whole and share.first == after.commit and after.change != ZERO
    ends_inside = not upto.whole

    def inside(row: ChangeRow) -> bool:
        if not first <= row.commit <= last:
            return False
        if begins_inside and row.commit == first and (row.command, row.change) <= streamed:
            return False
        return not ends_inside or row.commit < last or (row.command, row.change) <= end

    return inside


class SimProbes(_Asked, TableProbes):
    """Questions about a table's rows."""

    @contextmanager
    def _measuring(self, read: ReadTable) -> Iterator[SimTable]:
        self._session.asked()
        table = self._there.tables[read.table.id]
        if table.object_id != read.object_id:
            raise SchemaChanged("invalid object name", where=table.id)
        if read.hint != "NOLOCK" and table.id in self._there.whole:
            raise TableBusy("lock request time out", where=table.id)
        yield table

    def size(self, read: ReadTable) -> TableSize:
        """The table's size, uncommitted rows included."""
        with self._measuring(read) as table:
            return TableSize(len(table.rows), len(table.rows) * _ROW_BYTES)

    def refusal(self, read: ReadTable, *, filtered: bool) -> str | None:  # noqa: ARG002  no signal has a condition
        """Nothing is refused."""
        with self._measuring(read):
            return None

    def greatest_key(self, read: ReadTable) -> Key | None:
        """The greatest key of the committed rows: whoever has locked a greater one is waited for."""
        with self._measuring(read) as table:
            keys = _keys(table, read)
            column = read.keyset.columns[0].name
            locked = [key for number, key in self._there.locks if number == table.object_id]
            at_end = column != table.key or any(not keys or key >= keys[-1] for key in locked)
            if read.hint != "NOLOCK" and locked and at_end:
                raise TableBusy("lock request time out", where=table.id)
            return _key(keys[-1]) if keys else None

    def least_key(self, read: ReadTable) -> Key | None:
        """The least key, uncommitted or not."""
        with self._measuring(read) as table:
            keys = _keys(table, read)
            return _key(keys[0]) if keys else None

    def key_inside(self, read: ReadTable, part: Range, skipped: int) -> Key | None:
        """The key that follows `skipped` others in a range, uncommitted or not."""
        with self._measuring(read) as table:
            keys = _keys(table, read, read.keyset.inside(part))
            return _key(keys[skipped]) if skipped < len(keys) else None

    def ranked(self, read: ReadTable, keys: Sequence[Key]) -> list[RankedKey] | str:
        """Keys that a signal gives; integers are ranked as they are."""
        with self._measuring(read):
            ranks = {key: rank for rank, key in enumerate(sorted({int(key[0] or 0) for key in keys}), 1)}
            return [RankedKey((str(int(key[0] or 0)),), ranks[int(key[0] or 0)]) for key in keys]


def _keys(table: SimTable, read: ReadTable, where: str = "") -> list[Any]:
    """The values of the column that a table is cut by, in order, NULL first."""
    column = read.keyset.columns[0].name
    chooses = condition(where) if where else None
    rows: list[Values] = [row for row in table.rows.values() if chooses is None or chooses(row)]
    return sorted((row[column] for row in rows), key=lambda value: (value is not None, value or 0))


def _key(value: Any) -> Key:
    return (None if value is None else str(value),)

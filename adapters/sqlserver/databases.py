"""The databases of a running job: connections for small queries, catalogs, tables as the log knows them.

Owns the checks before a database is read: it exists, CDC is enabled, it is writable, and its signal table is
usable. Used by the job's thread alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.log.capture_instances import Instances
from adapters.sqlserver.server.catalog import uncaptured
from adapters.sqlserver.server.failures import no_snapshots
from adapters.sqlserver.server.position import ZERO, Place
from adapters.sqlserver.snapshot.conditions import derived
from adapters.sqlserver.snapshot.eligibility import LOCKED
from engine.config.settings import Watermarking
from engine.errors import ConfigError, SignalError, SourceError, StateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.server.questions import Questions
    from adapters.sqlserver.server.table import Table
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.config.settings import Settings
    from engine.model import CollectionId, Target

_log = logging.getLogger("adapters")
_SIGNAL_COLUMNS = 3
_PATIENCE_MS = 2_000
"""The longest a small query waits for a lock, in milliseconds. The stream stands still meanwhile."""
_CREATE_SIGNALS = (
    "CREATE TABLE {} (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
)


@dataclass(slots=True)
class _Seen:
    """A database's capture instances, and the place that its stream has reached."""

    instances: Instances = field(default_factory=Instances)
    place: Place = field(default_factory=lambda: Place(ZERO))


class Databases:
    """All databases that the settings name."""

    def __init__(self, settings: Settings, server: Server) -> None:
        self._settings, self._server = settings, server
        self.names: Sequence[str] = settings.sqlserver.databases
        self._questions: dict[str, Questions] = {}
        self._patience_ms = min(settings.sqlserver.lock_timeout_ms or _PATIENCE_MS, _PATIENCE_MS)
        self._seen = {name: _Seen() for name in self.names}
        self.initial_hint: Callable[[], str] = lambda: LOCKED
        overrides = settings.snapshot.select_overrides
        self._overrides = {name: derived(statement, name) for name, statement in overrides.items()}
        self._served = False

    def captures(self, table: CollectionId) -> bool:
        """Whether a table's changes are streamed. Those of signal tables always are."""
        if table in self._settings.sqlserver.signal_tables:
            return True
        return self._settings.capture.captures(*table.parts[1:])

    def questions(self, database: str) -> Questions:
        """The connection for the questions of the job's thread, opened on first use."""
        if database not in self._questions:
            self._questions[database] = self.open(database)
        return self._questions[database]

    def open(self, database: str) -> Questions:
        """A new connection with the same lock timeout. Any thread may call this."""
        questions = self._server.open(database)
        questions.limit_lock_waits(self._patience_ms)
        return questions

    def close(self) -> None:
        """Close the connections."""
        opened, self._questions = self._questions, {}
        for questions in opened.values():
            questions.close()

    # Tables as the log knows them.

    def logged(self, database: str) -> Mapping[CollectionId, Table]:
        """The captured tables as the log describes them after the stream's place."""
        seen = self._seen[database]
        return seen.instances.at(seen.place)

    def place(self, database: str) -> Place:
        """The place that the stream has reached."""
        return self._seen[database].place

    def instances(self, database: str) -> Instances:
        """The capture instances that were known when the stream reached its place."""
        return self._seen[database].instances

    def note(self, database: str, place: Place, instances: Instances | None = None) -> None:
        """Record how far the stream has come, and the capture instances if they were read again."""
        seen = self._seen[database]
        seen.place, seen.instances = place, instances or seen.instances

    def look(self, database: str) -> Instances:
        """Read the capture instances as they are now."""
        catalog = self.questions(database).catalog
        captures = catalog.captures(self.captures)
        tables = catalog.tables(captures)
        named = {one.name: table for one, table in zip(captures, tables, strict=True)}
        return Instances(captures, named)

    def listed(self, database: str) -> list[CollectionId]:
        """All tables of a database, captured or not."""
        return [one.id for one in self.questions(database).catalog.listed()]

    def greatest(self, database: str) -> Place:
        """The greatest captured LSN; zero if nothing has been captured."""
        return self.questions(database).changes.greatest() or Place(ZERO)

    # How tables are read.

    def refusal(self, database: str) -> SignalError | None:
        """Why no table of a database can be snapshotted beside the stream; None if they can."""
        rows_are_written = self._settings.snapshot.watermarking is not Watermarking.VISIBILITY
        if rows_are_written and self._settings.sqlserver.signal_table(database) is None:
            return SignalError(
                f"database {database!r} has no signal table, and LSNs of one database say nothing of another",
                hint="name a table of each database in signal.data.collection, or set read.only=true",
            )
        return None

    def adapted(self, read: ReadTable, target: Target) -> ReadTable:
        """How the initial snapshot reads a table: by its SELECT override, if the settings have one."""
        if not target.initial:
            return read
        names = read.table.id.parts
        statement = self._overrides.get(".".join(names)) or self._overrides.get(".".join(names[1:]))
        return replace(read, statement=statement, hint=self.initial_hint())

    # Checks.

    def identity(self) -> dict[str, str]:
        """The identity of each database. Raises ConfigError where a database can't be used.

        A primary that becomes a secondary while the job runs may become primary again: that raises
        SourceError.
        """
        found = {name: self._checked(name) for name in self.names}
        self._served = True
        return found

    def _checked(self, database: str) -> str:
        found = self.questions(database).catalog.description()
        if found is None:
            raise SourceError("the server does not tell of the database", place=database)
        if not found.cdc:
            raise ConfigError(
                f"CDC is not enabled in database {database!r}", hint="run there: EXEC sys.sp_cdc_enable_db"
            )
        if not found.writable:
            refused = refused_replica(database)
            raise refused if self._served else ConfigError(str(refused))
        return found.identity

    def check_snapshots(self, database: str) -> None:
        """Raise ConfigError where a database does not allow snapshot isolation."""
        if not self.questions(database).catalog.allows_snapshots():
            raise no_snapshots(database)

    def refuse_replicas(self, database: str) -> None:
        """Raise SourceError on a secondary: rows read there may be older than changes already emitted."""
        found = self.questions(database).catalog.description()
        if found is not None and not found.writable:
            raise refused_replica(database)

    def check_tables(self, database: str) -> None:
        """Warn of listed tables that are not captured. Raises ConfigError for an unusable signal table."""
        listed = [one for one in self.questions(database).catalog.listed() if self.captures(one.id)]
        captures = self._seen[database].instances.captures
        signal = self._settings.sqlserver.signal_table(database)
        for name in uncaptured(listed, captures):
            if self._settings.capture.include_tables and name != signal:
                _log.warning("%s is listed, but CDC does not capture it: its changes are not told", name)
        for one in listed:
            if one.indexed and self._settings.capture.include_tables:
                _log.warning("%s is an indexed view, which CDC can't capture", one.id)
        self._warn_of_limits(database)
        if signal is not None:
            self._check_signals(signal, {one.id for one in listed})

    def _warn_of_limits(self, database: str) -> None:
        """Warn of tables and columns that CDC captures incompletely or not faithfully."""
        catalog = self.questions(database).catalog
        switching, pages = catalog.switching(), catalog.other_code_pages()
        for switched in switching:
            if self.captures(switched.table):
                _log.warning(
                    "%s is partitioned, and CDC does not capture rows of a partition that is switched"
                    " in or out; to forbid it make capture instance %s with @allow_partition_switch = 0",
                    *(switched.table, switched.instance),
                )
        for page in pages:
            if self.captures(page.table):
                _log.warning(
                    "column %s of %s has the collation %s, of another code page than the database's:"
                    " CDC may not keep its characters; nvarchar keeps all",
                    *(page.column, page.table, page.collation),
                )

    def signal_columns(self, signal: CollectionId) -> tuple[str, ...]:
        """The names of a signal table's first three columns, which are its id, type and data."""
        table = self._signal_table(signal)
        return tuple(column.name for column in table.columns[:_SIGNAL_COLUMNS]) if table else ()

    def _signal_table(self, signal: CollectionId) -> Table | None:
        instances = self._seen[signal.parts[0]].instances
        return next((instances.tables[one.name] for one in instances.captures if one.table == signal), None)

    def _check_signals(self, signal: CollectionId, listed: set[CollectionId]) -> None:
        name = ".".join(signal.parts[1:])
        if signal not in listed:
            raise ConfigError(
                f"the signal table {str(signal)!r} does not exist",
                hint=f"run: {_CREATE_SIGNALS.format(name)}",
            )
        table = self._signal_table(signal)
        if table is None:
            raise ConfigError(
                f"CDC does not capture the signal table {str(signal)!r}",
                hint="run: EXEC sys.sp_cdc_enable_table @source_schema = N'…', @source_name = N'…',"
                " @role_name = NULL",
            )
        if len(table.columns) < _SIGNAL_COLUMNS:
            raise ConfigError(
                f"the signal table {str(signal)!r} has {len(table.columns)} columns, it needs id, type, data"
            )


def refused_replica(database: str) -> SourceError:
    """The error for a replica: neither its log nor its rows are read."""
    return SourceError(
        f"database {database!r} is a readable secondary or read-only: rows read there may be older than"
        " changes that were told",
        place=database,
        hint="connect to the primary replica",
    )


def check_identity(saved: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise StateError where the saved state belongs to another database: no mark of its identity matches."""
    for name in saved.keys() & found.keys():
        if not _marks(saved[name]) & _marks(found[name]):
            raise StateError(
                f"the saved state is of another database {name!r}: {saved[name]!r}, not {found[name]!r}",
                hint="set tidemark.checkpoint to an empty directory to begin anew",
            )


def _marks(identity: str) -> set[str]:
    """The marks of an identity (`metadata.DATABASE`). States of earlier versions have only one."""
    return set(identity.split("|")) - {""}

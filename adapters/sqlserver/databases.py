"""The databases of a running job: connections for questions, and tables as the log knows them.

Used by the job's thread alone. `checks.py` has what is checked before a database is read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adapters.sqlserver.conditions.trusted_sql import derived
from adapters.sqlserver.log.capture_instances import Instances
from adapters.sqlserver.server.failures import no_snapshots
from adapters.sqlserver.server.forks import Forks
from adapters.sqlserver.server.position import ZERO, LogPosition
from adapters.sqlserver.settings import SqlServerSettings
from adapters.sqlserver.snapshot.eligibility import LOCKED
from engine.config.settings import Watermarking
from engine.config.sources.selection import select_for
from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from adapters.sqlserver.server.connection import Server
    from adapters.sqlserver.server.questions import Questions
    from adapters.sqlserver.server.table import Table
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.config.settings import Settings
    from engine.model import CollectionId, Target

_log = logging.getLogger("adapters")
_PATIENCE_MS = 2_000
"""The longest a small query waits for a lock, in milliseconds. The stream stands still meanwhile."""


@dataclass(slots=True)
class _KnownDatabase:
    """A database's capture instances, and the position that its stream has reached."""

    instances: Instances = field(default_factory=Instances)
    position: LogPosition = field(default_factory=lambda: LogPosition(ZERO))


class Databases:
    """All databases that the settings name. `forks` are their recovery forks.

    `statement` is the snapshotter's: the SELECT for a table's rows, where the settings have none.
    """

    def __init__(
        self, settings: Settings, server: Server, statement: Callable[[CollectionId], str | None]
    ) -> None:
        self._settings, self._server, self._statement = settings, server, statement
        sqlserver = settings.source_as(SqlServerSettings)
        self.names: Sequence[str] = sqlserver.databases
        self._questions: dict[str, Questions] = {}
        self.forks = Forks()
        self._patience_ms = min(sqlserver.lock_timeout_ms or _PATIENCE_MS, _PATIENCE_MS)
        self._seen = {name: _KnownDatabase() for name in self.names}
        self.initial_hint: Callable[[], str] = lambda: LOCKED
        overrides = settings.snapshot.select_overrides
        self._overrides = {
            name: derived(select, f"'snapshot.select.statement.overrides.{name}'")
            for name, select in overrides.items()
        }

    def captures(self, table: CollectionId) -> bool:
        """Whether a table's changes are streamed. Those of signal tables always are."""
        if table in self._settings.source_as(SqlServerSettings).signal_tables:
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
        """The captured tables as the log describes them after the stream's position."""
        seen = self._seen[database]
        return seen.instances.at(seen.position)

    def position(self, database: str) -> LogPosition:
        """The position that the stream has reached."""
        return self._seen[database].position

    def instances(self, database: str) -> Instances:
        """The capture instances that were known when the stream reached its position."""
        return self._seen[database].instances

    def note(self, database: str, position: LogPosition, instances: Instances | None = None) -> None:
        """Record how far the stream has come, and the capture instances if they were read again."""
        seen = self._seen[database]
        seen.position, seen.instances = position, instances or seen.instances

    def look(self, database: str) -> Instances:
        """Read the capture instances as they are now."""
        catalog = self.questions(database).catalog
        captures = catalog.captures(self.captures)
        tables = catalog.tables(captures)
        named = {capture.name: table for capture, table in zip(captures, tables, strict=True)}
        return Instances(captures, named)

    def listed(self, database: str) -> list[CollectionId]:
        """All tables of a database, captured or not."""
        return [table.id for table in self.questions(database).catalog.listed()]

    def greatest(self, database: str) -> LogPosition:
        """The greatest captured LSN; zero if nothing has been captured."""
        return self.questions(database).changes.greatest() or LogPosition(ZERO)

    # How tables are read.

    def refusal(self, database: str) -> SignalError | None:
        """Why no table of a database can be snapshotted beside the stream; None if they can."""
        rows_are_written = self._settings.snapshot.watermarking is not Watermarking.VISIBILITY
        if rows_are_written and self._settings.source_as(SqlServerSettings).signal_table(database) is None:
            return SignalError(
                f"database {database!r} has no signal table, and no other's LSNs compare with its own",
                hint="name a table of each database in signal.data.collection, or set read.only=true",
            )
        return None

    def adapted(self, read: ReadTable, target: Target) -> ReadTable:
        """How the initial snapshot reads a table: by the SELECT of settings or snapshotter, if any."""
        if not target.initial:
            return read
        return replace(read, statement=self.statement(read.table.id), hint=self.initial_hint())

    def statement(self, table: CollectionId) -> str | None:
        """The SELECT for a table's rows in the initial snapshot; None for all of them.

        Raises ConfigError if the snapshotter returns one that can't be read from.
        """
        override = select_for(self._overrides, table)
        given = None if override else self._statement(table)
        if given is None:
            return override
        return derived(
            given, f"the SELECT of snapshotter {self._settings.snapshot.custom_name!r} for {table}"
        )

    def check_snapshots(self, database: str) -> None:
        """Raise ConfigError where a database does not allow snapshot isolation."""
        if not self.questions(database).catalog.allows_snapshots():
            raise no_snapshots(database)

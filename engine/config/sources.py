"""How each source is reached and read, as values: frozen, complete and checked.

Secrets, and mappings that may hold one, are left out of every repr. Times are in ms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.model import CollectionId


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


class SchemaRefresh(StrEnum):
    """`schema.refresh.mode`."""

    COLUMNS_DIFF = "columns_diff"
    COLUMNS_DIFF_EXCLUDE_UNCHANGED_TOAST = "columns_diff_exclude_unchanged_toast"


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """The server, the slot and the publication.

    `driver` holds further `database.*` options under pgjdbc's names; `engine.config.driver.LIBPQ` has
    libpq's. `stream_params` go to the decoding plug-in in addition to ours. `query_timeout_ms` 0: no bound.
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
    publish_via_partition_root: bool = False
    acknowledge: bool = True
    status_interval_ms: int = 10_000
    xmin_interval_ms: int = 0
    schema_refresh: SchemaRefresh = SchemaRefresh.COLUMNS_DIFF
    wal_warn_bytes: int = 10 << 30


class CaptureMode(StrEnum):
    """`capture.mode`: whether updates carry the whole document, and events the document before."""

    PLAIN = "change_streams"
    FULL = "change_streams_update_full"
    PRE_IMAGE = "change_streams_with_pre_image"
    FULL_PRE_IMAGE = "change_streams_update_full_with_pre_image"

    @property
    def looks_up(self) -> bool:
        """Whether the server looks up an updated document."""
        return self in {CaptureMode.FULL, CaptureMode.FULL_PRE_IMAGE}

    @property
    def pre_images(self) -> bool:
        """Whether events carry the document before the change, if the collection keeps it."""
        return self in {CaptureMode.PRE_IMAGE, CaptureMode.FULL_PRE_IMAGE}


class CaptureScope(StrEnum):
    """`capture.scope`: what the change stream is opened on."""

    DEPLOYMENT = "deployment"
    DATABASE = "database"
    COLLECTION = "collection"


class Oversize(StrEnum):
    """`cursor.oversize.handling.mode`: what happens to an event that is too large for the server to send.

    Unless events are split, those that are small enough without their pre-image or looked-up document are
    sent without it.
    """

    FAIL = "fail"
    SKIP = "skip"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class FieldPath:
    """One entry of `field.exclude.list`, or of `field.renames` with the new name; `*` matches any text."""

    database: str
    collection: str
    path: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True)
class MongoSettings:
    """The deployment and its change stream. Either `connection_string` or the older `hosts` is set.

    `target` is the database or `database.collection` of a narrower scope. `matches` are filters of change
    events, as JSON. Times are in ms; 0 for a socket means no limit.
    """

    connection_string: str = field(default="", repr=False)
    hosts: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    oidc_token: str = field(default="", repr=False)
    auth_source: str = "admin"
    tls: bool = False
    any_hostname: bool = False
    connect_timeout_ms: int = 10_000
    socket_timeout_ms: int = 0
    selection_timeout_ms: int = 30_000
    heartbeat_ms: int = 10_000
    capture_mode: CaptureMode = CaptureMode.FULL
    scope: CaptureScope = CaptureScope.DEPLOYMENT
    target: str = ""
    await_ms: int = 100
    fields: tuple[FieldPath, ...] = ()
    matches: tuple[str, ...] = ()
    oversize: Oversize = Oversize.FAIL


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

"""The properties that only Debezium's PostgreSQL connector has, and the settings that all of them make.

`engine.config.sources.connector` has those that other connectors share, `driver_options` those of the driver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.postgres.driver_options import DRIVER, OPTIONS
from adapters.postgres.settings import Autocreate, GeneratedColumns, PostgresSettings, SslMode
from engine.config.own import OWN
from engine.config.plugins import Connector, SourceSettings
from engine.config.properties.expression_shapes import EXPRESSIONS
from engine.config.properties.row import APPLIED, LATER, LATER_REFUSED, RENAMED, Catalogue, Property
from engine.config.properties.shapes import (
    FLAG,
    PLACEHOLDER,
    SIZE,
    STATEMENTS,
    TEXT,
    choice,
    stream_options,
    subset,
    text,
    whole,
)
from engine.config.sources import every_source, relational
from engine.config.sources.connect import CONNECT
from engine.config.sources.connector import HOST, ROWS
from engine.events.settings import EventSettings, Fault, HstoreMode, IntervalMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

P = Property
_IDENTIFIER = text(r"[^\0]{1,63}", "a name of 1 to 63 characters")
_PLUGIN = text("pgoutput", "'pgoutput'; no other plug-in is supported")
_MS_32 = whole(0, 2**31 - 1)
_ROLE = text(r"[^\0]+", "a name")

DATABASE = (
    HOST,
    P("database.port", APPLIED, "the server's port", whole(1, 65535), "5432"),
    P("database.user", APPLIED, "the role to connect as", _ROLE, required=True),
    P("database.password", APPLIED, "its password; may be empty where the server asks for none"),
    P("database.dbname", APPLIED, "the database whose changes are read", _IDENTIFIER, required=True),
    P("database.sslmode", APPLIED, "whether TLS is used and verified", choice(SslMode), "disable"),
    P("database.sslcert", APPLIED, "file of the client's certificate", TEXT),
    P("database.sslkey", APPLIED, "file of the client's private key", TEXT),
    P("database.sslpassword", APPLIED, "password of the private key"),
    P(
        "database.sslrootcert",
        APPLIED,
        "file of the certificates that the server's is checked against",
        TEXT,
    ),
    P("database.tcpKeepAlive", APPLIED, "probe idle connections", FLAG, "true"),
    P(
        "database.query.timeout.ms",
        APPLIED,
        "longest time for a query and for waiting for an answer; 0: no limit",
        _MS_32,
        "600000",
    ),
    P(
        "database.initial.statements",
        APPLIED,
        "statements to run at the start of every connection except replication",
        STATEMENTS,
    ),
)

REPLICATION = (
    P("plugin.name", APPLIED, "the decoding plug-in", _PLUGIN, "pgoutput"),
    P(
        "slot.name",
        APPLIED,
        "the replication slot",
        text(r"[a-z0-9_]{1,63}", "1 to 63 lower-case letters, digits and underscores"),
        "debezium",
    ),
    P("slot.drop.on.stop", APPLIED, "drop the slot at a clean stop", FLAG, "false"),
    P(
        "slot.failover",
        APPLIED,
        "let standbys keep the slot in sync; PostgreSQL 17 and later",
        FLAG,
        "false",
    ),
    P("slot.max.retries", APPLIED, "attempts to take a busy slot", whole(0, 2**31 - 1), "6"),
    P("slot.retry.delay.ms", APPLIED, "longest wait between these attempts", _MS_32, "10000"),
    P(
        "slot.stream.params",
        APPLIED,
        "further options of the decoding plug-in",
        stream_options("proto_version", "publication_names", "messages", "streaming", "two_phase", "binary"),
    ),
    P("publication.name", APPLIED, "the publication", _IDENTIFIER, "dbz_publication"),
    P(
        "publication.autocreate.mode",
        APPLIED,
        "what to do when the publication is missing",
        choice(Autocreate),
        "all_tables",
    ),
    P(
        "publish.via.partition.root",
        LATER_REFUSED,
        "create the publication so that partitions are published under their root",
        FLAG,
        "false",
    ),
    P(
        "status.update.interval.ms",
        APPLIED,
        "how often the job reports its received position to the server",
        whole(1, 2**31 - 1),
        "10000",
    ),
    P("flush.lsn.source", LATER_REFUSED, "acknowledge the log to the server", FLAG, "true"),
    P("xmin.fetch.interval.ms", APPLIED, "how often the slot's xmin is read; 0: never", _MS_32, "0"),
    P(
        "schema.refresh.mode",
        LATER,
        "when a table's columns are read again",
        choice(("columns_diff", "columns_diff_exclude_unchanged_toast")),
        "columns_diff",
    ),
)

EVENTS = (
    P("message.prefix.include.list", APPLIED, "logical messages to emit, by prefix", EXPRESSIONS),
    P("message.prefix.exclude.list", APPLIED, "logical messages not to emit", EXPRESSIONS),
    P("interval.handling.mode", APPLIED, "how intervals are written", choice(IntervalMode), "numeric"),
    P("hstore.handling.mode", APPLIED, "how hstore is written", choice(HstoreMode), "json"),
    P("money.fraction.digits", APPLIED, "decimals of money", whole(0, 32767), "2"),
    P(
        "unavailable.value.placeholder",
        APPLIED,
        "placeholder for a value that the log leaves out",
        PLACEHOLDER,
        "__debezium_unavailable_value",
    ),
    P("include.unknown.datatypes", APPLIED, "write columns of unknown types as bytes", FLAG, "false"),
)

TIDEMARK = (
    P(
        "tidemark.window.local.rows",
        APPLIED,
        "windows of at most this many rows are read by the driver itself, without a Spark job; 0: none",
        whole(0, 2**31 - 1),
        "10000",
    ),
    P(
        "tidemark.snapshot.accept.risk",
        APPLIED,
        "tables to snapshot although the log may lack some of their changes",
        EXPRESSIONS,
    ),
    P(
        "tidemark.snapshot.generated.columns",
        APPLIED,
        "generated columns that snapshots include: those that are published, or all that are stored",
        choice(GeneratedColumns),
        "published",
    ),
    P(
        "tidemark.log.streaming",
        APPLIED,
        "receive large transactions while they are still open; PostgreSQL 14 and later",
        FLAG,
        "true",
    ),
    P(
        "tidemark.wal.warn.bytes",
        APPLIED,
        "warn if the server keeps more log than this for the slot",
        SIZE,
        "10g",
    ),
    P(
        "tidemark.keep.debezium.faults",
        APPLIED,
        "faults of Debezium 2.1.4 to reproduce for consumers that depend on them: names that are not ASCII,"
        " defaults with quotes or keywords, texts (name and ltree columns are null), intervals, arrays,"
        " scales",
        subset(tuple(Fault), everything="all"),
    ),
)

_OLD = (
    P("slot.drop_on_stop", RENAMED, "slot.drop.on.stop"),
    P("toasted.value.placeholder", RENAMED, "unavailable.value.placeholder"),
)


def event_settings(v: Values) -> EventSettings:
    """The settings that shape events."""
    signal_table = v.typed["signal.data.collection"]
    return replace(
        relational.event_settings(
            v, v.get("database.dbname", str), str(signal_table) if signal_table else ""
        ),
        intervals=v.get("interval.handling.mode", IntervalMode),
        hstore=v.get("hstore.handling.mode", HstoreMode),
        money_fraction_digits=v.get("money.fraction.digits", int),
        unavailable_value=v.get("unavailable.value.placeholder", bytes),
        include_unknown_types=v.get("include.unknown.datatypes", bool),
        include_message_prefixes=v.get("message.prefix.include.list", tuple),
        exclude_message_prefixes=v.get("message.prefix.exclude.list", tuple),
        kept_faults=frozenset(map(Fault, v.get("tidemark.keep.debezium.faults", frozenset))),
    )


def postgres_settings(v: Values) -> PostgresSettings:
    """The server, the slot and the publication."""
    return PostgresSettings(
        host=v.get("database.hostname", str),
        port=v.get("database.port", int),
        user=v.get("database.user", str),
        password=v.get("database.password", str),
        database=v.get("database.dbname", str),
        ssl_mode=v.get("database.sslmode", SslMode),
        ssl_cert=v.get("database.sslcert", str),
        ssl_key=v.get("database.sslkey", str),
        ssl_password=v.get("database.sslpassword", str),
        ssl_root_cert=v.get("database.sslrootcert", str),
        tcp_keepalive=v.get("database.tcpKeepAlive", bool),
        query_timeout_ms=v.get("database.query.timeout.ms", int),
        initial_statements=v.get("database.initial.statements", tuple),
        driver={
            name: v.get(f"database.{name}", str) for name in sorted(OPTIONS) if f"database.{name}" in v.given
        },
        slot=v.get("slot.name", str),
        drop_slot_on_stop=v.get("slot.drop.on.stop", bool),
        slot_failover=v.get("slot.failover", bool),
        slot_max_retries=v.get("slot.max.retries", int),
        slot_retry_delay_ms=v.get("slot.retry.delay.ms", int),
        stream_params=v.get("slot.stream.params", tuple),
        publication=v.get("publication.name", str),
        publication_autocreate=v.get("publication.autocreate.mode", Autocreate),
        status_interval_ms=v.get("status.update.interval.ms", int),
        xmin_interval_ms=v.get("xmin.fetch.interval.ms", int),
        log_streaming=v.get("tidemark.log.streaming", bool),
        wal_warn_bytes=v.get("tidemark.wal.warn.bytes", int),
        local_rows=v.get("tidemark.window.local.rows", int),
        accept_risk=v.get("tidemark.snapshot.accept.risk", tuple),
        generated_columns=v.get("tidemark.snapshot.generated.columns", GeneratedColumns),
    )


def _warnings(v: Values) -> Iterator[str]:
    yield from relational.warnings(v)
    if "database.sslmode" not in v.given and not _is_here(v):
        yield (
            "'database.sslmode' is not given: rows and passwords travel in the clear, as with Debezium;"
            " set it to verify-full, or to disable if that is meant"
        )


def _is_here(v: Values) -> bool:
    """Whether the database is on this machine."""
    host = v.get("database.hostname", str)
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _problems(v: Values) -> Iterator[str]:
    yield from relational.problems(v)
    yield from every_source.contradictions(v, "message.prefix")


def _read(v: Values) -> SourceSettings:
    capture, snapshot = relational.capture_settings(v), relational.snapshot_settings(v)
    return SourceSettings(event_settings(v), postgres_settings(v), capture, snapshot)


CONNECTOR = Connector(
    job="adapters.postgres.job",
    catalogue=Catalogue((*DATABASE, *REPLICATION, *EVENTS, *TIDEMARK, *ROWS, *OWN, *CONNECT, *DRIVER, *_OLD)),
    read=_read,
    problems=_problems,
    warnings=_warnings,
)

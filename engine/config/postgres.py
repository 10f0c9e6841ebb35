"""The settings that PostgreSQL's properties make. The rows are in `connector` and `driver`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.config import relational
from engine.config.connect import CONNECT
from engine.config.connector import ROWS
from engine.config.driver import DRIVER, OPTIONS
from engine.config.own import OWN_OF_POSTGRES
from engine.config.plugins import Connector, SourceSettings
from engine.config.row import Catalogue
from engine.config.sources import Autocreate, PostgresSettings, SchemaRefresh, SslMode
from engine.events.settings import EventSettings, Fault, HstoreMode, IntervalMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.values import Values


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
        publish_via_partition_root=v.get("publish.via.partition.root", bool),
        acknowledge=v.get("flush.lsn.source", bool),
        status_interval_ms=v.get("status.update.interval.ms", int),
        xmin_interval_ms=v.get("xmin.fetch.interval.ms", int),
        schema_refresh=v.get("schema.refresh.mode", SchemaRefresh),
        wal_warn_bytes=v.get("tidemark.wal.warn.bytes", int),
    )


def _warnings(v: Values) -> Iterator[str]:
    if "database.sslmode" not in v.given and not _is_here(v):
        yield (
            "'database.sslmode' is not given: rows and passwords travel in the clear, as with Debezium;"
            " set it to verify-full, or to disable if that is meant"
        )


def _is_here(v: Values) -> bool:
    """Whether the database is on this machine."""
    host = v.get("database.hostname", str)
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _read(v: Values) -> SourceSettings:
    capture, snapshot = relational.capture_settings(v), relational.snapshot_settings(v)
    return SourceSettings(event_settings(v), postgres_settings(v), capture, snapshot)


CONNECTOR = Connector(
    job="adapters.postgres.job",
    catalogue=Catalogue((*ROWS, *OWN_OF_POSTGRES, *CONNECT, *DRIVER)),
    read=_read,
    classes=(*("io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector", "postgresql", ""),),
    problems=relational.problems,
    warnings=_warnings,
)

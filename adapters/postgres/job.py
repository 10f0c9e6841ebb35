"""Builds a PostgreSQL job from its settings: its source, and what runs before and after.

`drivers` says how libpq and pgjdbc reach the server, `adapters.source.assembly.job` has what all jobs share.
`run` serves the command; `building` gives the job to a caller who drives it from Python with a session of
theirs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.jdbc.foreign_tables import JdbcTables
from adapters.postgres.drivers import jdbc_properties, jdbc_url, make_server
from adapters.postgres.events.columns.placeholders import placeholders
from adapters.postgres.events.relations import Relations
from adapters.postgres.events.settled import settled_then
from adapters.postgres.events.span_encoder import PostgresSpans
from adapters.postgres.log.slots.slot import drop_slot
from adapters.postgres.log.slots.xmin import SlotXmin
from adapters.postgres.log_opening import LogOpening
from adapters.postgres.server.position import numbers, shown
from adapters.postgres.server.text_settings import reading_options
from adapters.postgres.server.tls import checked_key, readers_key
from adapters.postgres.server.watches.lock_watch import ANSWERED_WITHIN_S, LockWatch
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.chunk_reader import ChunkReader, Jdbc
from adapters.postgres.snapshot.initial import SlotTools
from adapters.postgres.snapshot.local_reader import Bounds, LocalReader
from adapters.postgres.source import PostgresSource
from adapters.postgres.tools import SourceTools
from adapters.source.assembly.job import SourceJob, trying
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.assembly.supplied import LOCAL_ROWS, SuppliedSource
from adapters.source.assembly.verifying import Verifiable
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.spark.cluster.slots import slots_of
from adapters.spark.session import POSTGRES_JDBC
from adapters.verify.events.copied_events import Traits
from engine.config.sinks.postgres_target import PostgresTarget
from engine.events.names import topic_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.postgres.server.connection import Server
    from adapters.postgres.snapshot.slot_snapshot import HeldSnapshot
    from adapters.source.assembly.supplied import Locations
    from adapters.verify.tables.foreign_tables import ForeignTables
    from engine.config.settings import Settings
    from engine.config.sinks.against import Against
    from engine.model import CollectionId


def _prepare(settings: Settings) -> None:
    """Check what would fail later: the snapshotter, the key's file, the server."""
    streams = snapshotter(settings.snapshot).should_stream()
    postgres = settings.source_as(PostgresSettings)
    checked_key(postgres.ssl_key)
    with trying():
        make_server(postgres).identity(replicates=streams)


def _finish(settings: Settings) -> None:
    postgres = settings.source_as(PostgresSettings)
    if postgres.drop_slot_on_stop:
        drop_slot(make_server(postgres), postgres.slot)


def _wired(settings: Settings, spark: SparkSession, locations: Locations) -> SuppliedSource:
    settings = settings.in_form(locations.form)
    postgres, clock = settings.source_as(PostgresSettings), locations.clock
    server = make_server(postgres, locations.owner)
    locks = LockWatch(partial(server.open, within_s=ANSWERED_WITHIN_S), clock.monotonic)
    chosen = snapshotter(settings.snapshot)
    first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
        settings.snapshot, chosen, clock.new_id(), clock.sleep
    )
    tools = SlotTools(settings, server, chosen, clock, locks, locations.previous, locations.confirm)
    source = _source(settings, spark, locations, server, first, tools)
    return SuppliedSource(
        source,
        source.close,
        shown,
        source.run_statement,
        first_retries=postgres.slot_max_retries,
        first_backoff_s=postgres.slot_retry_delay_ms / 1000,
        done=first.done,
        kept=source.kept_bytes,
        take_appeared=source.take_appeared,
        numbers=numbers,
        database=postgres.database,
        verifiable=Verifiable(
            Traits(tuple(placeholders(settings.events))),
            source.deletes,
            source.settled,
            settled_then,
            others=partial(_others, settings, source, postgres.database),
            mark=partial(_write_marker, settings),
        ),
    )


def _others(
    settings: Settings, source: PostgresSource, database: str, target: Against
) -> ForeignTables | str:
    """The tables of a target that somebody else keeps, or why there are none."""
    if not isinstance(target.database, PostgresTarget):
        return "tables of PostgreSQL are compared with tables of PostgreSQL only"
    marker = target.marker
    markers = None if marker is None else (topic_of(marker, settings.events), marker)
    return JdbcTables(target.database, source.row_reads, database, markers)


def _write_marker(settings: Settings, table: CollectionId, row_id: str) -> None:
    """Insert a row that has nothing but an `id`, over a connection of its own. Raises SourceError."""
    with make_server(settings.source_as(PostgresSettings)).open() as questions:
        questions.signals.insert_id(table, row_id)


def _source(
    settings: Settings,
    spark: SparkSession,
    locations: Locations,
    server: Server,
    first: InitialSnapshot[HeldSnapshot],
    tools: SlotTools,
) -> PostgresSource:
    postgres = settings.source_as(PostgresSettings)
    jdbc = Jdbc(
        jdbc_url(postgres),
        jdbc_properties(postgres) | readers_key(postgres.ssl_key, locations.staging),
        postgres.initial_statements,
        settings.snapshot.fetch_size,
    )
    connect = partial(server.connect, options=reading_options(postgres.query_timeout_ms))
    local = LocalReader(connect, Bounds(postgres.local_rows, settings.snapshot.chunk_size))
    reader = ChunkReader(spark, jdbc, locations.windows, slots=slots_of(spark), local=local)
    xmin = SlotXmin(server, postgres.slot, postgres.xmin_interval_ms / 1000, locations.clock.monotonic)
    encoder = SpanEncoder(locations.encoders, locations.spans, local_rows=LOCAL_ROWS)
    spans = PostgresSpans(settings.events, encoder, locations.clock, xmin)
    own = SourceTools(
        spans, reader, first, tools, locations.clock, Path(locations.staging), admit=locations.admit
    )
    relations = partial(Relations, settings=settings.events)
    return PostgresSource(settings, own, LogOpening(settings, server, own, relations))


def _addresses(settings: Settings) -> list[tuple[str, int]]:
    postgres = settings.source_as(PostgresSettings)
    return [(postgres.host, postgres.port)]


_JOB = SourceJob(_wired, (POSTGRES_JDBC,), _prepare, _finish, _addresses)
run, building, packages = _JOB.run, _JOB.building, _JOB.packages

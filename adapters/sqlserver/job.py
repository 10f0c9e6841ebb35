"""Builds a SQL Server job from its settings: its source, and the connection to the server.

`adapters.source.assembly.job` has what all jobs share. `run` serves the command line. `building` yields the
job to Python code that has its own Spark session. `job_of` has both for another way to the server.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from adapters.source.assembly.job import SourceJob, trying
from adapters.source.assembly.snapshotters import snapshotter
from adapters.source.assembly.supplied import SuppliedSource
from adapters.source.assembly.verifying import Verifiable
from adapters.source.initial import InitialSnapshot
from adapters.source.log.span_encoder import SpanEncoder
from adapters.spark.cluster.slots import slots_of
from adapters.spark.session import SQLSERVER_JDBC
from adapters.sqlserver.databases import Databases
from adapters.sqlserver.events.codecs import Codecs
from adapters.sqlserver.foreign.tables import SqlServerTargetTables, settings_of
from adapters.sqlserver.log.database_log import LogBounds
from adapters.sqlserver.log.span_reader import ChangeReader
from adapters.sqlserver.schema.history import history
from adapters.sqlserver.server import connection
from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.position import numbers, shown
from adapters.sqlserver.settings import SqlServerSettings
from adapters.sqlserver.snapshot.chunk_reader import ChunkReader
from adapters.sqlserver.snapshot.initial import InitialReads
from adapters.sqlserver.snapshot.tables import SqlServerTables
from adapters.sqlserver.snapshot.windows import OpenWindows
from adapters.sqlserver.source import SourceParts, SqlServerSource
from adapters.sqlserver.streamed_spans import StreamedSpans
from adapters.sqlserver.tools import SourceTools
from adapters.verify.events.copied_events import Traits
from engine.config.sinks.sqlserver_target import SqlServerTarget
from engine.events.names import topic_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from adapters.source.assembly.supplied import Locations
    from adapters.sqlserver.server.connection import Reach
    from adapters.sqlserver.snapshot.initial import HeldSnapshot
    from adapters.verify.tables.foreign_tables import ForeignTables
    from engine.config.settings import Settings
    from engine.config.sinks.against import Against
    from engine.model import CollectionId

    ReachOf = Callable[[SqlServerSettings], Reach]

_LOCAL_ROWS = 2_000
"""Up to this many change rows are read by the metadata connection, since a Spark job costs 0.2 s."""
_LONGEST_WINDOW_S = 40.0
"""The longest window. Each window costs the capture job's delay once, and holds nothing in the database."""


def job_of(reach: ReachOf = connection.reach) -> SourceJob:
    """The jobs of servers that are reached in this way."""
    prepare = partial(_prepare, reach)
    return SourceJob(partial(_wired, reach), (SQLSERVER_JDBC,), prepare, addresses=_addresses)


def _addresses(settings: Settings) -> list[tuple[str, int]]:
    """The server, unless its port is found out by an instance's name."""
    sqlserver = settings.source_as(SqlServerSettings)
    return [(sqlserver.host, sqlserver.port)] if sqlserver.port else []


def _prepare(reach: ReachOf, settings: Settings) -> None:
    """Check what would fail later: the snapshotter, the server, its databases."""
    snapshotter(settings.snapshot)
    with trying(), closing(_server(reach, settings)) as found:
        for database in settings.source_as(SqlServerSettings).databases:
            found.check(database)


def _server(reach: ReachOf, settings: Settings) -> Server:
    sqlserver = settings.source_as(SqlServerSettings)
    return Server(reach(sqlserver), connection.login_of(sqlserver))


def _wired(reach: ReachOf, settings: Settings, spark: SparkSession, locations: Locations) -> SuppliedSource:
    source = make_source(settings.in_form(locations.form), spark, locations, reach)
    return SuppliedSource(
        source,
        source.close,
        shown,
        source.run_statement,
        longest_window_s=_LONGEST_WINDOW_S,
        done=source.done,
        take_appeared=source.take_appeared,
        actions=source.actions,
        take_added=source.take_added,
        numbers=numbers,
        verifiable=Verifiable(
            Traits(),
            source.deletes,
            others=partial(_others, reach, settings, source),
            mark=partial(_write_marker, reach, settings),
            truncates=False,
        ),
    )


def _others(
    reach: ReachOf, settings: Settings, source: SqlServerSource, target: Against
) -> ForeignTables | str:
    """The tables of a target that somebody else keeps, or why there are none."""
    if not isinstance(target.database, SqlServerTarget):
        return "tables of SQL Server are compared with tables of SQL Server only"
    there = settings_of(target.database, settings.source_as(SqlServerSettings))
    marker = target.marker
    markers = None if marker is None else (topic_of(marker, settings.events), marker)
    server = Server(reach(there), connection.login_of(there))
    return SqlServerTargetTables(target.database, server, source.row_reads, markers)


def _write_marker(reach: ReachOf, settings: Settings, table: CollectionId, row_id: str) -> None:
    """Insert a row that has nothing but an `id`, over a connection of its own. Raises SourceError."""
    with closing(_server(reach, settings)) as found, closing(found.open(table.database)) as questions:
        questions.write_signal(table, ("id",), row_id)


def make_source(
    settings: Settings,
    spark: SparkSession,
    locations: Locations,
    reach: ReachOf = connection.reach,
) -> SqlServerSource:
    """The source of the settings."""
    found = _server(reach, settings)
    chosen = snapshotter(settings.snapshot)
    databases, slots = Databases(settings, found, chosen.statement), slots_of(spark)
    jdbc, clock = found.reach.jdbc, locations.clock
    tools = SourceTools(
        SpanEncoder(locations.encoders, locations.spans, local_rows=_LOCAL_ROWS),
        ChunkReader(spark, jdbc, locations.windows, settings.snapshot, slots=slots),
        lambda database: ChangeReader(spark, jdbc, database, locations.spans.within("log"), clock.new_id),
        _bounds(settings, slots()),
        clock,
        history(settings.source_as(SqlServerSettings).history, settings.events.topic_prefix),
    )
    first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
        settings.snapshot, chosen, clock.new_id(), clock.sleep
    )
    parts = parts_of(settings, databases, tools, first)
    return SqlServerSource(settings, found, databases, tools, parts)


def parts_of(
    settings: Settings, databases: Databases, tools: SourceTools, first: InitialSnapshot[HeldSnapshot]
) -> SourceParts:
    """What the source is made of."""
    sqlserver = settings.source_as(SqlServerSettings)
    initial = InitialReads(sqlserver.isolation, databases, first)
    whole = {"whole_bytes": 0} if settings.job.window_max_chunks else {}
    tables = SqlServerTables(
        databases,
        keyless=lambda: initial.waits,
        conditions=settings.snapshot.conditions,
        monotonic=tools.clock.monotonic,
        **whole,
    )
    codecs = Codecs(settings.events, sqlserver.signal_tables)
    windows = OpenWindows(settings, databases, codecs, tables, tools, initial)
    spans = StreamedSpans(settings, databases, codecs, tools, windows)
    return SourceParts(first, initial, tables, windows, spans)


def _bounds(settings: Settings, tasks: int) -> LogBounds:
    job = settings.job
    return LogBounds(
        job.span_max_rows, job.span_max_bytes, min(_LOCAL_ROWS, job.span_max_rows), parts=2 * tasks
    )


_JOB = job_of()
run, building, packages = _JOB.run, _JOB.building, _JOB.packages

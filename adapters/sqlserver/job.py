"""Builds a SQL Server job from its settings: its source, and the connection to the server.

`wiring` has what all jobs share. `run` serves the command line. `building` yields the job to Python code that
has its own Spark session. Both take `reach`, the way to the server.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from adapters.source import wiring
from adapters.source.initial import InitialSnapshot
from adapters.source.span_encoder import SpanEncoder
from adapters.source.wiring import NOBODY, Onlookers, Places, Wired, run_jobs, tasks_of, trying
from adapters.spark.executors import SparkExecutors
from adapters.spark.session import SQLSERVER_JDBC
from adapters.sqlserver.databases import Databases
from adapters.sqlserver.log.database_log import LogBounds
from adapters.sqlserver.log.span_reader import ChangeReader
from adapters.sqlserver.schema.history import history
from adapters.sqlserver.server import connection
from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.position import shown
from adapters.sqlserver.snapshot.chunk_reader import ChunkReader
from adapters.sqlserver.source import SqlServerSource
from adapters.sqlserver.tools import SourceTools
from engine.snapshot.snapshotters import snapshotter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from adapters.sqlserver.server.connection import Reach
    from adapters.sqlserver.snapshot.initial import Held
    from engine.config.settings import Settings
    from engine.config.sources import SqlServerSettings
    from engine.job.loop import Job
    from engine.job.parts import JobParts

    ReachOf = Callable[[SqlServerSettings], Reach]

_LOCAL_ROWS = 2_000
"""Up to this many change rows are read by the metadata connection, since a Spark job costs 0.2 s."""
_LONGEST_WINDOW_S = 40.0
"""The longest window. Each window costs the capture job's delay once, and holds nothing in the database."""


def run(
    settings: Settings,
    *,
    stop: threading.Event,
    spark: SparkSession | None = None,
    onlookers: Onlookers = NOBODY,
    reach: ReachOf = connection.reach,
) -> None:
    """Run the job until `stop` is set, on `spark` if given, else on a session made for it.

    Raises a TidemarkError when the job can't continue. A session made here is stopped at the end.
    """
    snapshotter(settings.snapshot)  # an unusable snapshotter fails before Spark starts, which is slow
    with (
        trying(),
        closing(Server(reach(settings.sqlserver), connection.login_of(settings.sqlserver))) as found,
    ):
        for database in settings.sqlserver.databases:
            found.check(database)
    run_jobs(settings, (SQLSERVER_JDBC,), spark, stop, onlookers, partial(building, reach=reach))


@contextmanager
def building(
    settings: Settings,
    spark: SparkSession,
    onlookers: Onlookers,
    *,
    sleep: Callable[[float], object] = time.sleep,
    wrap: Callable[[JobParts], JobParts] = lambda job_parts: job_parts,
    reach: ReachOf = connection.reach,
) -> Iterator[Job]:
    """Build the job without starting it; see `wiring.building`."""
    wire = partial(_wired, settings, spark, reach)
    with wiring.building(settings, spark, onlookers, wire, sleep=sleep, wrap=wrap) as job:
        yield job


def _wired(
    settings: Settings,
    spark: SparkSession,
    reach: ReachOf,
    places: Places,
) -> Wired:
    source = make_source(settings.in_form(places.form), spark, places, reach)
    return Wired(
        source,
        source.close,
        shown,
        source.run_statement,
        longest_window_s=_LONGEST_WINDOW_S,
        done=source.done,
    )


def make_source(
    settings: Settings,
    spark: SparkSession,
    places: Places,
    reach: ReachOf = connection.reach,
) -> SqlServerSource:
    """The source of the settings."""
    found = Server(reach(settings.sqlserver), connection.login_of(settings.sqlserver))
    chosen = snapshotter(settings.snapshot)
    databases, tasks = Databases(settings, found, chosen.statement), tasks_of(spark)
    jdbc, clock = found.reach.jdbc, places.clock
    tools = SourceTools(
        SpanEncoder(SparkExecutors(spark), places.spans, local_rows=_LOCAL_ROWS),
        ChunkReader(spark, jdbc, places.windows, settings.snapshot, tasks=tasks),
        lambda database: ChangeReader(spark, jdbc, database, places.spans.within("log"), clock.new_id),
        _bounds(settings, tasks),
        clock,
        history(settings.sqlserver.history, settings.events.topic_prefix),
    )
    first: InitialSnapshot[Held] = InitialSnapshot(settings.snapshot, chosen, clock.new_id(), clock.sleep)
    return SqlServerSource(settings, found, databases, tools, first)


def _bounds(settings: Settings, tasks: int) -> LogBounds:
    job = settings.job
    return LogBounds(
        job.span_max_rows, job.span_max_bytes, min(_LOCAL_ROWS, job.span_max_rows), parts=2 * tasks
    )

"""Builds a PostgreSQL job from its settings: its source, and how libpq and pgjdbc reach the server.

`wiring` has what all jobs share. `run` serves the command; `building` gives the job to a caller who drives it
from Python with a session of their own.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from adapters.postgres.events.span_encoder import PostgresSpans
from adapters.postgres.log.slot import drop_slot
from adapters.postgres.log.xmin import SlotXmin
from adapters.postgres.server.connection import Server
from adapters.postgres.server.lock_watch import ANSWERED_WITHIN_S, LockWatch
from adapters.postgres.server.position import shown
from adapters.postgres.server.text_settings import reading_options
from adapters.postgres.server.tls import checked_key, readers_key, tls_parameters
from adapters.postgres.snapshot.chunk_reader import ChunkReader, Jdbc
from adapters.postgres.snapshot.initial import SlotTools
from adapters.postgres.snapshot.local_reader import Bounds, LocalReader
from adapters.postgres.source import PostgresSource
from adapters.postgres.tools import SourceTools
from adapters.source import wiring
from adapters.source.initial import InitialSnapshot
from adapters.source.span_encoder import SpanEncoder
from adapters.source.wiring import LOCAL_ROWS, NOBODY, Onlookers, Places, Wired, run_jobs, tasks_of, trying
from adapters.spark.executors import SparkExecutors
from adapters.spark.session import POSTGRES_JDBC
from engine.config.driver import LIBPQ
from engine.errors import ConfigError
from engine.snapshot.snapshotters import snapshotter

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from adapters.postgres.snapshot.slot_snapshot import Held
    from engine.config.settings import Settings
    from engine.config.sources import PostgresSettings
    from engine.job.loop import Job
    from engine.job.parts import JobParts

_CONNECT_TIMEOUT_S = 10
_DEAD_AFTER = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A peer that acknowledges nothing is given up after half a minute, whether data is being sent or not."""


def run(
    settings: Settings,
    *,
    stop: threading.Event,
    spark: SparkSession | None = None,
    onlookers: Onlookers = NOBODY,
) -> None:
    """Run the job until `stop` is set; on `spark` if given, else on a session made for it.

    Raises a TidemarkError when it can't continue. A session made here is stopped at the end.
    """
    # Report an invalid snapshotter before Spark spends time starting.
    streams = snapshotter(settings.snapshot).should_stream()
    checked_key(settings.postgres.ssl_key)
    server = make_server(settings.postgres)
    with trying():
        server.identity(replicates=streams)
    ended = run_jobs(settings, (POSTGRES_JDBC,), spark, stop, onlookers, building)
    if ended and settings.postgres.drop_slot_on_stop:
        drop_slot(server, settings.postgres.slot)


@contextmanager
def building(
    settings: Settings,
    spark: SparkSession,
    onlookers: Onlookers,
    *,
    sleep: Callable[[float], object] = time.sleep,
    wrap: Callable[[JobParts], JobParts] = lambda job_parts: job_parts,
) -> Iterator[Job]:
    """The job, not yet started; see `wiring.building`."""
    wire = partial(_wired, settings, spark)
    with wiring.building(settings, spark, onlookers, wire, sleep=sleep, wrap=wrap) as job:
        yield job


def _wired(settings: Settings, spark: SparkSession, places: Places) -> Wired:
    settings = settings.in_form(places.form)
    server, clock = make_server(settings.postgres, places.owner), places.clock
    locks = LockWatch(partial(server.open, within_s=ANSWERED_WITHIN_S), clock.monotonic)
    chosen = snapshotter(settings.snapshot)
    first: InitialSnapshot[Held] = InitialSnapshot(settings.snapshot, chosen, clock.new_id(), clock.sleep)
    tools = SlotTools(settings, server, chosen, clock, locks, places.previous)
    source = _source(settings, spark, places, server, first, tools)
    retries = settings.postgres.slot_max_retries
    return Wired(
        source,
        source.close,
        shown,
        source.run_statement,
        first_retries=retries,
        first_backoff_s=settings.postgres.slot_retry_delay_ms / 1000,
        done=source.done,
    )


def _source(
    settings: Settings,
    spark: SparkSession,
    places: Places,
    server: Server,
    first: InitialSnapshot[Held],
    tools: SlotTools,
) -> PostgresSource:
    postgres = settings.postgres
    jdbc = Jdbc(
        jdbc_url(postgres),
        jdbc_properties(postgres) | readers_key(postgres.ssl_key, places.staging),
        postgres.initial_statements,
        settings.snapshot.fetch_size,
    )
    connect = partial(server.connect, options=reading_options(postgres.query_timeout_ms))
    local = LocalReader(connect, Bounds(settings.job.window_local_rows, settings.snapshot.chunk_size))
    reader = ChunkReader(spark, jdbc, places.windows, tasks=tasks_of(spark), local=local)
    xmin = SlotXmin(server, postgres.slot, postgres.xmin_interval_ms / 1000, places.clock.monotonic)
    encoder = SpanEncoder(SparkExecutors(spark), places.spans, local_rows=LOCAL_ROWS)
    spans = PostgresSpans(settings.events, encoder, places.clock, xmin)
    source = PostgresSource(settings, server, SourceTools(spans, reader, first, tools, places.clock))
    source.admit = places.admit
    return source


def make_server(postgres: PostgresSettings, owner: str = "") -> Server:
    """The server of the settings; `owner` holds the job's lease."""
    return Server(
        libpq_parameters(postgres), postgres.initial_statements, owner, postgres.query_timeout_ms / 1000
    )


def libpq_parameters(postgres: PostgresSettings) -> dict[str, str]:
    """Connection parameters under libpq's names; driver options that libpq does not know are left out."""
    if "options" in postgres.driver:
        raise ConfigError("database.options can't be passed on: both roads set options of their own")
    driver = {LIBPQ[name]: value for name, value in postgres.driver.items() if name in LIBPQ}
    return {
        "host": postgres.host,
        "port": str(postgres.port),
        "user": postgres.user,
        "password": postgres.password,
        "dbname": postgres.database,
        "connect_timeout": str(_CONNECT_TIMEOUT_S),
        "keepalives": "1" if postgres.tcp_keepalive else "0",
        **_DEAD_AFTER,
        **tls_parameters(postgres),
        **driver,
    }


def jdbc_url(postgres: PostgresSettings) -> str:
    """The readers' URL. It carries no secret, because Spark shows it in plans."""
    return f"jdbc:postgresql://{postgres.host}:{postgres.port}/{quote(postgres.database, safe='')}"


def jdbc_properties(postgres: PostgresSettings) -> dict[str, str]:
    """The readers' connection properties, under pgjdbc's names.

    The statement timeout is a start-up option, because Spark asks for a query's schema in a session that does
    not run the readers' first statement.
    """
    return {
        "user": postgres.user,
        "password": postgres.password,
        "ApplicationName": "tidemark",
        "options": f"-c lock_timeout=1000 {reading_options(postgres.query_timeout_ms)}",
        "tcpKeepAlive": "true" if postgres.tcp_keepalive else "false",
        "socketTimeout": str(math.ceil(postgres.query_timeout_ms / 1000)),
        **tls_parameters(postgres),
        **postgres.driver,
    }

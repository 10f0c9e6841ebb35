"""A PostgreSQL job put together from its settings: the one place where everything meets.

Owns which implementation stands behind each port, and the directories they share. `run` serves the
command; `build` gives the parts to whoever drives a job from Python on a session of their own.
"""

from __future__ import annotations

import logging
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, assert_never
from urllib.parse import quote, urlparse

from adapters.postgres.chunks import ChunkReader, Jdbc
from adapters.postgres.database import PostgresSource
from adapters.postgres.encode import SpanEncoder
from adapters.postgres.server import Server, drop_slot
from adapters.postgres.visibility import format_lsn
from adapters.postgres.xmin import SlotXmin
from adapters.signals.desk import make_desk
from adapters.sinks.console import ConsoleSink
from adapters.sinks.files import FilesSink
from adapters.sinks.kafka import KafkaSink
from adapters.sinks.null import NullSink
from adapters.spark.ending import end, outlived
from adapters.spark.executors import SparkExecutors
from adapters.spark.session import POSTGRES_JDBC, spark_session
from adapters.spark.state import HadoopStateStore
from engine.config.driver import LIBPQ
from engine.config.settings import SinkKind
from engine.errors import ConfigError, SourceError
from engine.events.heartbeat import heartbeat
from engine.job import Job
from engine.progress import ProgressLog
from engine.pulse import Pulse
from engine.seams import Pace, Seams
from engine.staging import clear

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from engine.config.settings import PostgresSettings, Settings, SinkSettings
    from engine.job import Observation
    from engine.model import Position
    from engine.ports import Executors, Sink
    from signals.answers import Answer

_log = logging.getLogger("adapters")
_LOCAL_ROWS = 20_000
_CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Places:
    """Directories: a URI for the state, a path that driver and executors share for what is staged."""

    checkpoint: str
    staging: str


@dataclass(frozen=True, slots=True)
class Onlookers:
    """Who is told what: every turn's observation, and every signal's answer; None logs them."""

    observe: Callable[[Observation], None] | None = None
    answer: Callable[[Answer], None] | None = None


def run(
    settings: Settings,
    *,
    stop: threading.Event,
    spark: SparkSession | None = None,
    onlookers: Onlookers = Onlookers(),
) -> None:
    """Run the job until `stop` is set; on `spark` if given, else on a session made for it.

    Raises a TidemarkError when it can't go on. A session made here is stopped at the end.
    """
    server = make_server(settings.postgres)
    _reach(server)
    session = spark or spark_session(settings.job.spark_master, settings.job.spark_conf, (POSTGRES_JDBC,))
    try:
        with (
            outlived(session, stop),
            building(settings, session, onlookers, sleep=stop.wait) as job,
        ):
            job.run(stop.is_set)
        if settings.postgres.drop_slot_on_stop:
            drop_slot(server, settings.postgres.slot)
    finally:
        if spark is None:
            end(session)


def _reach(server: Server) -> None:
    """Tell of a wrong password or host before Spark takes its time to start.

    A server that is not up yet is waited for by the job.
    """
    try:
        server.identity()
    except SourceError as error:
        _log.warning("%s", error)


@contextmanager
def building(
    settings: Settings,
    spark: SparkSession,
    onlookers: Onlookers,
    *,
    sleep: Callable[[float], object] = time.sleep,
    wrap: Callable[[Seams], Seams] = lambda seams: seams,
) -> Iterator[Job]:
    """The job, not yet started; its sink and its staging directory are given up at the end.

    `sleep` is its pause before it tries again, in seconds; it may end early when the job is to stop.
    `wrap` puts something between the job and its ports.
    """
    with ExitStack() as held:
        places = held.enter_context(_places(settings))
        held.callback(clear, places.staging)
        sink = make_sink(settings.sink, SparkExecutors(spark), f"{places.staging}/kafka", tasks=_tasks(spark))
        held.callback(sink.close)
        source = _source(settings, spark, places)
        held.callback(source.close)
        desk = make_desk(settings.signals, settings.events.topic_prefix, onlookers.answer)
        held.callback(desk.close)
        seams = Seams(
            source=source,
            sink=sink,
            store=HadoopStateStore(spark, places.checkpoint),
            executors=SparkExecutors(spark),
            desk=desk,
            pulse=_pulse(settings, source),
            now=time.time,
            sleep=sleep,
            local_rows=_LOCAL_ROWS,
            show=_shown,
        )
        yield Job(wrap(seams), _pace(settings, spark), _observer(settings, onlookers))


def _shown(position: Position) -> str:
    return format_lsn(int(position.order[0]))


def _observer(settings: Settings, onlookers: Onlookers) -> Callable[[Observation], None]:
    return onlookers.observe or ProgressLog(settings.job.progress_interval_ms / 1000)


def _source(settings: Settings, spark: SparkSession, places: Places) -> PostgresSource:
    postgres = settings.postgres
    jdbc = Jdbc(
        jdbc_url(postgres),
        jdbc_properties(postgres),
        postgres.initial_statements,
        settings.snapshot.fetch_size,
    )
    reader = ChunkReader(spark, jdbc, places.staging, tasks=_tasks(spark))
    server = make_server(postgres)
    xmin = SlotXmin(server, postgres.slot, postgres.xmin_interval_ms / 1000)
    encoder = SpanEncoder(
        settings.events, SparkExecutors(spark), places.staging, xmin, local_rows=_LOCAL_ROWS
    )
    return PostgresSource(settings, server, encoder, reader)


def _pulse(settings: Settings, source: PostgresSource) -> Pulse:
    job = settings.job
    return Pulse(
        job.heartbeat_interval_ms / 1000,
        partial(heartbeat, settings.events),
        partial(source.run_statement, job.heartbeat_query),
    )


def _tasks(spark: SparkSession) -> int:
    return max(1, spark.sparkContext.defaultParallelism)


def _pace(settings: Settings, spark: SparkSession) -> Pace:
    job, snapshot = settings.job, settings.snapshot
    return Pace(
        chunk_rows=snapshot.chunk_size,
        window_s=job.window_seconds,
        window_bytes=job.window_max_bytes,
        max_chunks=job.window_max_chunks or None,
        tasks=_tasks(spark),
        max_lag_s=job.max_lag_ms / 1000,
        retries=None if job.max_retries < 0 else job.max_retries,
        first_retries=settings.postgres.slot_max_retries,
        longest_backoff_s=max(0.5, job.restart_wait_ms / 1000),
    )


@contextmanager
def _places(settings: Settings) -> Iterator[Places]:
    """The directories of a job; without a checkpoint in the settings, temporary ones."""
    with tempfile.TemporaryDirectory(prefix="tidemark-") as temporary:
        checkpoint = settings.job.checkpoint or f"{temporary}/checkpoint"
        staging = settings.job.staging or _staging_beside(settings, checkpoint, temporary)
        clear(staging)
        yield Places(checkpoint, staging)


def _staging_beside(settings: Settings, checkpoint: str, temporary: str) -> str:
    """Beside a local checkpoint, where there is room for state; else in a temporary directory."""
    place = urlparse(checkpoint)
    if settings.job.checkpoint and place.scheme in {"", "file"}:
        return str(Path(place.path).absolute() / "staging")
    return f"{temporary}/staging"


def make_server(postgres: PostgresSettings) -> Server:
    """The server of the settings."""
    return Server(libpq_parameters(postgres), postgres.initial_statements)


def make_sink(settings: SinkSettings, executors: Executors, staging: str, *, tasks: int) -> Sink:
    """The sink of the settings; one that stages does so in a directory of its own."""
    match settings.kind:
        case SinkKind.FILES:
            return FilesSink(settings.directory)
        case SinkKind.CONSOLE:
            return ConsoleSink()
        case SinkKind.NULL:
            return NullSink()
        case SinkKind.KAFKA:
            return KafkaSink(settings.kafka, executors, staging, tasks=tasks)
        case _:
            assert_never(settings.kind)


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
        **_tls(postgres),
        **driver,
    }


def _tls(postgres: PostgresSettings) -> dict[str, str]:
    """The settings that libpq and pgjdbc name alike."""
    given = {
        "sslmode": postgres.ssl_mode.value,
        "sslcert": postgres.ssl_cert,
        "sslkey": postgres.ssl_key,
        "sslpassword": postgres.ssl_password,
        "sslrootcert": postgres.ssl_root_cert,
    }
    return {name: value for name, value in given.items() if value}


def jdbc_url(postgres: PostgresSettings) -> str:
    """The readers' URL; it carries no secret, since Spark shows it in plans."""
    return f"jdbc:postgresql://{postgres.host}:{postgres.port}/{quote(postgres.database, safe='')}"


def jdbc_properties(postgres: PostgresSettings) -> dict[str, str]:
    """The readers' connection properties, under pgjdbc's names.

    The lock timeout is a start-up option, because Spark asks for a query's schema in a session
    that does not run the readers' first statement.
    """
    return {
        "user": postgres.user,
        "password": postgres.password,
        "ApplicationName": "tidemark",
        "options": "-c lock_timeout=1000",
        "tcpKeepAlive": "true" if postgres.tcp_keepalive else "false",
        **_tls(postgres),
        **postgres.driver,
    }

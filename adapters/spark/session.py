"""The SparkSession: the active one, or a new one for a job that runs on its own.

Owns the settings that the job relies on; everything under `tidemark.spark.conf.` overrides them.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from adapters.spark.cluster.shipping import executors_python, is_cluster, shipped
from adapters.spark.connect import refuse_connect
from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.failures import telling_line
from adapters.spark.java_output import quiet_start
from adapters.spark.secrecy import guards, launched_with, warn_of_open
from adapters.spark.worker import NICENESS
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger("adapters")
POSTGRES_JDBC = "org.postgresql:postgresql:42.7.14"
SQLSERVER_JDBC = "com.microsoft.sqlserver:mssql-jdbc:12.10.2.jre11"
JARS = Path(pyspark.__file__).parent / "jars"
"""Spark's own jars. Packages found here under Ivy's file names are not downloaded; see the Dockerfile."""

_MOST_NICE = 19

_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Our own errors say what happened. A cancelled window's stack traces would look like faults.
    "spark.log.level": "FATAL",
    # A worker keeps pyarrow and the codec loaded; tasks are short.
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    # Jobs that share a session are served in turns, each in pools of its own (`pools.py`). On a cluster turns
    # get the next free slot, ahead of windows being read (`pools.TURNS`).
    "spark.scheduler.mode": "FAIR",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    # What is kept is compressed before Spark gets it (`kept_blocks.py`). PySpark's default would do it again.
    "spark.rdd.compress": "false",
    # A worker's next batch reuses the memory of the last one. If that were returned to the system, every page
    # would cost a page fault. Milliseconds for Arrow's allocator, bytes for the C library's.
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "10000",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def spark_session(
    master: str | None,
    conf: Mapping[str, str],
    packages: tuple[str, ...] = (),
    archive: str | None = None,
) -> SparkSession:
    """The active session if there is one, else a new one on `master`.

    Without a master it is spark-submit's, or `local[*]`. A local session binds to loopback, because nothing
    outside the machine needs to reach the driver. Executors of a cluster get the application as an archive:
    `archive`, or one that is made now.
    """
    active = SparkSession.getActiveSession()
    refuse_connect(master, active)
    if active is not None:
        warn_of_open(active.sparkContext)
        return active
    _log.info("starting Spark")
    settings = _settings(master or _submitted_master() or "local[*]", conf, packages, archive)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    ours = SparkContext._active_spark_context is None  # noqa: SLF001  there is no public way
    launched = _conf(launched_with(settings))
    try:
        session = _start(launched, builder)
    except SPARK_ERRORS as error:
        # The traceback is Java's, with a hundred lines.
        _log.debug("Spark's own words:", exc_info=error)
        raise SourceError(
            f"can't be started: {telling_line(error)}",
            where="spark",
            hint="look at what Java wrote above, spark.local.dir (is its disk full?), spark.driver.memory and"
            " JAVA_HOME; tidemark run -v shows all of it",
        ) from error
    warn_of_open(session.sparkContext)
    _quiet(session.sparkContext)
    if ours and str(session.sparkContext.master).startswith("local"):
        _give_way(session.sparkContext)
    return session


def _settings(
    master: str, conf: Mapping[str, str], packages: tuple[str, ...], archive: str | None
) -> dict[str, str]:
    """The settings of a new session. Also sets the environment that its workers start with."""
    settings = {**_DEFAULTS, **conf}
    # On this machine workers must run this interpreter: another one lacks our packages.
    default = "python3" if is_cluster(master) else sys.executable
    os.environ["PYSPARK_PYTHON"] = executors_python(settings, os.environ, default)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", **settings}
    settings |= drivers(packages, settings, JARS)
    settings |= shipped(master, settings, archive)
    if not _runs_in_the_cluster():
        settings |= guards(master, settings)
    return {"spark.app.name": "tidemark", "spark.master": master, **settings}


def drivers(packages: Sequence[str], settings: Mapping[str, str], jars: Path) -> dict[str, str]:
    """The settings that add `packages`, from `jars` or else from a repository.

    Packages from `settings` are added as well. The executors get all of them.
    """
    files = {package: jars / _file_name(package) for package in packages}
    there = [str(file) for file in files.values() if file.exists()]
    fetched = [package for package, file in files.items() if not file.exists()]
    added = {"spark.jars": there, "spark.jars.packages": fetched}
    return {
        name: ",".join((*values, *filter(None, [settings.get(name)])))
        for name, values in added.items()
        if values
    }


def _file_name(package: str) -> str:
    group, artifact, version = package.split(":")
    return f"{group}_{artifact}-{version}.jar"


def _start(conf: SparkConf, builder: SparkSession.Builder) -> SparkSession:
    """Start the JVM if there is none, and the session. Java is quiet unless that fails or details are logged.

    Settings of `conf` are in the JVM's command line, those of the builder are not.
    """
    there = SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ  # noqa: SLF001  no public way
    if there or _log.isEnabledFor(logging.DEBUG):
        SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001  likewise
        return builder.getOrCreate()
    with quiet_start() as output:
        gateway = launch_gateway(conf, output.popen_options)  # type: ignore[no-untyped-call]  # PySpark's
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)  # noqa: SLF001  likewise
        return builder.getOrCreate()


def _conf(settings: Mapping[str, str]) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    return conf


def _give_way(context: SparkContext) -> None:
    """Lower the priority of Spark's JVM and its workers below the driver's and a local database's.

    A window is read by as many tasks as there are cores, while a turn needs a core only for moments. Linux
    keeps a priority per thread; threads and processes that it starts inherit the priority.
    """
    jvm = getattr(context._gateway, "proc", None)  # noqa: SLF001  there is no public way
    if jvm is None:  # not ours: spark-submit started it
        return
    niceness = min(_MOST_NICE, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    done: set[int] = set()
    while left := _threads(jvm.pid) - done:
        for thread in left:
            with suppress(OSError):  # it may have ended
                os.setpriority(os.PRIO_PROCESS, thread, niceness)
        done |= left


def _threads(process: int) -> set[int]:
    """A process's threads, if the system shows them; a thread may start others before it is reached."""
    try:
        return {int(path.name) for path in Path(f"/proc/{process}/task").iterdir()}
    except OSError:
        return {process}


def _quiet(context: SparkContext) -> None:
    """Keep the accumulator server from printing that the JVM has ended.

    If a report of a task is lost that way, `kept_blocks.py` finds out.
    """
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_request: None


def _submitted_master() -> str | None:
    """The master given to spark-submit. Its JVM exists before us; only then can it be asked."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    SparkContext._ensure_initialized()  # noqa: SLF001  there is no public way
    return SparkConf().get("spark.master", None)


def _runs_in_the_cluster() -> bool:
    """Whether spark-submit has put this driver into the cluster, whose processes share a secret already."""
    if _submitted_master() is None:
        return False
    return SparkConf().get("spark.submit.deployMode", "client") == "cluster"

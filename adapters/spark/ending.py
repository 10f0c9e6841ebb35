"""How a job ends together with Spark, or after it.

A SIGTERM to the whole process group (from a service manager or `timeout`) ends the JVM, too. Calls to the JVM
then fail in many ways, up to a second before the signal reaches the job. This module tells that from a fault.
The next start repeats what was in flight.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from adapters.java_faults import java_faults
from adapters.spark.exceptions import SPARK_ERRORS, given_up_by_master
from adapters.spark.failures import MORE_MEMORY, ran_out_of_memory
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_log = logging.getLogger("adapters")
_SIGNAL_WITHIN_S = 1.5
_POLL_S = 0.05
_ENDS_WITHIN_S = 5.0
_NO_MEMORY: Final = 52
"""Spark's exit code of a JVM that has no memory left. The job's own error does not always arrive."""
STOPPED_WITHIN_S = 4.0


def spark_ended(spark: SparkSession) -> bool:
    """Whether the session's JVM is gone or shutting down."""
    context = spark.sparkContext
    jvm = context._jsc  # noqa: SLF001  PySpark has no public way to ask
    try:
        return jvm is None or bool(jvm.sc().isStopped())
    except SPARK_ERRORS:
        return True


@contextlib.contextmanager
def outlived(spark: SparkSession, stop: threading.Event) -> Iterator[None]:
    """Reduce failures that come from Spark being stopped together with us to one log line.

    Raises SourceError if Spark ended and nobody asked us to stop; other failures pass through.
    """
    try:
        yield
    except Exception as error:
        if not _ends(spark, stop):
            raise
        if not stop.wait(_SIGNAL_WITHIN_S):
            raise _ended(spark, error) from error
        _log.info("Spark ended before the job; the next start repeats the unfinished work")


def _ended(spark: SparkSession, error: Exception) -> SourceError:
    if any(given_up_by_master(fault) for below in _with_causes(error) for fault in java_faults(below)):
        return SourceError(
            "Spark ended: executors have ended one after the other, and the master has given the job up",
            where="spark",
            hint="look at the executors' logs; then start again, and the job goes on",
        )
    if ran_out_of_memory() or _exit_code(spark) == _NO_MEMORY:
        hint = f"{MORE_MEMORY}; then start again, and the job goes on"
        return SourceError("Spark ended for lack of memory", where="spark", hint=hint)
    return SourceError("Spark ended", where="spark", hint="start again; the job continues")


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__


def _exit_code(spark: SparkSession) -> int | None:
    """What the JVM that this process started has ended with; None if it is not ours, or has not ended."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001  PySpark has no public way to ask
    process = getattr(gateway, "proc", None)
    if process is None:
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return int(process.wait(_ENDS_WITHIN_S))
    return None


def _ends(spark: SparkSession, stop: threading.Event) -> bool:
    """Whether Spark has ended; a JVM that was signalled with us may need a moment to show it."""
    until = time.monotonic() + _SIGNAL_WITHIN_S
    while not (ended := spark_ended(spark)) and stop.is_set() and time.monotonic() < until:
        time.sleep(_POLL_S)
    return ended


def end(spark: SparkSession) -> None:
    """Stop the session; does nothing if its JVM has ended already.

    On a cluster the driver's JVM removes what it has shipped, thousands of files. On a slow disk that takes
    longer than the command waits for a job that was asked to stop. The JVM then finishes by itself.
    """
    if spark_ended(spark):
        return
    stopping: Future[None] = Future()
    threading.Thread(target=_stop, args=(spark, stopping), name="tidemark-spark-stop", daemon=True).start()
    try:
        stopping.result(STOPPED_WITHIN_S)
    except TimeoutError:
        _log.info("Spark is still stopping, and finishes by itself")
    except SPARK_ERRORS:
        if not spark_ended(spark):
            raise


def _stop(spark: SparkSession, stopping: Future[None]) -> None:
    try:
        spark.stop()
    except BaseException as error:  # noqa: BLE001  raised where the result is asked for
        stopping.set_exception(error)
    else:
        stopping.set_result(None)

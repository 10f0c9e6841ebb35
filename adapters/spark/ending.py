"""How a job ends together with Spark, or after it.

A SIGTERM to the whole process group (from a service manager or `timeout`) ends the JVM, too. Calls to the JVM
then fail in many ways, up to a second before the signal reaches the job. This module tells that from a fault.
The next start repeats what was in flight.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING

from adapters.spark.failures import SPARK_ERRORS
from engine.errors import SourceError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_log = logging.getLogger("adapters")
_SIGNAL_WITHIN_S = 1.5
_POLL_S = 0.05


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
            raise SourceError("Spark ended", place="spark", hint="start again; the job goes on") from error
        _log.info("Spark ended before the job; what was in flight is done again at the next start")


def _ends(spark: SparkSession, stop: threading.Event) -> bool:
    """Whether Spark has ended; a JVM that was signalled with us may need a moment to show it."""
    until = time.monotonic() + _SIGNAL_WITHIN_S
    while not (ended := spark_ended(spark)) and stop.is_set() and time.monotonic() < until:
        time.sleep(_POLL_S)
    return ended


def end(spark: SparkSession) -> None:
    """Stop the session; does nothing if its JVM has ended already."""
    if spark_ended(spark):
        return
    try:
        spark.stop()
    except SPARK_ERRORS:
        if not spark_ended(spark):
            raise

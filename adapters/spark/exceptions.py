"""What PySpark raises, and what Spark says only in words. `failures` turns exceptions into our errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from adapters.java_faults import JavaFault

SPARK_ERRORS = (Py4JError, PySparkException, OSError, EOFError)
"""What PySpark raises for a failed job or task, and for a JVM or a worker that is gone."""

_GIVEN_UP: Final = "Master removed our application"
"""Spark 4.1.4 fails the jobs then with a SparkException that has neither a condition nor a cause."""


def given_up_by_master(fault: JavaFault) -> bool:
    """Whether the master of a standalone cluster has removed the job: no executor of ten was left."""
    return _GIVEN_UP in fault.message

"""What PySpark raises. `failures` turns it into our errors."""

from __future__ import annotations

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types
from pyspark.errors import PySparkException

SPARK_ERRORS = (Py4JError, PySparkException, OSError, EOFError)
"""What PySpark raises for a failed job or task, and for a JVM or a worker that is gone."""

"""The way to the formats' own Java classes, for what no statement shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(spark: SparkSession) -> tuple[Any, Any]:
    """The JVM of a session, and the session there."""
    session: Any = spark
    return session._jvm, session._jsparkSession  # noqa: SLF001  there is no public way

"""The way to the formats' own Java classes, for what no statement shows, and settings of a session."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def jvm_of(spark: SparkSession) -> tuple[Any, Any]:
    """The JVM of a session, and the session there."""
    session: Any = spark
    return session._jvm, session._jsparkSession  # noqa: SLF001  there is no public way


def activate(spark: SparkSession) -> None:
    """Let the formats' own classes see the settings of this session, in this thread."""
    jvm, session = jvm_of(spark)
    SparkSession._get_j_spark_session_class(jvm).setActiveSession(session)  # noqa: SLF001  there is no public way


@contextmanager
def configured(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Set these of a session, for the time of a block."""
    for option, value in conf.items():
        spark.conf.set(option, value)
    try:
        yield
    finally:
        for option in conf:
            spark.conf.unset(option)

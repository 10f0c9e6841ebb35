"""Scheduler pools: each job of a shared session has one of its own, so that Spark serves them in turns.

Spark keeps a thread's pool as a local property, and the threads that a job starts are given its pool here. A
session that schedules FIFO ignores pools.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from adapters.spark.exceptions import SPARK_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_POOL: Final = "spark.scheduler.pool"
_DESCRIPTION: Final = "spark.job.description"
SENDS: Final = "tidemark: events to the sink"
"""The description of jobs that wait for the sink, however slow it is."""
TURNS: Final = "tidemark-turns"
"""The scheduler's pool for what a turn waits for: it gets the next free slot, ahead of windows being read.

Each job has such a pool beside its own.
"""


def pool_of(context: SparkContext) -> str | None:
    """This thread's pool; None: the default one."""
    found = context.getLocalProperty(_POOL)
    return str(found) if found else None


def use_pool(context: SparkContext, pool: str | None) -> None:
    """Count all jobs that this thread starts from now on to a pool."""
    context.setLocalProperty(_POOL, pool)  # type: ignore[arg-type]  # None takes it back


@contextmanager
def in_pool(spark: SparkSession, pool: str | None) -> Iterator[None]:
    """This thread's jobs belong to a pool until the end of the context."""
    context = spark.sparkContext
    before = pool_of(context)
    use_pool(context, pool)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # Spark may have ended
            use_pool(context, before)


@contextmanager
def described(context: SparkContext, what: str) -> Iterator[None]:
    """This thread's jobs have this description until the end of the context; empty: none."""
    if not what:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, what)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # Spark may have ended
            context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # None takes it back


@contextmanager
def ahead(spark: SparkSession) -> Iterator[None]:
    """This thread's jobs get the next free slot until the end of the context."""
    before = pool_of(spark.sparkContext)
    with in_pool(spark, f"{before}-{TURNS}" if before else TURNS):
        yield

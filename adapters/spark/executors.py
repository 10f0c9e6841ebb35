"""Tasks on Spark's executors, one per item, and the same in the driver.

A failed task ends as one of our errors (`outcomes.py`, `failures.py`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from adapters.spark.exceptions import SPARK_ERRORS
from adapters.spark.failures import of_executors
from adapters.spark.outcomes import Attempt, result
from adapters.spark.pools import described

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")


class SparkExecutors:
    """Runs tasks as one Spark job; the first of our errors is raised once all tasks have ended.

    `what` describes the job to Spark.
    """

    def __init__(self, spark: SparkSession, what: str = "") -> None:
        self._context, self._what = spark.sparkContext, what

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order.

        Raises the task's own TidemarkError, or SourceError if a task or the job fails for any other reason.
        """
        if not items:
            return []
        try:
            with described(self._context, self._what):
                outcomes = self._context.parallelize(items, len(items)).map(Attempt(task)).collect()
        except SPARK_ERRORS as error:
            raise of_executors(error, f"a job of {len(items)} tasks") from error
        return [result(outcome) for outcome in outcomes]


class ThreadExecutors:
    """Runs tasks in the driver, in several threads, so that they don't wait for slots that Spark tasks hold.

    For tasks that release the GIL most of their time, as Arrow's do.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order.

        Raises the first error once all have ended.
        """
        with ThreadPoolExecutor(self._threads, thread_name_prefix="tidemark-emit") as pool:
            return [future.result() for future in [pool.submit(task, item) for item in items]]


class LocalExecutors:
    """Runs tasks in the driver, one after the other."""

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order."""
        return [task(item) for item in items]

"""Tasks on Spark's executors, one per item, and the same in the driver.

Owns how a failed task becomes one of our errors: a task raises ours, Spark wraps it in its own and
its text, and the cause must not be lost on the way.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from adapters.spark.failures import SPARK_ERRORS, job_error
from adapters.spark.worker import spare_worker
from engine.errors import TidemarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[Item, Result]):
    """A task that hands its own errors back as values, so that their class survives."""

    task: Callable[[Item], Result]

    def __call__(self, item: Item) -> Result | TidemarkError:
        try:
            return self.task(item)
        except TidemarkError as error:
            return error
        finally:
            spare_worker()


class SparkExecutors:
    """Runs tasks as one Spark job; the first error of ours is raised once all have ended."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order.

        Raises the task's own TidemarkError, or SourceError when a task or the job dies of anything else.
        """
        if not items:
            return []
        try:
            attempted = self._context.parallelize(items, len(items)).map(_Attempt(task)).collect()
        except SPARK_ERRORS as error:
            raise job_error(error, f"a job of {len(items)} tasks") from error
        return [_result(one) for one in attempted]


class ThreadExecutors:
    """Runs tasks here, so many at once: they don't wait for slots that long tasks of Spark's hold.

    For tasks that leave Python's lock alone for most of their time, as Arrow's do.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order. Raises the first error once all ended."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="tidemark-emit") as pool:
            return [one.result() for one in [pool.submit(task, item) for item in items]]


class LocalExecutors:
    """Runs tasks here, one after the other."""

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run `task` on every item; results in the items' order."""
        return [task(item) for item in items]


def _result(attempted: Result | TidemarkError) -> Result:
    if isinstance(attempted, TidemarkError):
        raise attempted
    return attempted

"""The Spark jobs that read windows: each window's have a job group of their own, by which they are cancelled.

Owns the groups, the directories and the number of tasks. The chunk readers own what the jobs read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.spark.cluster import preflight
from adapters.spark.pools import pool_of, use_pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from engine.staging.rows import StagingArea


class WindowJobs:
    """The windows' jobs on one session. `area` is where they stage rows; `slots` tells how many tasks to use.

    They belong to the scheduler's pool of the thread that creates this.
    """

    def __init__(self, spark: SparkSession, area: StagingArea, *, slots: Callable[[], int]) -> None:
        self._context, self._area, self._slots = spark.sparkContext, area, slots
        self._pool = pool_of(self._context)

    def begin(self, window_id: str) -> StagingArea:
        """Count all jobs that this thread starts from now on among the window's; returns where they stage.

        Raises ConfigError if an executor that has joined lacks something.
        """
        preflight.check_new(self._context, self._pool)
        use_pool(self._context, self._pool)
        self._context.setJobGroup(_group(window_id), f"window {window_id}", interruptOnCancel=True)
        return self.area(window_id)

    def tasks_of(self, most_tasks: int = 0) -> int:
        """How many tasks may read a window that asks for at most `most_tasks`; 0: no limit but ours."""
        tasks = self._slots()
        return min(most_tasks or tasks, tasks)

    def area(self, window_id: str) -> StagingArea:
        """Where a window's rows are staged."""
        return self._area.within(window_id)

    def cancel(self, window_id: str) -> None:
        """Stop a window's tasks, and refuse the jobs that it has not started yet."""
        # A window may be cancelled while its job is still being planned, which PySpark's own method misses.
        context = self._context._jsc.sc()  # noqa: SLF001
        context.cancelJobGroupAndFutureJobs(_group(window_id))


def _group(window_id: str) -> str:
    return f"tidemark-{window_id}"

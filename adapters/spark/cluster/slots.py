"""How many tasks Spark runs at once. Asked anew for every window, because executors come and go.

With dynamic allocation Spark asks for executors only while tasks wait. So a window is cut into twice as many
tasks as run at once now, up to what the most executors allow, and the next windows find more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_GROWTH: Final = 2
_UNBOUNDED: Final = 1 << 20


def slots_of(spark: SparkSession) -> Callable[[], int]:
    """Tells how many tasks a window should be read by."""
    context = spark.sparkContext
    running = _running(context)
    if str(context.master).startswith("local"):
        fixed = running()
        return lambda: fixed
    conf = context.getConf()
    if str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() != "true":
        return running
    executors = _number(conf.get("spark.dynamicAllocation.maxExecutors"), _UNBOUNDED)
    most = executors * _number(conf.get("spark.executor.cores"), 1)
    return lambda: with_growth(running(), most)


def now(context: SparkContext) -> int:
    """The tasks that run at once on the executors that are there; at least 1."""
    return _running(context)()


def _running(context: SparkContext) -> Callable[[], int]:
    """Tells that. Where a default parallelism is set, Spark would tell the setting, so slots are counted."""
    return partial(_counted if context.getConf().get("spark.default.parallelism") else _told, context)


def _told(context: SparkContext) -> int:
    return max(1, int(context.defaultParallelism))


def _counted(context: SparkContext) -> int:
    scala = context._jsc.sc()  # noqa: SLF001  there is no public way
    return max(1, int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile())))


def with_growth(running: int, most: int) -> int:
    """The tasks of a window where Spark starts more executors for tasks that wait."""
    return max(running, min(_GROWTH * running, most))


def _number(text: str | None, otherwise: int) -> int:
    """A setting; Spark's own default for the most executors is `infinity`."""
    return int(text) if text and text.isdecimal() else otherwise

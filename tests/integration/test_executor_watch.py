"""What Spark says of executors and stages while tasks run."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from adapters.spark.cluster.executor_watch import look_at
from adapters.spark.executors import SparkExecutors
from adapters.spark.pools import SENDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from adapters.spark.cluster.executor_watch import Seen

pytestmark = pytest.mark.integration
TASK_S = 3.0


def seen_meanwhile(spark: SparkSession, what: str) -> Seen:
    """What is seen in the middle of a job with this description."""
    running = threading.Thread(target=SparkExecutors(spark, what).map, args=(time.sleep, [TASK_S]))
    running.start()
    deadline = time.monotonic() + 60
    while not (seen := look_at(spark.sparkContext)).waits:
        assert time.monotonic() < deadline
    time.sleep(TASK_S / 2)
    seen = look_at(spark.sparkContext)
    running.join()
    return seen


def test_a_stage_whose_tasks_run_is_seen_unless_it_sends_to_the_sink(spark: SparkSession):
    reads, sends = seen_meanwhile(spark, ""), seen_meanwhile(spark, SENDS)
    idle = look_at(spark.sparkContext)

    assert (len(reads.stages), len(sends.stages)) == (1, 0)
    assert reads.waits
    assert sends.waits
    assert not idle.waits

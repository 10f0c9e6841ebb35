"""What our own SparkSession does on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from adapters.spark.worker import NICENESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration


def test_workers_stand_back_behind_the_driver(spark: SparkSession):
    def niceness(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.from_pydict({"n": [os.getpriority(os.PRIO_PROCESS, 0)]})

    behind = min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    found = spark.range(1).repartition(1).mapInArrow(niceness, "n long").collect()

    assert {row["n"] for row in found} == {behind}


@pytest.mark.parametrize(
    "conf",
    [{"spark.driver.memory": "1m"}, {"spark.local.dir": "/proc/nowhere"}],
    ids=["a heap too small", "no directory"],
)
def test_spark_that_does_not_start_is_told_in_one_line(conf: dict[str, str]):
    # Java says in a line or two of its own why it does not start.
    program = (
        "from adapters.spark.session import spark_session\n"
        "from engine.errors import SourceError\n"
        f"try: spark_session('local[1]', {conf!r})\n"
        "except SourceError as error: print(error)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_DIRS"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=True)

    *javas, last = done.stdout.splitlines()

    assert last.startswith("spark: can't be started: ")
    assert "spark.local.dir" in last
    assert len(javas) <= 2
    assert "Traceback" not in done.stdout + done.stderr

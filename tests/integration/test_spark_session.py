"""What our own SparkSession does on this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from adapters.spark.session import NICENESS

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

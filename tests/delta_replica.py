"""Runs the code for a Delta table in PYTHON.md, with Delta in the session, and prints what the table holds.

A program of its own: Delta's extension must be there when Spark starts. It crashes once behind each of the
first merges, before Spark knows that the batch is done.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import StreamingQueryException

from adapters.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}
CRASH = "crash behind a merge"
PAGE = Path(__file__).parents[1] / "PYTHON.md"


def code(events: str, lake: str, topic: str) -> str:
    """PYTHON.md's block, with these places."""
    block: str
    (block,) = [
        found
        for found in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
        if "def merge" in found
    ]
    for then, now in {
        "/data/shop/events": events,
        "/lake/": f"{lake}/",
        "shop.public.orders": topic,
        "foreachBatch(merge)": "foreachBatch(fault(merge))",
    }.items():
        assert then in block
        block = block.replace(then, now)
    return block


def main(events: str, lake: str, topic: str) -> None:
    spark = spark_session("local[2]", SETTINGS, (DELTA,))
    crashed: list[int] = []

    def fault(merge: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        def merged(changes: Any, batch: int) -> None:
            merge(changes, batch)
            if batch not in crashed:
                crashed.append(batch)
                raise RuntimeError(CRASH)

        return merged

    failures = 0
    while True:
        names: dict[str, Any] = {"spark": spark, "fault": fault}
        exec(code(events, lake, topic), names)  # noqa: S102  it is ours
        try:
            names["query"].processAllAvailable()
        except StreamingQueryException as error:
            if CRASH not in str(error):
                raise
            failures += 1
            sys.stderr.write(f"batch {max(crashed)} is taken again\n")
            continue
        names["query"].stop()
        break
    rows = spark.read.format("delta").load(f"{lake}/orders").orderBy("id").collect()
    history = spark.sql(f"DESCRIBE HISTORY delta.`{lake}/orders`").collect()
    merges = sum(entry["operation"] == "MERGE" for entry in history)
    print(
        json.dumps(
            {"rows": [row.asDict() for row in rows], "merges": merges, "failures": failures}, default=str
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Rows that wait on the executors, on one machine: a whole job without files that tasks and driver share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from adapters.spark import kept_blocks
from adapters.spark.block_executors import BlockExecutors
from adapters.spark.kept_blocks import map_staging
from adapters.spark.task_reports import reports
from adapters.staging.executor_blocks import ExecutorBlock, ExecutorBlocks
from engine.errors import SourceError
from tests import replay
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.driven import driven

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from adapters.spark.task_reports import Report
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_a_snapshot_under_load_gives_the_source(database: Database, tmp_path: Path, spark: SparkSession):
    source.fill(database, orders=60_000, stock=2_000)
    more = {
        "signal__data__collection": source.SIGNALS,
        "tidemark__staging": "executors",
        "tidemark__window__local__rows": "0",
    }
    with driven(database, tmp_path, spark, **more) as job:
        with postgres_users(database, orders=60_000, stock=2_000, per_s=200) as writers:
            data = '{"data-collections": ["public.orders", "inventory.stock"]}'
            with database.connect() as connection:
                connection.execute(
                    f"INSERT INTO {source.SIGNALS} VALUES ('x', 'execute-snapshot', '{data}')".encode()
                )
            job.until_answered("finished", 2)
            writers.stop()
        with database.connect() as connection:
            # A span for the executors.
            connection.execute("UPDATE public.orders SET placed_at = now()")
        job.until_drained(database)

    with database.connect() as connection:
        shapes = {f"tm.{'.'.join(table)}": replay.shape_of(connection, table) for table in source.TABLES}
        figures = replay.replay(connection, tmp_path / "events", shapes)
        for table in source.TABLES:
            assert replay.compare(connection, table).equal, replay.differences(connection, table)
    assert figures.operations["r"] > 15_000


@dataclass(frozen=True)
class Stage:
    """A task that stages a block and leaves a file for every time that it runs."""

    store: ExecutorBlocks
    directory: Path

    def __call__(self, number: int) -> ExecutorBlock:
        (self.directory / uuid4().hex).touch()
        block = self.store.create(f"run-{number}")
        block.write(bytes([number]) * 3_000_000)
        return block.finish()


def size(block: ExecutorBlock) -> int:
    with block.open("rows that were staged") as content:
        return len(content)


def first(block: ExecutorBlock) -> int:
    with block.open("rows that were staged") as content:
        return int(content.to_pybytes()[0])


def rows_at_once(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [batch.num_rows for batch in batches]


@pytest.mark.parametrize("most", [1, 100])
def test_a_task_gets_no_larger_batches_than_the_session_says(spark: SparkSession, most: int):
    """The chunk readers set this by the size of the rows, which is what bounds a task's memory."""
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(most))
    frame = session.range(0, 350, numPartitions=2)

    sizes = kept_blocks.run(frame, rows_at_once, ExecutorBlocks())

    assert [sum(of_task) for of_task in sizes] == [175, 175]
    assert max(map(max, sizes)) == most


def test_tasks_open_blocks_where_they_are_kept(tmp_path: Path, spark: SparkSession):
    store, others = ExecutorBlocks(), len(kept_rows(spark))
    blocks = map_staging(spark, Stage(store, tmp_path), [1, 2, 3], store)
    own = store.create("own")
    own.write(b"of the driver")

    assert BlockExecutors(spark).map(size, [*blocks, own.finish()]) == [*[3_000_000] * 3, 13]
    assert BlockExecutors(spark).map(first, blocks) == [1, 2, 3]
    assert size(blocks[1]) == 3_000_000
    assert len([*tmp_path.iterdir()]) == 3
    store.clear()
    assert len(kept_rows(spark)) == others


def test_a_block_that_is_lost_is_not_computed_again(tmp_path: Path, spark: SparkSession):
    """Another reading would see other rows than those that the driver knows the keys of."""
    store = ExecutorBlocks()
    blocks = map_staging(spark, Stage(store, tmp_path), [1, 2], store)
    for rows in kept_rows(spark):
        rows.unpersist(True)  # noqa: FBT003  a JVM object

    with pytest.raises(SourceError, match="staged are lost"):
        BlockExecutors(spark).map(size, blocks)
    with pytest.raises(SourceError, match="staged are lost"):
        size(blocks[0])
    assert len([*tmp_path.iterdir()]) == 2


@dataclass(frozen=True)
class ReportItems:
    """A task that reports its items, and fails at 0."""

    report: Report

    def __call__(self, items: Iterable[int]) -> Iterable[float]:
        for item in items:
            self.report(b"%d" % item)
            yield 1 / item


def test_each_job_gets_the_reports_of_its_own_tasks(spark: SparkSession):
    context = spark.sparkContext
    with reports(context) as good, reports(context) as bad:
        assert context.parallelize([1, 2, 3], 3).mapPartitions(ReportItems(good.report)).count() == 3
        with pytest.raises(Exception, match="division by zero"):
            context.parallelize([0], 1).mapPartitions(ReportItems(bad.report)).count()

    assert sorted(good.all) == [b"1", b"2", b"3"]
    assert bad.all == []
    assert good.report.reports.value == {}


def kept_rows(spark: SparkSession) -> list[Any]:
    """What Spark keeps on disk."""
    found = spark.sparkContext._jsc.getPersistentRDDs()
    return [found[number].rdd() for number in found]

"""The blocks that an item refers to, found by pickling it, and what tasks report of theirs."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from adapters.spark.block_executors import _packed
from adapters.spark.kept_blocks import latest, lost_or_failed
from adapters.staging.executor_blocks import ExecutorBlock
from engine.errors import ExecutorsFailed
from engine.model import Checksum
from tests.thrown import Thrown, failed_job


def test_blocks_are_found_beside_large_arrays_which_pickle_writes_as_buffers():
    many_keys = pa.array([b"k" * 1000] * 1000, pa.large_binary())
    block = ExecutorBlock("a", Checksum(1, "x"))

    assert _packed((many_keys, block)).names == ("a",)


def report(partition: int, outcome: str) -> bytes:
    return pickle.dumps((partition, outcome, {}, [f"{outcome}.text"]))


def test_reports_are_in_the_order_of_the_partitions():
    found = latest([report(1, "b"), report(2, "c"), report(0, "a")], 3)

    assert [outcome for _partition, outcome, *_blocks in found] == ["a", "b", "c"]


def test_of_a_task_that_ran_again_the_last_report_counts():
    """Its executor ended before the job did: what is kept is of the second attempt."""
    found = latest([report(0, "a"), report(1, "b"), report(0, "again")], 2)

    assert [outcome for _partition, outcome, *_blocks in found] == ["again", "b"]


def test_a_report_that_is_missing_fails_the_job():
    with pytest.raises(ExecutorsFailed, match="1 of 2 tasks have not reported"):
        latest([report(1, "b")], 2)


def test_rows_that_nobody_keeps_any_more_are_told_from_other_failures():
    name, words = "org.apache.spark.SparkException", "Checkpoint block rdd_3_0 not found!"
    lost = failed_job(Thrown(name, words, condition="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"))
    other = failed_job(Thrown(name, words, condition=None))

    assert "rows that were staged are lost" in str(lost_or_failed(lost, "fetching rows"))
    assert "fetching rows failed" in str(lost_or_failed(other, "fetching rows"))

"""The blocks that an item refers to, found by pickling it."""

from __future__ import annotations

import pyarrow as pa

from adapters.spark.block_executors import _packed
from adapters.staging.executor_blocks import ExecutorBlock
from engine.model import Checksum


def test_blocks_are_found_beside_large_arrays_which_pickle_writes_as_buffers():
    many_keys = pa.array([b"k" * 1000] * 1000, pa.large_binary())
    block = ExecutorBlock("a", Checksum(1, "x"))

    assert _packed((many_keys, block)).names == ("a",)

"""Large spans are read by statements of a bounded size, and their rows put together again."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from adapters.sqlserver.log.changes import RAW, Changes, StageChanges
from adapters.sqlserver.log.entries import in_order
from adapters.sqlserver.log.span_planner import PlannedSpan, Share
from adapters.sqlserver.log.span_reader import ChangeReader, forget
from adapters.sqlserver.server.change_statements import portions
from adapters.sqlserver.server.position import LogPosition
from adapters.sqlserver.server.table import Capture, Table
from adapters.staging.file_blocks import FileBlocks
from adapters.system import system_clock
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import CUSTOMERS, lsn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

INSTANCES, STRETCHES = 70, 3
BRANCH = re.compile(r"SELECT (\d+) AS \[task\], (\d+) AS \[instance\].*?\[t\d+_CT\].*?>= 0x([0-9a-f]+) AND")


def places(count: int) -> list[LogPosition]:
    return [LogPosition(lsn(10 * at)) for at in range(count + 1)]


class Jobs(ChangeReader):
    """Answers each branch with one change row: of its instance, at the first commit that it asks for."""

    asked: list[int]

    def _job(self, query: str, tasks: int, stage: StageChanges) -> list[Changes]:
        branches = BRANCH.findall(query)
        self.asked.append(len(branches))
        by_task = defaultdict(list)
        for task, instance, first in branches:
            by_task[int(task)].append((int(instance), first))
        assert set(by_task) == set(range(tasks))
        return [self._staged(task, rows, stage) for task, rows in by_task.items()]

    def _staged(self, task: int, rows: list[tuple[int, str]], stage: StageChanges) -> Changes:
        text = "f\x1f1\x1fann\x1fx"
        columns = [(at, first, 1, first, 2, None, text) for at, first in rows]
        kinds = [pa.int32(), pa.string(), pa.int32(), pa.string(), pa.int32(), pa.string(), pa.large_string()]
        made = [
            pa.array(values, kind) for values, kind in zip(zip(*columns, strict=True), kinds, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(made, names=RAW.names)
        own = replace(stage, name=f"{stage.name}-{task}")  # outside of Spark all tasks have one number
        changes = own([batch])
        assert changes is not None
        return replace(changes, task=task)


def shares(ends: list[LogPosition]) -> tuple[Mapping[str, Table], tuple[Share, ...]]:
    captures = [
        Capture(f"t{at}", CollectionId(("d", "dbo", f"t{at}")), lsn(0), (), at, at) for at in range(70)
    ]
    return {capture.name: CUSTOMERS for capture in captures}, tuple(
        Share(at, capture, ends[0], ends[-1]) for at, capture in enumerate(captures)
    )


def test_a_span_of_many_instances_is_read_by_several_jobs_into_parts_that_are_whole(tmp_path: Path):
    ends = places(STRETCHES)
    tables, asked = shares(ends)
    store = FileBlocks(str(tmp_path))
    reader = Jobs(cast("SparkSession", None), cast("Any", None), "d", store, system_clock().new_id)
    reader.asked = []

    read = reader.read(
        cast("Any", None), PlannedSpan(ends[0], ends[-1], asked, cuts=tuple(ends[1:-1])), tables
    )

    assert sum(reader.asked) == INSTANCES * STRETCHES
    assert max(reader.asked) <= 50
    assert [part.rows for part in read.parts] == [INSTANCES] * STRETCHES
    for part, after, upto in zip(read.parts, ends[:-1], ends[1:], strict=True):
        entries = in_order(part.load())
        assert sorted(entries.instances) == list(range(INSTANCES))
        assert all(after.commit < commit.as_py() <= upto.commit for commit in entries.commits)
    forget(read.parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [0, 1, 50, 51, 260])
def test_portions_are_all_there_is_in_order(count: int):
    found = portions(list(range(count)))

    assert [number for portion in found for number in portion] == list(range(count))
    sizes = [len(portion) for portion in found]
    assert all(0 < size <= 50 for size in sizes)
    assert max(sizes, default=0) - min(sizes, default=0) <= 1

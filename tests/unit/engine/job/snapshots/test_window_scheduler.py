"""Which windows may be read behind one that is not emitted yet."""

from __future__ import annotations

from dataclasses import replace

from engine.job.snapshots.window_scheduler import _same_stage
from engine.model import ExecuteSnapshot, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.extent import Advance
from tests.unit.engine.snapshot.queues import A, B, C, queued


def blocking(*targets: Target) -> ExecuteSnapshot:
    return ExecuteSnapshot("b", tuple(replace(target, blocking=True) for target in targets), "b")


def test_while_a_table_of_a_blocking_snapshot_is_busy_nothing_of_a_later_stage_is_read():
    """The stream stands still until the busy table is read, too."""
    queue = execute(queued(C), blocking(A, B))
    busy, front, later = queue.tables
    ahead = [Advance(front.ticket, ())]

    assert busy.stage == front.stage != later.stage
    assert not _same_stage(queue, replace(queue, tables=(later,)), ahead)
    assert _same_stage(queue, replace(queue, tables=(busy, later)), ahead)
    assert _same_stage(queue, replace(queue, tables=()), ahead)


def test_behind_a_window_of_the_last_stage_all_of_it_is_read():
    queue = queued(A, B)
    first, second = queue.tables

    assert _same_stage(queue, replace(queue, tables=(second,)), [Advance(first.ticket, ())])

"""How much the next window may read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.job.parts import Pace
from engine.job.snapshots.window_size import WindowSize


@pytest.mark.parametrize(("tasks", "expected"), [(1, 100), (2, 100), (5, 200)])
def test_a_window_may_be_as_large_as_its_tasks_together(tasks, expected):
    parts = cast("Any", SimpleNamespace(tasks=lambda: tasks))
    size = WindowSize(parts, Pace(window_bytes=100, task_bytes=40))

    assert size.budget((), 10, alone=False).bytes == expected

"""Gives a running job other parts, by tests that change its clock, its lease or what it is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.job.loop import Job


def change_parts(job: Job, **changes: Any) -> None:
    """Replace these parts wherever the job takes its turns with them."""
    changed = replace(job._parts, **changes)
    windows = job._windows
    for holder in (job, job._turns, job._checkpoint, windows, windows.in_progress, windows._emitter):
        holder._parts = changed

"""Queues that the tests of the queue and of its changes begin with."""

from __future__ import annotations

from dataclasses import replace

from engine.model import (
    CollectionId,
    ExecuteSnapshot,
    Purpose,
    Range,
    Run,
    Target,
)
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.failures import remember_failures
from engine.snapshot.extent import Advance, Extent
from engine.snapshot.queue import Snapshot

A, B, C = (Target(CollectionId(("public", name))) for name in "abc")
EXTENT = Extent(rows=100, bytes=1000, greatest=("100",))


def queued(*targets: Target) -> Snapshot:
    """A queue after one signal for these targets."""
    return execute(Snapshot(), ExecuteSnapshot("s", targets))


def tickets(snapshot: Snapshot) -> list[tuple[int, Target]]:
    """The entries in order."""
    return [(table.ticket, table.target) for table in snapshot.tables]


def run(after: str | None, upto: str | None, chunks: int = 2) -> Run:
    """A run of the first collection, by its bounds."""
    return Run(1, A, (after,) if after else None, (upto,) if upto else None, chunks)


def ranges(*bounds: tuple[str | None, str | None]) -> tuple[Range, ...]:
    """Ranges by their bounds."""
    return tuple(Range((after,) if after else None, (upto,) if upto else None) for after, upto in bounds)


def mending() -> Snapshot:
    """A repair that was compared and sends the row under one key."""
    snapshot = queued(replace(A, purpose=Purpose.REPAIR)).with_extent(1, EXTENT, 0)
    read = snapshot.advanced(Advance(1, (run(None, "100"),), rows=5))
    return read.changed((1,), lambda table: table.mending((("7",),)))


def with_gap() -> Snapshot:
    """A collection of which the keys from 10 to 20 could not be read, and another one that waits."""
    snapshot = queued(A, B).with_extent(1, EXTENT, 5)
    snapshot = snapshot.advanced(Advance(1, (run(None, "10"),), rows=10, emitted=10))
    snapshot = snapshot.advanced(Advance(1, (run("10", "20"),), why="bad page"))
    snapshot = snapshot.advanced(Advance(1, (run("20", "100"),), rows=80, emitted=80))
    return remember_failures(snapshot, snapshot.done)

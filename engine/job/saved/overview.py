"""What a saved state says, for people: where each collection's snapshot stands, what is set aside. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.job.reports.progress_log import table_report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.job.saved.state import State
    from engine.snapshot.extent import FailedSnapshot
    from engine.snapshot.queue_entry import Table


class Stage(StrEnum):
    """Where a collection's snapshot stands."""

    READING = "reading"
    QUEUED = "queued"
    PAUSED = "paused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CollectionOverview:
    """One collection's snapshot: `percent` 0 to 100, rates in rows/s since it began, `eta_s` in seconds.

    `signal` is the label of the signal that asked for it, `id` the name that its sender gave it. `lacks` says
    in words what could not be read.
    """

    collection: str
    stage: Stage
    signal: str = ""
    id: str | None = None
    percent: float = 0.0
    rows: int = 0
    emitted: int = 0
    chunks: int = 0
    rows_per_s: float | None = None
    eta_s: float | None = None
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """The state after turn `turn`. `incomplete` says in words which copies are known to lack something."""

    turn: int
    snapshots: tuple[CollectionOverview, ...]
    incomplete: tuple[str, ...]


def of_entries(tables: Iterable[Table], now_s: float) -> tuple[CollectionOverview, ...]:
    """What entries of the queue say at a time in Unix seconds."""
    return tuple(_of_entry(table, now_s) for table in tables)


def overview(state: State, saved_s: float) -> Overview:
    """What a state says that was saved at `saved_s`, in Unix seconds."""
    snapshot = state.snapshot
    return Overview(
        state.turn,
        (
            *of_entries(snapshot.tables, saved_s),
            *(_of_failure(failed) for failed in snapshot.failed),
        ),
        tuple(str(incomplete) for incomplete in state.incomplete),
    )


def _of_entry(table: Table, saved_s: float) -> CollectionOverview:
    report = None if table.paused else table_report((table,), saved_s)
    progress = table.progress
    begun = progress is not None and progress.chunks > 0
    return CollectionOverview(
        str(table.target.collection),
        Stage.PAUSED if table.paused else Stage.READING if begun else Stage.QUEUED,
        table.signal,
        table.id,
        percent=round(100 * progress.fraction_read, 1) if progress else 0.0,
        rows=progress.rows if progress else 0,
        emitted=progress.emitted if progress else 0,
        chunks=progress.chunks if progress else 0,
        rows_per_s=round(report.rows_per_s, 1) if report and begun else None,
        eta_s=round(report.eta_s, 1) if report and begun and report.eta_s is not None else None,
        lacks=tuple(map(str, progress.missing)) if progress else (),
    )


def _of_failure(failed: FailedSnapshot) -> CollectionOverview:
    lacks = tuple(f"{gap}: {gap.why}" if gap.why else str(gap) for gap in failed.gaps)
    return CollectionOverview(str(failed.target.collection), Stage.FAILED, lacks=lacks)

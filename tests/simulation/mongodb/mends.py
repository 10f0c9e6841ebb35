"""Faults that were once found, brought back: each takes a mend out by name.

`python -m tests.simulation.mongodb.mends` draws histories until each fault is found again, cuts them down
and saves them as regression seeds; `--saved` plays those, with and without the mend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from adapters.mongodb.events import decode
from adapters.mongodb.log.split_events import Parts
from adapters.mongodb.log.stream import ChangeStream, answer
from adapters.mongodb.snapshot.blocking import BlockingView
from adapters.mongodb.snapshot.window import MongoWindow
from adapters.mongodb.snapshot.windows import OpenWindows
from engine.job.snapshots import window_scheduler
from engine.job.snapshots.measurement import once_emitted
from engine.snapshot import extent
from tests.simulation.mends import Mends
from tests.simulation.mongodb.script import draw

REGRESSIONS = Path(__file__).parents[1] / "regressions" / "mongodb"
_open, _emptied, _follows = OpenWindows.open, MongoWindow.emptied_collections, window_scheduler._follows
_batch, _superseded, _watch = ChangeStream._batch, OpenWindows.superseded, OpenWindows.watch


def _checked_first(windows: OpenWindows, window: Any, session: Any, streamed_to: Any) -> Any:
    """Compare the collections before the time is chosen."""
    known = session.tables.readings(window.runs)
    tables: Any = SimpleNamespace(readings=lambda _runs: known)
    return _open(windows, window, replace(session, tables=tables), streamed_to)


def _at_any_time(window: MongoWindow, emptied: Any) -> Any:
    """Count a rename for windows of a later time, too."""
    return _emptied(window, [replace(collection, at=(1 << 40, 0)) for collection in emptied])


def _since_the_earliest(windows: OpenWindows) -> Any:
    """Count what the earliest window lacks for all of them."""
    watch = _watch(windows)
    return replace(watch, after=(min(watch.after),) if watch.after else ())


def _for_all(windows: OpenWindows, decoded: Any, emptied: Any) -> Any:
    times = {window.watermark.at for window in windows.opened.values()}
    shared = [
        replace(part, superseded={at: lost for lost in part.superseded.values() for at in times})
        for part in decoded
    ]
    return _superseded(windows, shared, emptied)


def _one_stage(snapshot: Any, ahead: Any) -> bool:
    left = once_emitted(snapshot, ahead).tables
    progress = left[0].progress if left else None
    return (
        bool(left)
        and left[0].stage == snapshot.tables[0].stage
        and (progress is None or bool(progress.left or progress.points))
    )


def _dense(least: Any, greatest: Any, rows: int) -> Any:
    low, high = int(least[0] or 0) if least else 0, int(greatest[0] or 0)
    return (low, high) if least and rows >= extent._DENSE * (high - low + 1) else None


def _time_of_the_same_answer(stream: ChangeStream, raw: bytes) -> Any:
    stream._told = answer(raw, "nextBatch").time
    return _batch(stream, raw)


MENDS: Mapping[str, Callable[[], Any]] = {
    "rename-over-an-open-window": lambda: patch.object(
        MongoWindow, "emptied_collections", lambda *_: frozenset()
    ),
    "rename-between-check-and-time": lambda: patch.object(OpenWindows, "open", _checked_first),
    "rename-behind-the-view": lambda: patch.object(BlockingView, "check", lambda *_: None),
    "rename-between-two-windows-times": lambda: patch.object(
        MongoWindow, "emptied_collections", _at_any_time
    ),
    "event-above-16-mb": lambda: patch.object(decode, "has_document", lambda _found: True),
    "parts-of-an-event-resumed": lambda: patch.object(Parts, "open", property(lambda _parts: False)),
    "blocking-window-behind-another": lambda: patch.object(window_scheduler, "_follows", _one_stage),
    "time-of-the-same-answer": lambda: patch.object(ChangeStream, "_batch", _time_of_the_same_answer),
    "rename-behind-a-superseding-change": lambda: patch.multiple(
        OpenWindows, watch=_since_the_earliest, superseded=_for_all
    ),
    "ends-of-other-moments": lambda: patch("adapters.mongodb.snapshot.tables.dense_span", _dense),
}
"""By name, what takes the mend out."""

FAULTS = Mends(MENDS, REGRESSIONS, draw)

if __name__ == "__main__":
    sys.exit(FAULTS.main("tests.simulation.mongodb.mends", __doc__ or ""))

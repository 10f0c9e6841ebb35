"""Faults of repairs and recoveries, brought back in the sources' worlds: each takes a mend or guard out.

`python -m tests.simulation.repair_mends WORLD` draws histories until each fault is found again, cuts them
down and saves them as regression seeds; `--saved` plays those, with and without the mend.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import numpy as np

from adapters.mongodb.events.source_block import read_source
from adapters.mongodb.snapshot import windows
from adapters.postgres.source import PostgresSource
from engine.job import recovery
from engine.job.snapshots import completion
from engine.job.verify.repair import Repair
from engine.snapshot.queue_entry import Table
from engine.verify import comparison
from tests.simulation.mends import Mends
from tests.simulation.worlds import WORLDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.snapshot.extent import Extent
    from engine.verify.copy import TouchedKeys

_unread = comparison._History.unread
_with_extent = Table.with_extent
REGRESSIONS: Final = Path(__file__).parent / "regressions"


def _follow(repair: Repair, touched: TouchedKeys) -> None:
    """Leave no row out that has later events."""
    repair.known = touched.upto


def _seconds_and_zeros(*given: Any) -> str:
    """Write the time as its seconds and three zeros."""
    return read_source(*given).replace('"ts_ms":0,', '"ts_ms":0000,')


def _none_kept(_history: Any, lacking: Any, _keeps: Any) -> Any:
    return np.zeros(len(lacking), np.bool_)


def _goes_on(entry: Table, extent: Extent, now_ms: int) -> Table:
    """Keep what windows have seen of an entry that is measured again."""
    return _with_extent(replace(entry, progress=None), extent, now_ms)


def _none_noted(known: Any, _more: Any) -> Any:
    return known


def _taken_for_sent(history: Any, unread: Any, since: int) -> Any:
    """Count rows that lack a value as sent."""
    old, new, lacking = _unread(history, unread, since)
    return old, new + lacking, 0


_TOLD: Mapping[str, Callable[[], Any]] = {
    "losses-that-nobody-tells": lambda: patch.multiple(
        recovery, with_faults=_none_noted, _refusal=lambda *_: "nothing is repaired"
    ),
}
MENDS: Mapping[str, Mapping[str, Callable[[], Any]]] = {
    "mongodb-recover": {
        "update-whose-document-is-gone": lambda: patch.object(comparison._History, "_kept", _none_kept),
        "delete-before-the-first-event": lambda: patch.object(windows, "read_source", _seconds_and_zeros),
        "comparison-of-an-earlier-definition": lambda: patch.object(Table, "with_extent", _goes_on),
    },
    "postgres-recover": {
        **_TOLD,
        "gap-closed-outside-the-log": lambda: patch.object(completion, "_is_captured", lambda *_: True),
        "deletes-of-rows-that-came-back": lambda: patch.object(Repair, "follow", _follow),
        "table-that-had-left-before-the-loss": lambda: patch.object(PostgresSource, "lasting", ()),
        "moved-row-without-its-large-value": lambda: patch.object(
            comparison._History, "unread", _taken_for_sent
        ),
    },
    "sqlserver-recover": _TOLD,
}
"""By world and name, what takes the mend out."""

FAULTS: Mapping[str, Mends] = {
    world: Mends(mends, REGRESSIONS / world, WORLDS[world].draw) for world, mends in MENDS.items()
}

if __name__ == "__main__":
    _world = sys.argv.pop(1)
    sys.exit(FAULTS[_world].main(f"tests.simulation.repair_mends {_world}", __doc__ or ""))

"""Faults that were once found, brought back: each takes a mend out of the adapter, by name.

`python -m tests.simulation.postgres.mends` draws histories until each fault is found again, cuts them down
and saves them as regression seeds; `--saved` plays those, with and without the mend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from adapters.postgres.events import relations
from adapters.postgres.log import forks, pending_visibility
from adapters.postgres.log.slots.slot import Slot
from adapters.postgres.server import table
from adapters.postgres.server.position import lsn_of
from adapters.postgres.server.watches import membership
from adapters.postgres.snapshot import blocking, eligibility, initial, superseded_keys, window, windows
from adapters.postgres.snapshot.keyset import BY_CTID
from adapters.storage.lease import Leases
from engine.job import loop
from engine.job.saved.state import State
from engine.snapshot import queue_entry
from engine.snapshot.extent import Extent, Progress
from engine.snapshot.merge import SupersededKeys
from tests.simulation.mends import Mends
from tests.simulation.postgres.script import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

REGRESSIONS = Path(__file__).parents[1] / "regressions" / "postgres"


def _without_moves(*_arguments: Any) -> dict[Any, Any]:
    return {}


def _by_primary_key(found: table.Table) -> tuple[str, ...]:
    return found.primary_key or found.unique_key


def _without_copies(found: SupersededKeys) -> SupersededKeys:
    return replace(found, copies={})


def _divisible(tables: Any, read: Any, target: Any) -> bool:
    return bool(read.keyset != BY_CTID or tables._eligibility.shares_snapshot(target))


def _of_any_key(entry: queue_entry.Table, extent: Extent) -> queue_entry.Table:
    assert entry.progress is not None
    return replace(entry, progress=replace(entry.progress, extent=extent, left=extent.ranges))


def _nothing(*_arguments: Any) -> None:
    return None


@contextmanager
def _empty_at_once() -> Iterator[None]:
    """End an empty table's snapshot as soon as it was measured."""
    begun = Extent.begun

    def ended(extent: Extent, now_ms: int) -> Progress:
        return begun(extent, now_ms) if extent.ranges else Progress(extent, now_ms, ())

    with patch.object(Extent, "begun", ended):
        yield


def _fork(saved_timeline: int, _now: int, history: str, _sent: int) -> forks.Fork | None:
    return forks.fork_of(history, saved_timeline)


@contextmanager
def _both(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for patched in patches:
            stack.enter_context(patched)
        yield


_by, _before = superseded_keys.of_entries, superseded_keys.of_pending
MENDS: Mapping[str, Callable[[], Any]] = {
    "moved-surrogate-key": lambda: patch.object(superseded_keys, "moved_keys", _without_moves),
    "using-index": lambda: _both(
        patch.object(eligibility, "merge_key", _by_primary_key),
        patch.object(relations, "merge_key", _by_primary_key),
    ),
    "measured-before-the-fork": lambda: patch.object(loop, "restart_unread", lambda snapshot: snapshot),
    "equal-rows": lambda: patch.object(
        superseded_keys, "of_entries", lambda *found: _without_copies(_by(*found))
    ),
    "equal-rows-hidden": lambda: patch.object(
        superseded_keys, "of_pending", lambda *found: _without_copies(_before(*found))
    ),
    "equal-rows-in-several-runs": lambda: patch(
        "adapters.postgres.snapshot.tables.PostgresTables._divisible", _divisible
    ),
    "leaf-identities": lambda: patch.object(eligibility, "untold", _nothing),
    "killed-exporter": lambda: patch(
        "adapters.postgres.snapshot.watermark.ExportedSnapshot.is_alive", lambda _held: True
    ),
    # Each of the two guards sees most of what the other is for.
    "lagging-failover": lambda: _both(
        patch.object(initial, "check_fork", _fork),
        patch.object(initial.SlotStart, "_sent_before", _nothing),
    ),
    "unsent-below-the-position": lambda: patch.object(initial.SlotStart, "_sent_before", _nothing),
    "restored-volume": lambda: patch.object(initial.SlotStart, "_sent_before", _nothing),
    "attempt-beyond-a-restore": lambda: patch.object(State, "after_attempt", lambda state, _attempted: state),
    "recreated-publication": lambda: patch.object(membership.Members, "gaps", _without_moves),
    "key-that-gains-a-column": lambda: patch(
        "adapters.postgres.events.relations.Relations._note_key", _nothing
    ),
    "key-changed-under-a-hidden-move": lambda: patch(
        "adapters.postgres.log.cuts._as_wide", lambda pairs, _columns: pairs
    ),
    "key-changed-before-bounds": lambda: patch.object(queue_entry.Table, "bounded", _of_any_key),
    "slot-dropped-under-a-view": lambda: patch("adapters.source.initial._is_there", lambda *_given: True),
    "slot-made-meanwhile": lambda: _both(
        patch.object(
            initial.SlotStart, "_may_be_there", property(lambda _start: True, _nothing), create=True
        ),
        patch.object(Leases, "confirm", _nothing),
    ),
    "slot-of-the-next-job": lambda: patch.object(Leases, "confirm", _nothing),
    "slot-moved-meanwhile": lambda: patch.object(initial.SlotStart, "check_again", _nothing),
    "stale-state": lambda: patch.object(
        initial, "check_slot", lambda slot, _name, begun, _left: slot or Slot(lsn_of(begun))
    ),
    "hidden-transactions": lambda: patch.object(
        pending_visibility.PendingVisibility, "add", lambda self, _more: self
    ),
    "hot-row": lambda: patch.object(windows.OpenWindows, "_holds", lambda _self, _window: False),
    "rewritten-beside-a-view": lambda: _both(
        patch.object(blocking.BlockingViews, "covers", lambda *_: True), _empty_at_once()
    ),
    "emptied-on-a-lost-server": _empty_at_once,
    "blocking-view": lambda: patch.object(blocking.BlockingView, "note_span", _nothing),
    "tables-as-they-were": lambda: patch.object(window.TableLocks, "compare", _nothing),
}
"""By name, what takes the mend out."""


FAULTS = Mends(MENDS, REGRESSIONS, draw)
violated = FAULTS.violated

if __name__ == "__main__":
    sys.exit(FAULTS.main("tests.simulation.postgres.mends", __doc__ or ""))

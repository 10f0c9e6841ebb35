"""Faults that were once found, brought back: each takes a mend out of the adapter, by name.

`python -m tests.simulation.postgres.mends` draws histories until each fault is found again, cuts them down
and saves them as regression seeds; `--saved` plays those, with and without the mend.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from adapters.postgres.events import relations
from adapters.postgres.log import forks, pending_visibility
from adapters.postgres.server import table
from adapters.postgres.server.watches import membership
from adapters.postgres.snapshot import blocking, eligibility, initial, superseded_keys, window, windows
from adapters.postgres.snapshot.keyset import PLACES
from engine.snapshot.merge import Superseded
from tests.simulation.postgres.script import draw
from tests.simulation.script import to_json
from tests.simulation.shrink import shrunk
from tests.simulation.worlds import played, saved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.script import History

REGRESSIONS = Path(__file__).parents[1] / "regressions" / "postgres"


def _without_moves(*_arguments: Any) -> dict[Any, Any]:
    return {}


def _by_primary_key(found: table.Table) -> tuple[str, ...]:
    return found.primary_key or found.unique_key


def _without_copies(found: Superseded) -> Superseded:
    return replace(found, copies={})


def _divisible(tables: Any, read: Any, target: Any) -> bool:
    return bool(read.keyset != PLACES or tables._readable.held(target))


def _nothing(*_arguments: Any) -> None:
    return None


def _fork(saved_timeline: int, _now: int, history: str, _sent: int) -> forks.Fork | None:
    return forks.fork_of(history, saved_timeline)


@contextmanager
def _both(*patches: Any) -> Iterator[None]:
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


_by, _before = superseded_keys.by, superseded_keys.before
MENDS: Mapping[str, Callable[[], Any]] = {
    "moved-surrogate-key": lambda: patch.object(superseded_keys, "moved", _without_moves),
    "using-index": lambda: _both(
        patch.object(eligibility, "merge_key", _by_primary_key),
        patch.object(relations, "merge_key", _by_primary_key),
    ),
    "equal-rows": lambda: patch.object(superseded_keys, "by", lambda *found: _without_copies(_by(*found))),
    "equal-rows-hidden": lambda: patch.object(
        superseded_keys, "before", lambda *found: _without_copies(_before(*found))
    ),
    "equal-rows-in-several-runs": lambda: patch(
        "adapters.postgres.snapshot.tables.PostgresTables._divisible", _divisible
    ),
    "leaf-identities": lambda: patch.object(eligibility, "untold", _nothing),
    "killed-exporter": lambda: patch(
        "adapters.postgres.snapshot.watermark.ExportedSnapshot.alive", property(lambda _held: True)
    ),
    # Each of the two guards sees most of what the other is for.
    "lagging-failover": lambda: _both(
        patch.object(initial, "check_fork", _fork),
        patch.object(initial.SlotStart, "_sent_before", _nothing),
    ),
    "restored-volume": lambda: patch.object(initial.SlotStart, "_sent_before", _nothing),
    "recreated-publication": lambda: patch.object(membership.Members, "gaps", _without_moves),
    "key-that-gains-a-column": lambda: patch(
        "adapters.postgres.events.relations.Relations._note_key", _nothing
    ),
    "slot-moved-meanwhile": lambda: patch.object(initial.SlotStart, "check_again", _nothing),
    "stale-state": lambda: patch.object(initial, "check_slot", lambda slot, _name, _position: slot),
    "hidden-transactions": lambda: patch.object(
        pending_visibility.PendingVisibility, "add", lambda self, _more: self
    ),
    "hot-row": lambda: patch.object(windows.OpenWindows, "_holds", lambda _self, _window: False),
    "blocking-view": lambda: patch.object(blocking.BlockingView, "streamed", _nothing),
    "tables-as-they-were": lambda: patch.object(window.TableLocks, "compare", _nothing),
}
"""By name, what takes the mend out."""


@contextmanager
def without(name: str) -> Iterator[None]:
    """Take a mend out."""
    with MENDS[name]():
        yield


def violated(name: str, history: History) -> str:
    """What a history violates without a mend."""
    with without(name):
        return played(history).violation


def search(name: str, first: int, count: int) -> History | None:
    """A history that finds a fault again, cut down; None if none of these seeds does."""
    for seed in range(first, first + count):
        history = draw(seed)
        if violated(name, history):
            return shrunk(history, lambda candidate: bool(violated(name, candidate)), most=600)
    return None


def main() -> int:
    """Search or replay; the exit code says whether every fault was found again."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.postgres.mends", description=__doc__)
    parser.add_argument("--only", action="append", help="the faults to look for")
    parser.add_argument("--saved", action="store_true", help="play the saved histories")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=400)
    arguments = parser.parse_args()
    missed = 0
    for name in arguments.only or MENDS:
        path = REGRESSIONS / f"{name}.json"
        if arguments.saved:
            if path.exists():
                history = saved(path.read_bytes())
                missed += not violated(name, history) or bool(played(history).violation)
            continue
        found = search(name, arguments.seed, arguments.count)
        missed += found is None
        if found is None:
            print(f"{name}: not found", flush=True)
            continue
        violation = violated(name, found)
        REGRESSIONS.mkdir(parents=True, exist_ok=True)
        path.write_text(to_json(found, {"without": name, "violates": violation[:200]}))
        print(f"{name}: {len(found.steps)} steps: {violation[:150]}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())

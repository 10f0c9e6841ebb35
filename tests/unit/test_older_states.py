"""States that commit 90f822a saved are read, and what they keep of each source is, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adapters.mongodb import saved as mongodb
from adapters.postgres import saved as postgres
from adapters.postgres.log.pending_visibility import PendingVisibility
from adapters.postgres.log.timeline import TransactionContext
from adapters.sqlserver import saved as sqlserver
from engine.job.saved.state import State
from engine.job.saved.state_document import CURRENT, from_json, to_json
from engine.model import CollectionId, Position, Range, Target
from engine.snapshot.extent import Extent, FailedSnapshot, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table

if TYPE_CHECKING:
    from collections.abc import Callable

STATES = Path(__file__).parent / "states"


@pytest.mark.parametrize(
    ("source", "read", "reading"),
    [
        ("postgres", postgres.saved_of, 0),
        ("postgres-snapshot", postgres.saved_of, 4),
        ("mongodb", mongodb.saved_of, 1),
        ("sqlserver", sqlserver.check_saved, 1),
    ],
)
def test_a_state_of_an_older_commit_is_read(source: str, read: Callable[[State], object], reading: int):
    state = from_json((STATES / f"{source}.json").read_bytes())
    read(state)

    assert sum(table.progress is not None for table in state.snapshot.tables) == reading
    assert state.position is not None
    assert from_json(to_json(state)) == state


def queued(ticket: int, name: str, id_: str, signal: str, progress: Progress, **asked: Any) -> Table:
    """An entry of the queue. What that commit did not know has its default."""
    return Table(ticket, signal, Target(CollectionId(("public", name)), **asked), progress, id=id_)


ID, TEXT = 'key "id" "pg_catalog"."int4" 0', '"pg_catalog"."text" 100'
PUBLICATION = "publication 16470 817"
MEASURED_MS = 1_795_815_791_176
ORDERS = Progress(
    Extent(
        3000,
        221_184,
        greatest=("3000",),
        span=(1, 3000),
        key=(ID, "columns 16390 a6b459d90ccfdd5792a63e00139df60e", PUBLICATION),
    ),
    since_ms=1_795_815_791_198,
    left=(Range(("400",), ("3000",)),),
    rows=400,
    emitted=400,
    chunks=4,
)
"""Four chunks are sent."""
PAIRS = Progress(
    Extent(
        3000,
        172_032,
        greatest=("300", "b3000"),
        key=(
            'key "a" "pg_catalog"."int4" 0',
            f'key "b" {TEXT}',
            "columns 16445 4868e9a4bc4eabfbeea91ea5a8ba9554",
            PUBLICATION,
        ),
    ),
    MEASURED_MS,
    left=(Range(None, ("300", "b3000")),),
)
"""A key of two columns. It was measured, and waits."""
WAITING = Progress(
    Extent(
        3000,
        221_184,
        greatest=("c999",),
        key=(
            f'key "code" {TEXT}',
            f"{ID} to merge by",
            "columns 16412 09209a0ca9fce35bbd37d44fed6fb6c2",
            PUBLICATION,
        ),
    ),
    MEASURED_MS,
    left=(Range(None, ("c999",)),),
)
"""A condition, and a surrogate key."""
AGAIN = Progress(
    Extent(
        3000,
        221_184,
        greatest=("3000",),
        span=(1, 3000),
        key=(ID, "columns 16434 7bb8a7836b59de4a905589a5cf1eb12a", PUBLICATION),
    ),
    MEASURED_MS,
    left=(Range(("1400",), ("1500",)),),
)
"""What an earlier snapshot could not read, which was asked for again."""


def test_a_state_in_the_middle_of_snapshots_is_read_with_all_that_it_has():
    """The log stood within a transaction. The entry with ticket 6 had been stopped by a signal."""
    state = from_json((STATES / "postgres-snapshot.json").read_bytes())

    assert state.snapshot.tables == (
        queued(3, "orders", "runs", "0/1E510D0/0", ORDERS),
        queued(4, "pairs", "pairs", "0/1E51178/0", PAIRS),
        queued(5, "waiting", "waits", "0/1E512C8/0", WAITING, condition="id > 100", surrogate_key="code"),
        queued(7, "again", "again", "0/1E51418/0", AGAIN),
    )
    damaged = (ID, "columns 16401 9eab6accc5e8aeaf82ec7eb8e793bb35", PUBLICATION)
    gap = Gap(Range(("1400",), ("1500",)), why="bad block")
    assert state.snapshot.failed == (
        FailedSnapshot(Target(CollectionId(("public", "damaged"))), damaged, (gap,)),
    )
    assert state == State(
        turn=44,
        position=Position((31_915_592, 202)),
        snapshot=Snapshot(state.snapshot.tables, next_ticket=8, failed=state.snapshot.failed),
        identity={"system": "7712969888004318734", "timeline": "1", "database": "test_1"},
        memory=state.memory,
        channels={"file": {"bytes": 68, "digest": "7d1993a19a1b0129b9b7551d9d6c58da"}},
    )
    commit = TransactionContext(
        828, 31_915_592, 1_795_815_792_189_985, 31_791_232, 202, 202, (("public.other", 202),)
    )
    assert postgres.saved_of(state) == postgres.SavedMemory(
        PendingVisibility(), 31_791_232, None, commit, {16385: ()}
    )
    assert state.memory["first"] == {"run": "55d813c51d394aa9860f0121838926c8", "begins_at": None}
    assert state.memory["published"] == {
        "marks": "c8eb83e5a693a79e2012fdf7ca1a1ebaf10e888d06af99af0624ac89eeab64a7",
        "xmax": 818,
    }
    assert from_json(to_json(state, CURRENT)) == state

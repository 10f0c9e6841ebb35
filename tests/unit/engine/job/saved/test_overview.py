"""What a saved state says for people."""

from __future__ import annotations

from engine.job.saved.overview import Stage, overview
from engine.job.saved.state import State
from engine.model import CollectionId, Range, Target
from engine.snapshot.extent import Extent, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table


def test_a_paused_collection_has_the_percentage_that_it_had():
    extent = Extent(rows=1000, bytes=1, greatest=("1000",), span=(1, 1000))
    progress = Progress(extent, 0, (Range(("250",), ("1000",)),), rows=250, chunks=1)
    table = Table(1, "s", Target(CollectionId(("public", "t"))), progress, paused=True)
    (found,) = overview(State(snapshot=Snapshot((table,))), 10.0).snapshots

    assert (found.stage, found.percent, found.rows) == (Stage.PAUSED, 25.0, 250)
    assert (found.rows_per_s, found.eta_s) == (None, None)

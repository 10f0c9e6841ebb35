from __future__ import annotations

from engine.model import CollectionId, ExecuteSnapshot, Target
from engine.snapshot import Advance, Extent, Snapshot

TARGETS = tuple(Target(CollectionId(("public", name))) for name in ("one", "two"))
EXTENT = Extent(rows=1000, bytes=1 << 24, greatest=("1000",))


def measured() -> Snapshot:
    """Two collections in the queue, both measured at 1,000 ms."""
    snapshot = Snapshot().execute(ExecuteSnapshot("s", TARGETS))
    return snapshot.began(1, EXTENT, 1_000).began(2, EXTENT, 1_000)


def since_ms(snapshot: Snapshot) -> list[int | None]:
    return [table.progress.since_ms if table.progress else None for table in snapshot.tables]


def test_the_clock_of_a_collection_starts_with_its_first_window():
    assert since_ms(measured().opened({2}, 9_000)) == [1_000, 9_000]


def test_the_clock_of_a_collection_goes_on_with_its_second_window():
    snapshot, _ = measured().advanced(
        Advance(ticket=1, last=("500",), finished=False, rows=500, emitted=500, chunks=1)
    )

    assert since_ms(snapshot.opened({1, 2}, 9_000)) == [1_000, 9_000]


def test_the_clock_of_a_collection_that_was_not_measured_does_not_start():
    snapshot = Snapshot().execute(ExecuteSnapshot("s", TARGETS))

    assert since_ms(snapshot.opened({1}, 9_000)) == [None, None]

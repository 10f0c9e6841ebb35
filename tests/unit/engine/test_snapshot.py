"""The queue of collections: commands and finished windows in, a new queue and answers out."""

from __future__ import annotations

import pytest

from engine.model import CollectionId, ExecuteSnapshot, StopSnapshot, Target
from engine.snapshot import Advance, Extent, Progress, Snapshot, Table

A, B, C = (Target(CollectionId(("public", name))) for name in "abc")
EXTENT = Extent(rows=100, bytes=1000, greatest=("100",))


def queued(*targets: Target) -> Snapshot:
    return Snapshot().execute(ExecuteSnapshot("s", targets))


def tickets(snapshot: Snapshot) -> list[tuple[int, Target]]:
    return [(table.ticket, table.target) for table in snapshot.tables]


def test_collections_are_queued_in_the_order_of_their_signals():
    snapshot = queued(A, B).execute(ExecuteSnapshot("again", (A,)))

    assert tickets(snapshot) == [(1, A), (2, B), (3, A)]
    assert [table.signal for table in snapshot.tables] == ["s", "s", "again"]


def test_an_empty_command_queues_nothing():
    assert queued() == Snapshot()


def test_a_ticket_is_never_given_twice():
    snapshot, _stopped = queued(A, B).stop(StopSnapshot("s", None))

    assert tickets(snapshot.execute(ExecuteSnapshot("s", (C,)))) == [(3, C)]


@pytest.mark.parametrize(
    ("named", "left"),
    [
        (None, []),
        ((A.collection,), [(2, B)]),
        ((B.collection, C.collection), [(1, A), (3, A)]),
        ((C.collection,), [(1, A), (2, B), (3, A)]),
        ((), [(1, A), (2, B), (3, A)]),
    ],
)
def test_stop_takes_out_every_entry_of_what_it_names(named, left):
    before = queued(A, B, A)
    after, stopped = before.stop(StopSnapshot("s", named))

    assert tickets(after) == left
    assert sorted(
        [*tickets(after), *((one.ticket, one.target) for one in stopped)], key=lambda one: one[0]
    ) == tickets(before)


def test_what_was_measured_begins_its_progress():
    snapshot = queued(A, B).began(2, EXTENT, 5)

    assert [table.progress for table in snapshot.tables] == [None, Progress(EXTENT, 5)]


def test_a_window_moves_one_entry_on():
    snapshot = queued(A, A).began(1, EXTENT, 5).began(2, EXTENT, 6)
    snapshot, done = snapshot.advanced(Advance(1, ("10",), covered=False, rows=10, emitted=9, chunks=2))
    snapshot, _none = snapshot.advanced(Advance(1, ("20",), covered=False, rows=10, emitted=10, chunks=2))

    assert done is None
    assert snapshot.tables[0].progress == Progress(EXTENT, 5, ("20",), rows=20, emitted=19, chunks=4)
    assert snapshot.tables[1].progress == Progress(EXTENT, 6)


def test_the_last_window_gives_the_entry_with_its_totals():
    snapshot = queued(A, B).began(1, EXTENT, 5)
    snapshot, done = snapshot.advanced(Advance(1, ("100",), covered=True, rows=100, emitted=90, chunks=1))

    assert tickets(snapshot) == [(2, B)]
    assert done == Table(
        1, "s", A, Progress(EXTENT, 5, ("100",), rows=100, emitted=90, chunks=1, covered=True)
    )


@pytest.mark.parametrize("covered", [True, False])
def test_a_window_of_an_entry_that_was_stopped_changes_nothing(covered):
    snapshot, _stopped = queued(A, B).began(1, EXTENT, 5).stop(StopSnapshot("s", (A.collection,)))

    advance = Advance(1, ("10",), covered=covered, rows=10, emitted=9, chunks=2)
    assert snapshot.advanced(advance) == (snapshot, None)


@pytest.mark.parametrize(("ticket", "expected"), [(1, A), (2, B), (3, None)])
def test_entries_are_found_by_ticket(ticket, expected):
    found = queued(A, B).find(ticket)

    assert (found and found.target) == expected


@pytest.mark.parametrize(
    ("tickets", "expected"),
    [
        pytest.param({2}, [1_000, 9_000], id="those of the window"),
        pytest.param({1, 2}, [9_000, 9_000], id="all"),
        pytest.param({7}, [1_000, 1_000], id="one that was stopped"),
    ],
)
def test_the_clock_of_a_collection_starts_with_its_first_window(tickets, expected):
    opened = queued(A, B).began(1, EXTENT, 1_000).began(2, EXTENT, 1_000).opened(tickets, 9_000)

    assert [table.progress and table.progress.since_ms for table in opened.tables] == expected


def test_the_clock_goes_on_with_the_second_window():
    snapshot = queued(A).began(1, EXTENT, 1_000)
    snapshot, _none = snapshot.advanced(Advance(1, ("10",), covered=False, rows=10, emitted=9, chunks=2))

    assert snapshot.opened({1}, 9_000) == snapshot


def test_the_clock_of_what_was_not_measured_does_not_start():
    assert queued(A).opened({1}, 9_000) == queued(A)


class TestReadingAgain:
    """Keys whose newest image in the log lacks a value, which nobody has sent."""

    FIRST = Advance(
        1, ("100",), covered=True, rows=100, emitted=90, chunks=1, lacking=frozenset([("2",), ("3",)])
    )

    def after(self, *advances: Advance) -> tuple[Snapshot, Table | None]:
        snapshot, done = queued(A).began(1, EXTENT, 5), None
        for advance in advances:
            snapshot, done = snapshot.advanced(advance)
        return snapshot, done

    def again(self, *keys: str, lacking: tuple[str, ...] = ()) -> Advance:
        read, lack = (frozenset((key,) for key in some) for some in (keys, lacking))
        return Advance(1, None, covered=False, rows=len(keys), emitted=1, chunks=1, reread=read, lacking=lack)

    def test_a_table_is_not_finished_while_keys_are_left(self):
        snapshot, done = self.after(self.FIRST)

        assert done is None
        assert snapshot.tables[0].progress == Progress(
            EXTENT, 5, ("100",), 100, 90, 1, covered=True, reread=(("2",), ("3",))
        )

    def test_they_may_come_up_before_all_is_covered(self):
        before = Advance(1, ("10",), covered=False, rows=9, emitted=9, chunks=1, lacking=frozenset([("7",)]))
        snapshot, done = self.after(before, self.FIRST)

        assert done is None
        assert snapshot.tables[0].progress
        assert snapshot.tables[0].progress.reread == (("7",), ("2",), ("3",))

    def test_it_is_finished_when_all_were_read(self):
        snapshot, done = self.after(self.FIRST, self.again("2", "3"))

        assert snapshot.tables == ()
        assert done
        assert done.progress == Progress(EXTENT, 5, ("100",), 102, 91, 2, covered=True, rounds=1)

    @pytest.mark.parametrize(
        ("keys", "lacking", "left"),
        [
            (("2",), (), ("3",)),
            (("2", "3"), ("3",), ("3",)),
            (("2", "3"), ("9",), ("9",)),
            (("2",), ("2",), ("2", "3")),
        ],
    )
    def test_what_lacks_a_value_again_stays(self, keys, lacking, left):
        snapshot, done = self.after(self.FIRST, self.again(*keys, lacking=lacking))

        assert done is None
        assert snapshot.tables[0].progress
        assert snapshot.tables[0].progress.reread == tuple((key,) for key in left)
        assert snapshot.tables[0].progress.rounds == 1

"""Windows cut to a budget, and runs that leave nothing out between them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model import CollectionId, Range, Run, Target
from engine.snapshot.extent import Advance, Extent, Progress
from engine.snapshot.plan import Budget, plan_window
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Key

A, B, C = (Target(CollectionId(("public", name))) for name in "abc")
BUDGET = Budget(rows=100, bytes=1 << 30, tasks=2, chunk_rows=10)
WHOLE = Extent(rows=25, bytes=250, whole=True)
SPANNED = Extent(rows=1000, bytes=10_000, greatest=("1000",), span=(1, 1000))
EMPTY = Extent(rows=0, bytes=0)


class Keys:
    """A collection's keys in the database's order, which answers for boundaries."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        self.asked: list[tuple[Key | None, int, int]] = []

    def __call__(self, _target: Target, unread: Range, step_rows: int, count: int) -> Sequence[Key]:
        after, upto = unread.after, unread.upto or ("",)
        self.asked.append((after, step_rows, count))
        start = 0 if after is None else self.keys.index(str(after[0])) + 1
        left = self.keys[start : self.keys.index(str(upto[0]))]
        return [(key,) for key in left[step_rows - 1 :: step_rows][:count]]


LETTERS = Keys(*"qwertyuiopasdfghjklzxcvbnm")
PROBED = Extent(rows=26, bytes=26, greatest=("m",))


def begun(extent: Extent, last: Key | None = None, rows: int = 0) -> Progress:
    left = extent.ranges if last is None else (Range(last, extent.greatest),)
    return Progress(extent, 0, left, rows=rows)


def snapshot(*tables: tuple[Target, Extent | None], last: Key | None = None, rows: int = 0) -> Snapshot:
    return Snapshot(
        tuple(
            Table(ticket, "s", target, begun(extent, last, rows) if extent else None)
            for ticket, (target, extent) in enumerate(tables, 1)
        )
    )


def runs(plan: Sequence[Run]) -> list[tuple[int, Key | None, Key | None, int]]:
    return [(run.ticket, run.after, run.upto, run.chunks) for run in plan]


@pytest.mark.parametrize(
    ("pieces", "piece_rows", "piece_bytes", "expected"),
    [(12, 10, 0, 10), (3, 10, 0, 6), (12, 25, 0, 4), (12, 100, 0, 2), (12, 10, 250, 4), (12, 25, 100, 4)],
)
def test_a_task_reads_a_window_in_so_many_runs_of_so_many_rows(pieces, piece_rows, piece_bytes, expected):
    budget = replace(BUDGET, pieces=pieces, piece_rows=piece_rows, piece_bytes=piece_bytes)

    assert len(plan_window(snapshot((A, SPANNED)), budget, Keys())) == expected


class TestWhatIsLeft:
    """The last window of a collection is cut for all tasks, too."""

    def test_few_integer_keys_are_shared_among_the_tasks(self):
        planned = plan_window(snapshot((A, SPANNED), last=("940",), rows=940), BUDGET, Keys())

        assert runs(planned) == [(1, ("940",), ("973",), 3), (1, ("973",), ("1000",), 3)]

    def test_few_probed_keys_are_shared_among_the_tasks(self):
        planned = plan_window(
            snapshot((A, PROBED), last=("p",), rows=10), replace(BUDGET, chunk_rows=4), LETTERS
        )

        assert runs(planned) == [(1, ("p",), ("l",), 2), (1, ("l",), ("m",), 2)]

    def test_an_estimate_that_was_exceeded_makes_no_window_small(self):
        keys = Keys(*map(str, range(1000)))
        extent = replace(PROBED, greatest=("999",))
        planned = plan_window(snapshot((A, extent), last=("99",), rows=100), BUDGET, keys)

        assert [run.upto for run in planned] == [("149",), ("199",)]


class TestTables:
    """Which collections a window takes."""

    @pytest.mark.parametrize(
        ("tables", "budget", "expected"),
        [
            pytest.param([], BUDGET, (), id="an empty queue"),
            pytest.param([(A, None)], BUDGET, (), id="nothing has begun"),
            pytest.param([(A, WHOLE)], BUDGET, (Run(1, A, None, None, 3),), id="a whole one"),
            pytest.param(
                [(A, Extent(0, 0, whole=True))],
                BUDGET,
                (Run(1, A, None, None, 1),),
                id="a whole one without rows, perhaps",
            ),
            pytest.param([(A, EMPTY)], BUDGET, (), id="one surely without rows"),
            pytest.param(
                [(A, WHOLE), (B, EMPTY), (A, WHOLE)],
                BUDGET,
                (Run(1, A, None, None, 3), Run(3, A, None, None, 3)),
                id="many in one window, one of them twice",
            ),
            pytest.param(
                [(A, WHOLE), (B, None), (C, WHOLE)],
                BUDGET,
                (Run(1, A, None, None, 3),),
                id="none behind one that has not begun",
            ),
            pytest.param(
                [(A, WHOLE), (B, WHOLE)],
                Budget(rows=20, bytes=1 << 30, tasks=2, chunk_rows=10),
                (Run(1, A, None, None, 3),),
                id="rows used up",
            ),
            pytest.param(
                [(A, WHOLE), (B, WHOLE)],
                Budget(rows=100, bytes=200, tasks=2, chunk_rows=10),
                (Run(1, A, None, None, 3),),
                id="bytes used up",
            ),
            pytest.param(
                [(A, WHOLE), (B, WHOLE)],
                Budget(rows=100, bytes=1 << 30, tasks=2, chunk_rows=10, chunks=3),
                (Run(1, A, None, None, 3),),
                id="chunks used up",
            ),
        ],
    )
    def test_a_window_takes_them_in_order_within_its_budget(self, tables, budget, expected):
        assert plan_window(snapshot(*tables), budget, LETTERS) == expected

    def test_a_large_one_keeps_those_behind_it_waiting(self):
        plan = plan_window(snapshot((A, SPANNED), (B, WHOLE)), BUDGET, LETTERS)

        assert {run.ticket for run in plan} == {1}

    def test_the_end_of_one_and_the_begin_of_the_next_share_a_window(self):
        first, second = Table(1, "s", A, begun(PROBED, ("x",))), Table(2, "s", B, begun(SPANNED))
        plan = plan_window(Snapshot((first, second)), BUDGET, LETTERS)

        assert [run.ticket for run in plan] == [1, 2, 2]


class TestRanges:
    """What is left of a collection may be several ranges."""

    def left(self, extent: Extent, *bounds: tuple[str, str]) -> Snapshot:
        left = tuple(Range((after,), (upto,)) for after, upto in bounds)
        return Snapshot((Table(1, "s", A, Progress(extent, 0, left)),))

    def test_small_ones_share_a_window(self):
        plan = plan_window(self.left(SPANNED, ("10", "20"), ("500", "510")), BUDGET, Keys())

        assert runs(plan) == [(1, ("10",), ("20",), 1), (1, ("500",), ("510",), 1)]

    def test_a_large_one_is_cut_and_keeps_the_next_waiting(self):
        plan = plan_window(self.left(SPANNED, ("10", "400"), ("500", "510")), BUDGET, Keys())

        assert runs(plan) == [(1, ("10",), ("60",), 5), (1, ("60",), ("110",), 5)]

    def test_the_end_of_one_and_the_begin_of_the_next_share_a_window_too(self):
        plan = plan_window(self.left(PROBED, ("b", "n"), ("w", "m")), Budget(4, 1 << 30, 2, 2), LETTERS)

        assert runs(plan) == [(1, ("b",), ("n",), 1), (1, ("w",), ("r",), 1)]


class TestAlone:
    """One run at a time, where one of several could not be read."""

    ALONE = Budget(rows=20, bytes=1 << 30, tasks=2, chunk_rows=10, alone=True)

    def test_a_large_collection_gives_one_run(self):
        assert runs(plan_window(snapshot((A, SPANNED)), self.ALONE, Keys())) == [(1, None, ("20",), 2)]

    def test_a_very_large_collection_gives_one_run_too(self):
        extent = Extent(rows=1_000_000, bytes=10_000_000, greatest=("1000000",), span=(1, 1_000_000))
        budget = Budget(rows=400_000, bytes=1 << 30, tasks=2, chunk_rows=10, alone=True)

        assert runs(plan_window(snapshot((A, extent)), budget, Keys())) == [(1, None, ("400000",), 40_000)]

    def test_small_collections_come_one_by_one(self):
        assert runs(plan_window(snapshot((A, WHOLE), (B, WHOLE)), self.ALONE, Keys())) == [(1, None, None, 3)]

    def test_keys_to_read_again_are_few(self):
        keys = tuple((str(number),) for number in range(50))
        queue = Snapshot((Table(1, "s", A, Progress(SPANNED, 0, (), reread=keys)),))

        assert plan_window(queue, self.ALONE, Keys())[0].keys == keys[:20]


def test_the_snapshot_before_the_log_shares_no_window_with_others():
    targets = [replace(A, initial=at < 3) for at in (1, 2, 3)]
    queue = Snapshot(tuple(Table(at, "s", target, begun(WHOLE)) for at, target in enumerate(targets, 1)))

    assert [run.ticket for run in plan_window(queue, BUDGET, Keys())] == [1, 2]


class TestKeysToReadAgain:
    """What is left of a collection once all its ranges have been read."""

    KEYS = tuple((str(number),) for number in range(12_000))

    def covered(self, *keys: Key) -> Snapshot:
        progress = Progress(SPANNED, 0, (), rows=1000, reread=keys)
        return Snapshot((Table(1, "s", A, progress), Table(2, "s", B, begun(WHOLE))))

    def test_they_are_a_run_in_a_window_of_their_own(self):
        plan = plan_window(self.covered(*self.KEYS[:30]), BUDGET, LETTERS)

        assert plan == (Run(1, A, None, None, 3, self.KEYS[:30]),)

    def test_those_of_several_collections_share_a_window(self):
        progress = Progress(SPANNED, 0, (), rows=1000, reread=self.KEYS[:3])
        queue = Snapshot((Table(1, "s", A, progress), Table(2, "s", B, progress)))

        assert [run.ticket for run in plan_window(queue, BUDGET, LETTERS)] == [1, 2]

    def test_they_do_not_follow_the_ranges_of_others(self):
        again = Progress(SPANNED, 0, (), rows=1000, reread=self.KEYS[:3])
        queue = Snapshot((Table(1, "s", A, begun(WHOLE)), Table(2, "s", B, again)))

        assert [run.ticket for run in plan_window(queue, BUDGET, LETTERS)] == [1]

    def test_many_are_read_before_the_ranges_that_are_left(self):
        progress = Progress(SPANNED, 0, SPANNED.ranges, reread=self.KEYS)
        queue = Snapshot((Table(1, "s", A, progress), Table(2, "s", B, begun(WHOLE))))
        (again,) = plan_window(queue, BUDGET, LETTERS)
        few = Snapshot((Table(1, "s", A, replace(progress, reread=self.KEYS[:30])),))

        assert again.keys
        assert not any(run.keys for run in plan_window(few, BUDGET, LETTERS))

    def test_very_many_take_several_windows(self):
        plan = plan_window(self.covered(*self.KEYS), BUDGET, LETTERS)

        assert plan[0].keys == self.KEYS[: len(plan[0].keys)]
        assert 0 < len(plan[0].keys) < 12_000


class TestRuns:
    """How one collection is cut."""

    def test_dense_integers_are_cut_by_arithmetic(self):
        keys = Keys()
        plan = plan_window(snapshot((A, SPANNED)), BUDGET, keys)

        assert runs(plan) == [(1, None, ("50",), 5), (1, ("50",), ("100",), 5)]
        assert keys.asked == []

    def test_the_next_window_goes_on_from_the_last_key(self):
        plan = plan_window(snapshot((A, SPANNED), last=("100",), rows=100), BUDGET, Keys())

        assert runs(plan) == [(1, ("100",), ("150",), 5), (1, ("150",), ("200",), 5)]

    def test_the_last_run_ends_at_the_greatest_key(self):
        plan = plan_window(snapshot((A, SPANNED), last=("930",), rows=930), BUDGET, Keys())

        assert runs(plan) == [(1, ("930",), ("969",), 4), (1, ("969",), ("1000",), 4)]

    def test_gaps_between_integers_widen_the_runs(self):
        sparse = Extent(rows=500, bytes=5000, greatest=("1000",), span=(1, 1000))

        assert runs(plan_window(snapshot((A, sparse)), BUDGET, Keys()))[0] == (1, None, ("100",), 5)

    def test_more_rows_than_estimated_narrow_them_again(self):
        sparse = Extent(rows=500, bytes=5000, greatest=("1000",), span=(1, 1000))
        plan = plan_window(snapshot((A, sparse), last=("200",), rows=200), BUDGET, Keys())

        assert runs(plan)[0] == (1, ("200",), ("250",), 5)

    def test_negative_keys_are_integers_too(self):
        extent = Extent(rows=20, bytes=200, greatest=("9",), span=(-10, 9))
        plan = plan_window(snapshot((A, extent)), Budget(10, 1 << 30, 1, 5), Keys())

        assert runs(plan) == [(1, None, ("-1",), 2)]

    def test_other_keys_are_cut_where_the_database_says(self):
        keys = Keys(*LETTERS.keys)
        plan = plan_window(snapshot((A, PROBED)), Budget(12, 1 << 30, 2, 3), keys)

        assert runs(plan) == [(1, None, ("y",), 2), (1, ("y",), ("s",), 2)]
        assert keys.asked == [(None, 6, 2)]

    def test_they_end_with_the_greatest_when_no_boundary_is_left(self):
        keys = Keys(*LETTERS.keys)
        plan = plan_window(snapshot((A, PROBED), last=("x",)), Budget(12, 1 << 30, 2, 3), keys)

        assert runs(plan) == [(1, ("x",), ("m",), 2)]

    @pytest.mark.parametrize(
        ("budget", "expected"),
        [
            pytest.param(Budget(rows=100, bytes=1 << 30, tasks=8, chunk_rows=10), 8, id="one a task"),
            pytest.param(Budget(rows=30, bytes=1 << 30, tasks=8, chunk_rows=10), 3, id="not below a chunk"),
            pytest.param(Budget(rows=5, bytes=1 << 30, tasks=8, chunk_rows=10), 1, id="at least one chunk"),
            pytest.param(Budget(rows=100, bytes=200, tasks=8, chunk_rows=10), 2, id="within the bytes"),
            pytest.param(Budget(100, 1 << 30, tasks=8, chunk_rows=10, chunks=1), 1, id="within the chunks"),
        ],
    )
    def test_there_are_as_many_as_tasks_and_budget_allow(self, budget, expected):
        assert len(plan_window(snapshot((A, SPANNED)), budget, Keys())) == expected


def windows_to_the_end(queue: Snapshot, budget: Budget, keys: Keys) -> list[Run]:
    """Every run of every window, with the windows' progress recorded as a job records it."""
    done: list[Run] = []
    for _ in range(1000):
        queue = queue.without(queue.done)
        if not queue.tables:
            return done
        plan = plan_window(queue, budget, keys)
        assert plan
        done += plan
        for table in queue.tables:
            mine = tuple(run for run in plan if run.ticket == table.ticket)
            rows = sum(_rows(keys, run) for run in mine)
            queue = queue.advanced(Advance(table.ticket, mine, rows, rows))
    raise AssertionError("windows without end")


def _rows(keys: Keys, run: Run) -> int:
    low = -(1 << 63) if run.after is None else int(run.after[0] or 0)
    high = 1 << 63 if run.upto is None else int(run.upto[0] or 0)
    return sum(low < int(key) <= high for key in keys.keys)


_budgets = st.builds(
    Budget,
    rows=st.integers(1, 40),
    bytes=st.integers(1, 4000),
    tasks=st.integers(1, 4),
    chunk_rows=st.integers(1, 10),
    chunks=st.none() | st.integers(1, 5),
)


@settings(max_examples=100)
@given(
    st.lists(st.integers(-200, 200), min_size=1, unique=True).map(sorted),
    st.integers(0, 400),
    st.booleans(),
    _budgets,
)
def test_runs_are_contiguous_and_cover_everything_up_to_the_greatest_key(numbers, estimate, dense, budget):
    keys = Keys(*map(str, numbers))
    span = (numbers[0], numbers[-1]) if dense else None
    extent = Extent(estimate, 10 * estimate, greatest=(str(numbers[-1]),), span=span)
    done = windows_to_the_end(snapshot((A, extent), (B, extent)), budget, keys)

    for ticket in (1, 2):
        mine = [run for run in done if run.ticket == ticket]
        assert mine[0].after is None
        assert mine[-1].upto == extent.greatest
        assert all(run.upto == following.after for run, following in pairwise(mine))
        assert sum(_rows(keys, run) for run in mine) == len(numbers)
        assert all(run.chunks >= 1 for run in mine)


@pytest.mark.parametrize(
    ("row_bytes", "expected"),
    [(1, 100), (20, 50), (99, 10), (500, 2), (5000, 1)],
)
def test_bytes_bound_a_window_of_large_rows_below_a_chunk(row_bytes, expected):
    assert Budget(rows=100, bytes=1000, tasks=2, chunk_rows=10).rows_for(row_bytes) == expected


@pytest.mark.parametrize(
    ("rows", "chunk_rows", "runs"),
    [(600_000, 1024, 24), (200_000, 1024, 8), (30_000, 1024, 2), (600_000, 100_000, 6)],
)
def test_a_task_reads_several_runs_none_of_them_small(rows: int, chunk_rows: int, runs: int):
    many = Extent(rows=10**7, bytes=10**9, greatest=(str(10**7),), span=(1, 10**7))
    budget = replace(BUDGET, rows=rows, chunk_rows=chunk_rows)

    assert len(plan_window(snapshot((A, many)), budget, LETTERS)) == runs

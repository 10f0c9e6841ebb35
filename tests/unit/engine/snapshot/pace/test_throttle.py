"""What is read per second stays within the limits, however windows and restarts fall."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from engine.model import NO_LIMIT, CollectionId, Limit, Target
from engine.snapshot.pace.throttle import Throttle, lane
from engine.snapshot.queue_entry import Table

SLOW = Table(1, "s", Target(CollectionId(("public", "t"))), limit=Limit(rows=1_000))
FREE = replace(SLOW, limit=NO_LIMIT)
ROW_BYTES = 100


@dataclass
class Reader:
    """Reads windows as fast as it may, with a clock of its own; each takes `reads_s`, `late_s` too late."""

    table: Table
    job: Limit = NO_LIMIT
    reads_s: float = 0.3
    late_s: float = 0.05
    now_s: float = 100.0
    bytes_per_row: int = ROW_BYTES
    read: list[tuple[float, int]] = field(default_factory=list)
    ids: count[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """As a new process does, which knows nothing of what was read before."""
        self.throttle = Throttle(self.job, 2.0)

    def window(self) -> int:
        """Wait until a window may open, and read it. Returns its rows."""
        self.throttle.follow([self.table], self.now_s)
        while self.throttle.job_waits(self.now_s) or self.throttle.waits(self.table, self.now_s):
            self.now_s += self.late_s
        most = self.throttle.most_rows(self.table, ROW_BYTES, 2.0)
        rows, window = most if most is not None else 200_000, str(next(self.ids))
        self.throttle.charge(window, self.table, (rows, rows * ROW_BYTES), self.now_s)
        self.read.append((self.now_s, rows))
        self.now_s += self.reads_s
        self.throttle.correct_charge(window, rows, rows * self.bytes_per_row)
        return rows

    def rate(self) -> float:
        """Rows per second between the first window and the last."""
        return sum(rows for _at, rows in self.read[:-1]) / (self.read[-1][0] - self.read[0][0])


@pytest.mark.parametrize(
    ("limit", "job", "expected"),
    [
        pytest.param(Limit(rows=1_000), NO_LIMIT, 1_000, id="rows of a signal"),
        pytest.param(NO_LIMIT, Limit(rows=1_000), 1_000, id="rows of the job"),
        pytest.param(Limit(rows=700), Limit(rows=1_000), 700, id="the signal's is lower"),
        pytest.param(Limit(rows=1_000), Limit(rows=300), 300, id="the job's is lower"),
        pytest.param(Limit(bytes=50_000), NO_LIMIT, 500, id="bytes"),
        pytest.param(Limit(rows=3_000, bytes=50_000), NO_LIMIT, 500, id="bytes before rows"),
        pytest.param(Limit(rows=7), NO_LIMIT, 7, id="few"),
    ],
)
def test_the_limit_holds_within_a_tenth_over_many_windows(limit, job, expected):
    reader = Reader(replace(SLOW, limit=limit), job)
    for _ in range(40):
        reader.window()

    assert reader.rate() == pytest.approx(expected, rel=0.1)


def test_rows_that_are_larger_than_estimated_are_counted_as_they_are():
    reader = Reader(replace(SLOW, limit=Limit(bytes=1_000_000)), bytes_per_row=4 * ROW_BYTES)
    for _ in range(40):
        reader.window()

    assert reader.rate() == pytest.approx(2_500, rel=0.1)
    assert reader.read[5][1] == pytest.approx(5_000, rel=0.1), "later windows are as small as they must be"


def test_it_holds_over_restarts():
    reader = Reader(SLOW)
    for _ in range(12):
        for _ in range(3):
            reader.window()
        reader.start()  # the rows of the last window may have to be read again

    rows = sum(rows for _at, rows in reader.read)
    assert rows / (reader.read[-1][0] - reader.read[0][0]) <= 1_100


def test_a_process_that_dies_in_each_window_reads_no_faster():
    reader = Reader(SLOW, reads_s=0.1)
    for _ in range(30):
        reader.window()
        reader.start()

    assert reader.rate() <= 1_100


def test_no_window_waits_once_it_is_open_and_small_limits_make_it_small():
    reader = Reader(replace(SLOW, limit=Limit(rows=10)), reads_s=0.0)

    assert [reader.window() for _ in range(3)] == [20, 20, 20]


def test_a_window_that_is_open_counts_for_the_next_one():
    throttle = Throttle(NO_LIMIT, 2.0)
    throttle.follow([], 0.0)
    throttle.follow([SLOW], 1.0)
    throttle.charge("first", SLOW, (2_000, 0), 1.0)

    assert throttle.waits(SLOW, 2.9)
    throttle.correct_charge("first", 500, 0)
    assert not throttle.waits(SLOW, 1.5)
    assert throttle.waits(SLOW, 1.4)


def test_what_was_given_up_stays_charged_because_it_may_have_been_read():
    throttle = Throttle(NO_LIMIT, 2.0)
    throttle.follow([], 0.0)
    throttle.follow([SLOW], 0.0)
    throttle.charge("first", SLOW, (2_000, 0), 0.0)
    throttle.keep_charge("first")
    throttle.correct_charge("first", 0, 0)

    assert throttle.waits(SLOW, 1.9)


def test_signals_wait_for_themselves_alone():
    other = replace(SLOW, ticket=2, signal="other")
    throttle = Throttle(NO_LIMIT, 2.0)
    throttle.follow([], 0.0)
    throttle.follow([SLOW, other, FREE], 0.0)
    throttle.charge("first", SLOW, (2_000, 0), 0.0)

    assert [throttle.waits(table, 1.0) for table in (SLOW, other, FREE)] == [True, False, False]
    assert lane(SLOW) != lane(other)


def test_a_signal_that_comes_later_does_not_wait():
    throttle = Throttle(NO_LIMIT, 2.0)
    throttle.follow([FREE], 0.0)
    throttle.follow([FREE, SLOW], 0.5)

    assert not throttle.waits(SLOW, 0.5)


def test_a_signal_that_was_there_at_the_start_waits_as_long_as_for_a_window():
    throttle = Throttle(NO_LIMIT, 2.0)
    throttle.follow([SLOW], 0.0)

    assert (throttle.waits(SLOW, 1.9), throttle.waits(SLOW, 2.0)) == (True, False)


def test_without_limits_nothing_waits_and_windows_may_have_any_size():
    throttle = Throttle(NO_LIMIT, 2.0)
    throttle.follow([FREE], 0.0)
    throttle.charge("first", FREE, (10**9, 10**12), 0.0)

    assert not throttle.job_waits(0.0)
    assert not throttle.waits(FREE, 0.0)
    assert throttle.most_rows(FREE, 1.0, 2.0) is None
    assert throttle.speed(NO_LIMIT, 5_000.0, 10.0) == 5_000.0


def test_an_estimate_takes_the_lowest_limit():
    throttle = Throttle(Limit(rows=4_000), 2.0)

    assert throttle.speed(NO_LIMIT, 100_000.0, 10.0) == 4_000.0
    assert throttle.speed(Limit(rows=300), 100_000.0, 10.0) == 300.0
    assert throttle.speed(Limit(bytes=1_000), 100_000.0, 10.0) == 100.0

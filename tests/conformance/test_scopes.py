"""What every source must promise of a signal's keys and ranges: exactly their rows are planned and read."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from engine.errors import SignalError
from engine.job.saved.state import State
from engine.model import Scope, Stretch, Window
from engine.snapshot.extent import Advance, Extent, ScopeExtent
from engine.snapshot.plan import Budget, plan_window
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.conformance.subjects import T, open_log
from tests.conformance.test_window import rows_of, staged_by
from tests.memory_source import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ports.source import Source
    from tests.conformance.subjects import Subject

ROWS = (-20, -3, 0, 1, 2, 9, 10, 11, 30, 100, 101, 130)


@pytest.fixture
def source(subject) -> Iterator[Source]:
    made = subject.source()
    _state, log = open_log(made, State())
    yield made
    log.close()


def fill(subject: Subject, *keys: int) -> None:
    subject.commit(*(Change(T, key, "x") for key in keys))


def keys(*some: int) -> Scope:
    return Scope(keys=tuple((str(key),) for key in some))


def ranges(*some: tuple[int | None, int | None]) -> Scope:
    def bound(key: int | None) -> tuple[str, ...] | None:
        return None if key is None else (str(key),)

    return Scope(stretches=tuple(Stretch(bound(start), bound(end)) for start, end in some))


def measured(subject: Subject, source: Source, scope: Scope) -> Extent | Exception:
    (extent,) = source.tables().measure([replace(subject.target, scope=scope)])
    return extent


def read(subject: Subject, source: Source, scope: Scope, rows: int) -> list[int]:
    """The keys that windows of about so many rows read, in the order read."""
    target = replace(subject.target, scope=scope)
    extent = measured(subject, source, scope)
    assert isinstance(extent, Extent)
    snapshot = Snapshot((Table(1, "s", target),)).with_extent(1, extent, 0)
    found: list[int] = []
    while not snapshot.done:
        budget = Budget(rows, 1 << 30, 2, rows, strict=True)
        runs = plan_window(snapshot, budget, source.tables().boundaries)
        window = source.open_window(Window(str(uuid4()), runs))
        found += [key for key, _value in rows_of(subject, staged_by(window))]
        window.close()
        snapshot = snapshot.advanced(Advance(1, runs))
    return found


CASES = {
    "keys, of which some are there": (keys(9, 1, 5000, 30, 3), [1, 9, 30]),
    "a key that is not there": (keys(7), []),
    "from closed, to open": (ranges((1, 30)), [1, 2, 9, 10, 11]),
    "between rows": (ranges((3, 29)), [9, 10, 11]),
    "without from": (ranges((None, 1)), [-20, -3, 0]),
    "without to": (ranges((100, None)), [100, 101, 130]),
    "without both": (ranges((None, None)), list(ROWS)),
    "behind the last row": (ranges((5000, None)), []),
    "in any order": (ranges((100, 102), (-3, 2)), [-3, 0, 1, 100, 101]),
    "overlapping": (ranges((0, 10), (2, 12), (9, 10)), [0, 1, 2, 9, 10, 11]),
    "side by side": (ranges((0, 2), (2, 10)), [0, 1, 2, 9]),
    "one within another": (ranges((10, None), (11, 30)), [10, 11, 30, 100, 101, 130]),
}


def test_exactly_the_rows_asked_for_are_read_each_once(subject, source):
    fill(subject, *ROWS)

    found = {name: sorted(read(subject, source, scope, 1000)) for name, (scope, _expected) in CASES.items()}
    assert found == {name: expected for name, (_scope, expected) in CASES.items()}


def test_small_windows_follow_each_other_within_the_ranges(subject, source):
    fill(subject, *ROWS)

    assert read(subject, source, ranges((1, 30), (100, None)), 3) == [1, 2, 9, 10, 11, 100, 101, 130]


def test_rows_that_come_later_are_not_read_beside_the_ranges(subject, source):
    fill(subject, 1, 100)
    target = replace(subject.target, scope=ranges((10, 90)))
    (extent,) = source.tables().measure([target])
    assert isinstance(extent, Extent)
    fill(subject, 5, 10, 50, 90, 95)
    runs = plan_window(
        Snapshot((Table(1, "s", target),)).with_extent(1, extent, 0),
        Budget(1000, 1 << 30, 1, 1000),
        source.tables().boundaries,
    )
    window = source.open_window(Window("w", runs))

    with closing(window):
        assert [key for key, _value in rows_of(subject, staged_by(window))] == [10, 50]


def test_the_points_are_the_keys_each_once(subject, source):
    fill(subject, *ROWS)
    extent = measured(subject, source, keys(9, 1, 30))

    assert isinstance(extent, Extent)
    assert extent.scoped == ScopeExtent(3, points=(("9",), ("1",), ("30",)))
    assert not extent.whole


def test_an_empty_collection_is_read_all_the_same(subject, source):
    fill(subject, 1)
    subject.commit(Change(T, 1, None))
    for scope in (keys(1), ranges((None, None)), ranges((5, None)), ranges((1, 2))):
        extent = measured(subject, source, scope)

        assert isinstance(extent, Extent)
        assert extent.ranges or (extent.scoped and extent.scoped.points)
        assert read(subject, source, scope, 10) == []


def test_a_range_that_can_t_hold_a_key_is_refused(subject, source):
    fill(subject, *ROWS)
    for bounds in ((5, 5), (5, 1)):
        refused = measured(subject, source, ranges((0, 3), bounds))

        assert isinstance(refused, SignalError)
        assert "entry 2 of 'ranges' is empty: its 'from' is not before its 'to'" in str(refused)


def test_many_keys_are_read_in_few_queries(subject, source):
    fill(subject, *range(1, 30))
    many = keys(*range(0, 20_000, 2))
    target = replace(subject.target, scope=many)
    extent = measured(subject, source, many)
    assert isinstance(extent, Extent)
    snapshot = Snapshot((Table(1, "s", target),)).with_extent(1, extent, 0)
    runs = plan_window(snapshot, Budget(200_000, 1 << 30, 2, 1024), source.tables().boundaries)
    window = source.open_window(Window("many", runs))

    assert len(runs) == 10
    with closing(window):
        assert sorted(key for key, _value in rows_of(subject, staged_by(window))) == list(range(2, 30, 2))


VALUES = ('{"a": 1}', "[1, 2]", '"x y z"', "true", "null", "99999999999999999999999999")


def test_a_value_of_another_type_is_refused_or_finds_nothing(subject, source):
    fill(subject, *ROWS)
    for value in VALUES:
        scope = Scope(keys=((value,),))
        found = measured(subject, source, scope)

        if isinstance(found, SignalError):
            assert "x y z" not in str(found)
        else:
            assert read(subject, source, scope, 10) == []


def test_a_key_of_more_columns_is_refused(subject, source):
    fill(subject, *ROWS)
    found = measured(subject, source, Scope(keys=(("1", "2"),)))

    assert isinstance(found, SignalError)
    assert "a key of the signal has 2 values" in str(found)

"""What every catalog must promise; see `engine.ports.source.Tables` and `engine.snapshot.plan.Boundaries`."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from engine.errors import SignalError
from engine.job.saved.state import State
from engine.model import CollectionId, Range, Target
from engine.snapshot.extent import Extent
from tests.conformance.subjects import T, open_log
from tests.memory_source import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ports.source import Tables
    from tests.conformance.subjects import Subject

NOBODY = CollectionId(("public", "nobody"))


@pytest.fixture
def tables(subject) -> Iterator[Tables]:
    source = subject.source()
    _state, log = open_log(source, State())
    yield source.tables()
    log.close()


def fill(subject: Subject, *keys: int) -> None:
    subject.commit(*(Change(T, key, "x") for key in keys))


def test_the_captured_are_named_in_order(subject, tables):
    fill(subject, 1)
    captured = list(tables.captured())

    assert subject.target.collection in captured
    assert NOBODY not in captured
    assert captured == sorted(captured)


@pytest.mark.parametrize("keys", [[9, 10], [-3, 0, 100, 20]])
def test_the_greatest_key_is_the_database_s(subject, tables, keys):
    fill(subject, *keys)
    (extent,) = tables.measure([subject.target])

    assert isinstance(extent, Extent)
    assert extent.greatest == (str(max(keys)),)
    assert extent.span in (None, (min(keys), max(keys)))


def test_estimates_are_no_negative_numbers(subject, tables):
    fill(subject, 1, 2, 3)
    (extent,) = tables.measure([subject.target])

    assert isinstance(extent, Extent)
    assert extent.rows >= 0
    assert extent.bytes >= 0


def test_an_empty_collection_has_no_greatest_key(subject, tables):
    fill(subject, 1)
    subject.commit(Change(T, 1, None))
    (extent,) = tables.measure([subject.target])

    assert isinstance(extent, Extent)
    assert (extent.greatest, extent.span) == (None, None)


def test_each_target_has_its_answer_in_its_place(subject, tables):
    fill(subject, 1)
    before, missing, after = tables.measure([subject.target, Target(NOBODY), subject.target])

    assert isinstance(missing, SignalError)
    assert str(NOBODY) in str(missing)
    assert before == after


def test_nothing_asked_is_nothing_answered(tables):
    assert list(tables.measure([])) == []


KEYS = (-20, -3, 0, 1, 2, 9, 10, 11, 30, 100, 101, 1000)


AFTERS = (None, -20, 2, 5, 101)
STEPS = ((1, 99), (1, 2), (3, 99), (4, 2), (11, 1), (50, 5))


def test_boundaries_stand_so_many_rows_apart_below_the_upper_one(subject, tables):
    fill(subject, *KEYS)
    expected, found = {}, {}
    for after, (step_rows, count) in product(AFTERS, STEPS):
        left = [key for key in KEYS if (after is None or key > after) and key < 1000]
        expected[after, step_rows, count] = left[step_rows - 1 :: step_rows][:count]
        start = None if after is None else (str(after),)
        boundaries = tables.boundaries(subject.target, Range(start, ("1000",)), step_rows, count)
        found[after, step_rows, count] = [int(key[0] or 0) for key in boundaries]

    assert found == expected


def test_there_are_none_where_there_are_no_rows_between(subject, tables):
    fill(subject, *KEYS)
    between = [("1000", "1000"), ("101", "1000"), ("1000", "5000"), ("12", "29")]

    ranges = [Range((after,), (upto,)) for after, upto in between]
    assert [list(tables.boundaries(subject.target, left, 1, 5)) for left in ranges] == [[]] * 4

"""A long run that has not brought about what is rare fails, and a short one does not."""

from __future__ import annotations

from collections import Counter

from tests.torture.floors import FLOORS, SUPERSEDED, missed


def test_a_short_run_need_not_have_seen_anything():
    assert missed("postgres", 9.0, Counter()) == []


def test_a_long_run_names_all_that_is_too_rare():
    assert len(missed("postgres", 20.0, Counter())) == len(FLOORS["postgres"])


def test_what_is_wanted_grows_with_the_minutes():
    seen = Counter(dict(FLOORS["postgres"]))

    assert missed("postgres", 20.0, seen) == []
    assert f"{SUPERSEDED}: 55, and 110 are wanted" in missed("postgres", 40.0, seen)


def test_a_source_without_floors_misses_none():
    assert missed("sqlserver", 60.0, Counter()) == []

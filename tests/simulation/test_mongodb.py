"""A sample of MongoDB's world: histories, the faults that its seeds find again, and what a find means."""

from __future__ import annotations

import pytest

from tests.simulation.mongodb.client import chosen
from tests.simulation.mongodb.mends import FAULTS, REGRESSIONS
from tests.simulation.playing import play

_HISTORIES = 12
_SAVED = sorted(path.stem for path in REGRESSIONS.glob("*.json"))


@pytest.mark.slow
def test_histories_violate_nothing():
    happened, failed = play(1, _HISTORIES, "mongodb")

    assert failed == []
    assert happened["READ events"] > 100
    assert happened["windows"] > 40


@pytest.mark.parametrize("name", _SAVED)
def test_a_fault_is_found_again_without_its_mend(name):
    assert _SAVED
    assert FAULTS.replays(name)


def test_a_find_means_what_the_server_would_take_it_for():
    docs = {key: {"_id": key, "value": f"v{key}"} for key in range(5)}
    inner = {"min": {"_id": 1}, "max": {"_id": 4}, "filter": {"$and": [{"_id": {"$nin": [1]}}]}}
    last = {"sort": {"_id": -1}, "limit": 1, "projection": {"_id": 1}}

    assert [document["_id"] for document in chosen(inner, docs)] == [2, 3]
    assert chosen(last, docs) == [{"_id": 4}]

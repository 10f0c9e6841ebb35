"""A sample of MongoDB's world: histories, and their determinism."""

from __future__ import annotations

import pytest

from tests.simulation.elsewhere import printed_elsewhere
from tests.simulation.mongodb.client import chosen
from tests.simulation.mongodb.mends import FAULTS, REGRESSIONS
from tests.simulation.mongodb.script import draw
from tests.simulation.playing import play
from tests.simulation.script import to_json
from tests.simulation.worlds import saved

_HISTORIES = 12
_SAVED = sorted(path.stem for path in REGRESSIONS.glob("*.json"))
_PRINTS = """
from tests.simulation.mongodb.script import draw
from tests.simulation.story import told
from tests.simulation.worlds import played
for seed in (3, 9):
    print("\\n".join(told(played(draw(seed), story=True).story)))
"""


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


@pytest.mark.slow
def test_a_seed_gives_the_same_history_to_the_byte_in_every_process():
    stories = printed_elsewhere(_PRINTS)

    assert len(stories[0]) > 10_000
    assert stories[0] == stories[1]


def test_a_history_survives_being_saved():
    history = draw(11)

    assert saved(to_json(history)) == history


def test_a_find_means_what_the_server_would_take_it_for():
    docs = {key: {"_id": key, "value": f"v{key}"} for key in range(5)}
    inner = {"min": {"_id": 1}, "max": {"_id": 4}, "filter": {"$and": [{"_id": {"$nin": [1]}}]}}
    last = {"sort": {"_id": -1}, "limit": 1, "projection": {"_id": 1}}

    assert [one["_id"] for one in chosen(inner, docs)] == [2, 3]
    assert chosen(last, docs) == [{"_id": 4}]

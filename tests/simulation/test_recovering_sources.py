"""A sample of the sources' worlds whose jobs recover: losses are made up for or told, no verdict is false."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.figures import missed
from tests.simulation.playing import play
from tests.simulation.repair_mends import FAULTS, REGRESSIONS
from tests.simulation.script import to_json
from tests.simulation.worlds import WORLDS, saved

_HISTORIES = 6
_SAVED = [(world, path.stem) for world in FAULTS for path in sorted((REGRESSIONS / world).glob("*.json"))]


@pytest.mark.slow
@pytest.mark.parametrize("world", FAULTS)
def test_what_a_lost_log_had_is_repaired_or_told(world: str):
    happened, failed = play(1, _HISTORIES, world)

    assert failed == []
    assert happened["logs begun anew"] > 3
    assert happened["verdicts that accept"] > 10
    assert happened["deletes of repairs"] > 0


@pytest.mark.parametrize(("world", "name"), _SAVED)
def test_a_fault_is_found_again_without_its_mend(world: str, name: str):
    assert FAULTS[world].replays(name)


def test_every_mend_has_its_fault():
    assert {(world, name) for world, faults in FAULTS.items() for name in faults.mends} == set(_SAVED)


@pytest.mark.parametrize("world", FAULTS)
def test_a_history_survives_being_saved(world: str):
    history = WORLDS[world].draw(11)

    assert saved(to_json(history)) == history


@pytest.mark.parametrize("world", FAULTS)
def test_a_thousand_histories_must_be_worth_it(world: str):
    assert len(list(missed(1000, Counter(steps=1), WORLDS[world].floors))) > 10

"""What holds in each source's world: a history is the same in every process, and survives being saved."""

from __future__ import annotations

import pytest

from tests.simulation.elsewhere import printed_elsewhere
from tests.simulation.script import to_json
from tests.simulation.worlds import WORLDS, saved

_PRINTS = """
from tests.simulation.story import told
from tests.simulation.worlds import WORLDS, played
for seed in (10,):
    print("\\n".join(told(played(WORLDS["{world}"].draw(seed), story=True).story)))
"""
_WORLDS = ("mongodb", "postgres", "sqlserver")


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    ["postgres", *(pytest.param(other, marks=pytest.mark.thorough) for other in ("mongodb", "sqlserver"))],
)
def test_a_seed_gives_the_same_history_to_the_byte_in_every_process(world):
    stories = printed_elsewhere(_PRINTS.format(world=world))

    assert len(stories[0]) > 10_000
    assert stories[0] == stories[1]


@pytest.mark.parametrize("world", _WORLDS)
def test_a_history_survives_being_saved(world):
    history = WORLDS[world].draw(11)

    assert saved(to_json(history)) == history

"""A sample of the simulator: histories, their worth, their determinism, shrinking, and a few mutants."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest

from engine.snapshot.merge_key import merge_keys
from tests.simulation.elsewhere import printed_elsewhere
from tests.simulation.equivalent import EQUIVALENT
from tests.simulation.figures import missed
from tests.simulation.generator import Generator
from tests.simulation.mutants import all_mutants
from tests.simulation.playing import play
from tests.simulation.script import History, Setup, draw, from_json, to_json
from tests.simulation.shrink import shrunk
from tests.simulation.source import merge_key
from tests.simulation.story import told
from tests.simulation.world import World

_HISTORIES = 300
_ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_histories_violate_nothing_and_are_worth_the_name():
    happened, failed = play(1, _HISTORIES)

    assert failed == []
    assert list(missed(_HISTORIES, happened)) == []


def test_saved_histories_catch_their_mutants_and_nothing_else():
    """In a process of its own: a mutant must be in place before the engine is imported."""
    command = [sys.executable, "-m", "tests.simulation.mutants", "--saved"]
    played = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)

    assert played.returncode == 0, played.stdout + played.stderr
    assert len(played.stdout.splitlines()) >= FEWEST_SAVED


FEWEST_SAVED = 12


def test_a_run_that_is_worth_little_fails():
    assert list(missed(1000, Counter(steps=1)))


def test_the_generator_is_the_same_everywhere():
    choose = Generator(7)

    assert [choose.below(1000) for _ in range(6)] == FROM_SEVEN


FROM_SEVEN = [721, 649, 549, 604, 348, 182]

_PRINTS = """
import sys
from tests.simulation.script import draw, to_json
from tests.simulation.story import told
from tests.simulation.world import World
for seed in range(900, 925):
    print(to_json(draw(seed)))
    print("\\n".join(told(World(draw(seed), story=True).play().story)))
"""


def test_a_seed_gives_the_same_history_to_the_byte_in_every_process():
    stories = printed_elsewhere(_PRINTS)

    assert len(stories[0]) > 10_000
    assert stories[0] == stories[1]


def test_a_history_survives_being_saved():
    history = draw(11)

    assert from_json(to_json(history)) == history


def test_a_failing_history_is_cut_down_to_what_matters():
    def fails(history: History) -> bool:
        verbs = [step[0] for step in history.steps]
        return "crash" in verbs and "hit" in verbs[verbs.index("crash") :]

    failing = next(history for seed in range(100) if fails(history := draw(seed)))

    small = shrunk(failing, fails)

    assert [step[0] for step in small.steps] == ["crash", "hit"]
    assert small.setup == Setup()


def test_a_renewal_of_the_lease_hides_no_state_from_a_store_that_has_listed_them():
    duel = (("rival",), ("go", 20), ("go", 46), ("crash",), ("until", "commit", 150), ("rival",))
    refused = (("go", 36), ("fault", "rename", "before", 1), ("stop-blocking", 3), ("go", 9))

    played = World(History(Setup(long_queue=True), (*refused, *duel))).play()

    assert played.violation == ""
    assert played.happened["leases lost"] == 1


def test_a_story_has_columns_over_time():
    lines = list(told(World(draw(5), story=True).play().story))

    assert lines[0].startswith("transactions, log, faults")
    assert any("READ" in line for line in lines)


def test_merge_keys_made_without_arrow_are_the_same():
    keys: list[int | str] = [0, 17, "r3"]

    expected = merge_keys([pa.array([str(key) for key in keys], pa.large_string())]).to_pylist()

    assert [merge_key(key) for key in keys] == expected


def test_a_mutant_that_is_excused_exists():
    assert set(EQUIVALENT) <= {mutant.name for mutant in all_mutants()}


def test_each_group_has_its_mutants():
    groups = Counter(mutant.group for mutant in all_mutants())

    assert set(groups) == {"merge rule", "windows", "failure policy", "state protocol", "fencing"}
    assert min(groups.values()) > 40


@pytest.mark.thorough
def test_another_process_plays_the_same_histories():
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(play, 1, 2).result() == play(1, 2)

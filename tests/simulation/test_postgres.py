"""A sample of PostgreSQL's world: histories, their determinism, and the faults that its seeds find again."""

from __future__ import annotations

import pytest

from tests.simulation.elsewhere import printed_elsewhere
from tests.simulation.playing import play
from tests.simulation.postgres.mends import MENDS, REGRESSIONS, violated
from tests.simulation.postgres.script import draw
from tests.simulation.postgres.sql import condition
from tests.simulation.script import to_json
from tests.simulation.worlds import played, saved

_HISTORIES = 8
_SAVED = sorted(path.stem for path in REGRESSIONS.glob("*.json"))
_PRINTS = """
from tests.simulation.postgres.script import draw
from tests.simulation.story import told
from tests.simulation.worlds import played
for seed in (3, 9):
    print("\\n".join(told(played(draw(seed), story=True).story)))
"""


@pytest.mark.slow
def test_histories_violate_nothing():
    happened, failed = play(1, _HISTORIES, "postgres")

    assert failed == []
    assert happened["READ events"] > 100
    assert happened["windows"] > 20


@pytest.mark.parametrize("name", _SAVED)
def test_a_fault_is_found_again_without_its_mend(name):
    history = saved((REGRESSIONS / f"{name}.json").read_bytes())

    assert violated(name, history)
    assert played(history).violation == ""


def test_every_saved_fault_has_its_mend():
    assert set(_SAVED) <= set(MENDS)
    assert len(_SAVED) >= 11


@pytest.mark.slow
def test_a_seed_gives_the_same_history_to_the_byte_in_every_process():
    stories = printed_elsewhere(_PRINTS)

    assert len(stories[0]) > 10_000
    assert stories[0] == stories[1]


def test_a_history_survives_being_saved():
    history = draw(11)

    assert saved(to_json(history)) == history


@pytest.mark.parametrize(
    ("sql", "row", "expected"),
    [
        ('"id" > \'3\'::"pg_catalog"."int4"', {"id": 4}, True),
        ('"id" <= \'-3\'::"pg_catalog"."int4"', {"id": 4}, False),
        ('"id" IS NOT DISTINCT FROM NULL', {"id": 4}, False),
        (
            '("id", "n") IN ((\'1\'::"pg_catalog"."int4", \'2\'::"pg_catalog"."int4"))',
            {"id": 1, "n": 2},
            True,
        ),
        ('("id") IN ((\'1\'::"pg_catalog"."int4"), (\'7\'::"pg_catalog"."int4"))', {"id": 7}, True),
        ('NOT coalesce("id" > \'3\'::"pg_catalog"."int4", false)', {"id": 2}, True),
    ],
)
def test_conditions_mean_what_they_say(sql, row, expected):
    assert condition(sql)(row) is expected

"""A sample of PostgreSQL's world: histories, and the faults that its seeds find again."""

from __future__ import annotations

import pytest

from tests.simulation.playing import play
from tests.simulation.postgres.mends import MENDS, REGRESSIONS, violated
from tests.simulation.postgres.sql import condition
from tests.simulation.worlds import played, saved

_HISTORIES = 8
_SAVED = sorted(path.stem for path in REGRESSIONS.glob("*.json"))


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

"""A sample of SQL Server's world: histories, the faults that its seeds find again, what conditions mean."""

from __future__ import annotations

import pytest

from tests.simulation.playing import play
from tests.simulation.sqlserver.mends import FAULTS, REGRESSIONS
from tests.simulation.sqlserver.sql import condition

_HISTORIES = 6
_SAVED = sorted(path.stem for path in REGRESSIONS.glob("*.json"))


@pytest.mark.slow
def test_histories_violate_nothing():
    happened, failed = play(1, _HISTORIES, "sqlserver")

    assert failed == []
    assert happened["READ events"] > 60
    assert happened["windows"] > 20


@pytest.mark.parametrize("name", _SAVED)
def test_a_fault_is_found_again_without_its_mend(name):
    assert FAULTS.replays(name)


def test_the_key_shift_in_one_transaction_is_saved():
    assert "key-shift-in-one-transaction" in _SAVED
    assert set(_SAVED) <= set(FAULTS.mends)


@pytest.mark.parametrize(
    ("sql", "row", "expected"),
    [
        ("[id] > CONVERT(int, '3')", {"id": 4}, True),
        ("([id] > CONVERT(int, '3')) AND ([id] <= CONVERT(int, '-5'))", {"id": 4}, False),
        ("1 = 1", {}, True),
        ("([pos] IS NULL OR [pos] <= CONVERT(int, '3'))", {"pos": None}, True),
        ("([pos] IS NULL OR [pos] <= CONVERT(int, '3'))", {"pos": 4}, False),
        ("[pos] <= CONVERT(int, '3')", {"pos": None}, False),
        ("[pos] IS NOT NULL", {"pos": None}, False),
    ],
)
def test_conditions_mean_what_they_say(sql, row, expected):
    assert condition(sql)(row) is expected


def test_a_condition_of_another_form_is_no_guess():
    with pytest.raises(ValueError, match="no known condition"):
        condition("[id] LIKE '3%'")

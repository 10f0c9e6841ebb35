"""How the settings, the server and a saved state spell a database's name."""

from __future__ import annotations

import pytest

from adapters.sqlserver.server.position import LogPosition, position_of
from adapters.sqlserver.spellings import check_spellings
from engine.errors import ConfigError, StateError
from engine.job.saved.state import State
from tests.unit.adapters.sqlserver.changed import lsn

NEW = State()


def begun(*names: str) -> State:
    return State(position=position_of([LogPosition(lsn(1))] * len(names)), memory={"names": list(names)})


def same(_other: str, _name: str) -> bool:
    return True


@pytest.mark.parametrize(
    "state", [NEW, begun("shop"), begun("stock"), State(position=begun("shop").position)]
)
def test_the_server_s_spelling_is_taken(state: State):
    assert check_spellings({"shop": "shop"}, state, same) == {}


@pytest.mark.parametrize("state", [NEW, begun("stock")])
def test_a_new_database_is_spelled_as_on_the_server(state: State):
    with pytest.raises(ConfigError, match=r"spells database 'Shop' as 'shop'; write shop in database\.names"):
        check_spellings({"Shop": "shop"}, state, same)


@pytest.mark.parametrize("state", [begun("Shop"), State(position=begun("Shop").position)])
def test_a_job_that_has_begun_keeps_its_spelling_and_warns(state: State):
    (warning,) = check_spellings({"Shop": "shop"}, state, same).items()

    assert warning == (
        "Shop",
        "the server spells database 'Shop' as 'shop'; topics and the saved state keep 'Shop'",
    )


@pytest.mark.parametrize("real", [{"Shop": "shop"}, {"Shop": "Shop"}])
def test_a_state_in_another_spelling_is_not_passed_over(real: dict[str, str]):
    with pytest.raises(StateError, match=r"has database 'Shop' .* as 'shop'; write shop in database\.names"):
        check_spellings(real, begun("shop"), same)


def test_another_database_of_a_similar_name_is_a_new_one():
    assert check_spellings({"Shop": "Shop"}, begun("shop"), lambda *_names: False) == {}
    assert check_spellings({"Shop": "Shop", "shop": "shop"}, begun("shop"), same) == {}


@pytest.mark.parametrize("state", [NEW, begun("Shop", "shop")])
def test_no_database_is_named_twice(state: State):
    with pytest.raises(ConfigError, match=r"'Shop' and 'shop' in 'database.names' are one database"):
        check_spellings({"Shop": "shop", "shop": "shop"}, state, same)

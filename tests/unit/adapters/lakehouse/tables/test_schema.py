from __future__ import annotations

import pytest

from adapters.lakehouse.settings import TypeChange
from adapters.lakehouse.tables.schema import Evolution, Rules, plan_evolution
from adapters.lakehouse.tables.widening import widens_simply
from engine.config.sinks.settings import SchemaEvolution
from engine.errors import SinkRefused

RULES = Rules(SchemaEvolution.BASIC, TypeChange.REFUSE, widens_simply)
ELSEWHERE = Rules(SchemaEvolution.BASIC, TypeChange.COLUMN, widens_simply)
FIXED = Rules(SchemaEvolution.NONE, TypeChange.REFUSE, widens_simply)
THERE = {"id": "int", "Note": "string", "n": "int", "price": "decimal(10,2)", "gone": "string"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"id": "int", "note": "string"}, Evolution()),
        ({"more": "date"}, Evolution(added={"more": "date"})),
        ({"n": "bigint"}, Evolution(widened={"n": "bigint"})),
        ({"n": "smallint", "price": "decimal(9,1)"}, Evolution()),
        ({"gone": "int"}, Evolution()),  # text holds everything
    ],
)
def test_a_table_gets_what_it_lacks(wanted: dict[str, str], expected: Evolution):
    assert plan_evolution(THERE, wanted, ("id",), RULES) == expected


@pytest.mark.parametrize("wanted", [{"n": "string"}, {"price": "decimal(12,3)"}, {"n": "double"}])
def test_a_type_that_can_t_be_widened_is_refused_or_goes_to_a_new_column(wanted: dict[str, str]):
    with pytest.raises(SinkRefused, match="can't become"):
        plan_evolution(THERE, wanted, ("id",), RULES)

    ((name, kind),) = wanted.items()
    made = plan_evolution(THERE, wanted, ("id",), ELSEWHERE)
    other = made.renamed[name]
    assert (other.startswith(f"{name}__"), dict(made.added)) == (True, {other: kind})
    # The next batch finds the column.
    assert plan_evolution(made.after(THERE), wanted, ("id",), ELSEWHERE) == Evolution(renamed={name: other})


def test_the_key_never_goes_to_another_column():
    with pytest.raises(SinkRefused, match="can't become string"):
        plan_evolution(THERE, {"id": "string"}, ("id",), ELSEWHERE)


@pytest.mark.parametrize("wanted", [{"more": "date"}, {"n": "bigint"}])
def test_columns_are_left_alone_if_the_owner_says_so(wanted: dict[str, str]):
    with pytest.raises(SinkRefused, match="needs other columns"):
        plan_evolution(THERE, wanted, ("id",), FIXED)
    plan_evolution(THERE, {"id": "int"}, ("id",), FIXED)


def test_names_that_spark_can_t_tell_apart_are_refused():
    with pytest.raises(SinkRefused, match="differ only in case"):
        plan_evolution({}, {"a": "int", "A": "int"}, (), RULES)

"""A history is decided by its seed, and can be kept."""

from __future__ import annotations

from inspect import getattr_static

import pytest

from tests.torture.documents import IDS
from tests.torture.drawn import write
from tests.torture.guards import GUARDS
from tests.torture.mongo_drawn import write_documents
from tests.torture.mongo_mutants import MONGO_MUTANTS
from tests.torture.mongo_scenes import SCENES as MONGO_SCENES
from tests.torture.mongo_writers import DEFINITIONS
from tests.torture.mutants import MUTANTS, switched_off
from tests.torture.row_filters import FILTERS
from tests.torture.scenes import SCENES, WRAPS
from tests.torture.script import STEPS, Wanted, from_json
from tests.torture.sqlserver_drawn import write_sqlserver
from tests.torture.sqlserver_tables import HEAP
from tests.torture.sqlserver_tables import KEYS as SQLSERVER_KEYS
from tests.torture.sqlserver_tables import statements as sqlserver_statements
from tests.torture.sqlserver_writers import DEFINITIONS as SQLSERVER_DEFINITIONS
from tests.torture.statements import statements
from tests.torture.tables import BAGS, KEYS, TableShape


@pytest.mark.parametrize("number", range(20))
def test_a_seed_gives_the_same_script_again_and_it_survives_being_kept(number: int):
    script = write(f"s/{number}", Wanted(hard=True, restart=True))

    assert write(f"s/{number}", Wanted(hard=True, restart=True)) == script
    assert from_json(script.to_json()) == script


def test_some_seed_has_each_kind_of_key_and_each_step():
    scripts = [write(f"s/{number}") for number in range(200)]

    assert {shape.key for script in scripts for shape in script.tables} == {*KEYS, *BAGS}
    assert {fuse.step for script in scripts for fuse in script.fuses} == {*STEPS, "open_log"}


def test_every_step_of_a_script_is_known():
    for number in range(50):
        script = write(f"s/{number}")
        for step in script.steps:
            assert statements(step, script.tables)


def test_every_oddity_of_tables_is_drawn():
    scripts = [write(f"odd/{number}") for number in range(100)]
    shapes = [shape for script in scripts for shape in script.tables]
    verbs = {step[0] for script in scripts for step in script.steps}

    assert {"slide", "rekey", "empty", "relabel"} <= verbs
    assert {shape.leaf for shape in shapes} == {"", "f", "n", "a", "w"}
    assert {shape.filter for shape in shapes} == {"", *FILTERS}
    assert any(shape.labels for shape in shapes)
    assert all(script.listed for script in scripts if any(shape.filter for shape in script.tables))


def test_a_history_for_kafka_has_none_of_it():
    scripts = [write(f"odd/{number}", Wanted(kafka=True)) for number in range(50)]
    shapes = [shape for script in scripts for shape in script.tables]

    assert not any(shape.kind.alike or shape.leaf or shape.filter or shape.labels for shape in shapes)


def test_every_kind_of_blow_is_drawn():
    scripts = [write(f"s/{number}") for number in range(100)]
    moving = [
        write(f"s/{number}", Wanted(moves=moves)) for number in range(20) for moves in ("standby", "copy")
    ]
    kinds = {blow.kind for script in [*scripts, *moving] for part in script.rounds for blow in part.blows}

    assert kinds == {
        *("skew", "freeze", "cut", "lose", "disguise", "freeze job"),
        *("promote", "fail over", "lag", "restore"),
    }
    assert any(part.stalls for script in scripts for part in script.rounds)


def test_a_blow_that_is_wanted_is_there():
    disguised = 0
    for number in range(20):
        made = {
            blow: write(f"s/{number}", Wanted(blow=blow)) for blow in ("skew", "network", "stall", "disguise")
        }
        kinds = {name: {b.kind for round_ in s.rounds for b in round_.blows} for name, s in made.items()}

        assert "skew" in kinds["skew"]
        assert kinds["network"] & {"freeze", "cut", "lose"}
        assert not kinds["stall"] & {"freeze", "cut", "lose"}
        assert all(round_.stalls for round_ in made["stall"].rounds)
        # Where all tables are partitioned, or change names with another one, none can be.
        disguised += "disguise" in kinds["disguise"]
    assert disguised >= 14


def test_a_table_that_may_lose_its_primary_key_has_no_steps_that_change_this_key_alone():
    """Nothing else would keep two rows from having the same key."""
    scripts = [write(f"s/{number}", Wanted(blow="disguise")) for number in range(60)]
    for script in scripts:
        places = {
            int(blow.amount) for drawn in script.rounds for blow in drawn.blows if blow.kind == "disguise"
        }
        assert not [step for step in script.steps if step[0] == "rekey" and step[1] in places]
    assert any(step[0] == "rekey" for script in scripts for step in script.steps)


def test_a_history_that_moves_has_a_server_that_can_be_reached_by_a_proxy():
    for moves in ("standby", "copy"):
        script = write("s/1", Wanted(moves=moves, initial=True))

        assert (script.moves, script.proxied, script.initial) == (moves, True, False)
        assert sum(len(round_.blows) for round_ in script.rounds) == 1
        assert from_json(script.to_json()) == script


def test_a_step_that_nobody_knows_is_an_error():
    with pytest.raises(ValueError, match="no step"):
        statements(["leap", 0], [TableShape("t0", "int", "d", 3)])


@pytest.mark.parametrize(
    ("source", "name"), [(source, name) for source, known in GUARDS.items() for name in known]
)
def test_what_is_switched_off_is_there_and_comes_back(source: str, name: str):
    mutant = GUARDS[source][name]
    before = [getattr_static(where, attribute) for where, attribute, _made in mutant.patches]
    with switched_off(mutant):
        assert mutant.patches

    assert [getattr_static(where, attribute) for where, attribute, _made in mutant.patches] == before


def test_every_guard_has_its_scene():
    assert {mutant.scene for mutant in MUTANTS.values()} == set(SCENES)
    assert set(SCENES) >= WRAPS
    assert {mutant.scene for mutant in MONGO_MUTANTS.values()} == set(MONGO_SCENES)


def test_a_seed_gives_the_same_documents_history_and_json_keeps_it():
    script = write_documents("d/1", Wanted(hard=True, restart=True, initial=True))

    assert script == write_documents("d/1", Wanted(hard=True, restart=True, initial=True))
    assert from_json(script.to_json()) == script
    assert all(shape.key in IDS for shape in script.tables)
    assert script.initial


def test_every_verb_of_documents_is_drawn():
    scripts = [write_documents(f"verbs/{n}") for n in range(60)]
    drawn = {step[0] for script in scripts for step in script.steps}
    struck = {strike.step[0] for script in scripts for round_ in script.rounds for strike in round_.strikes}
    changes = {"put", "touch", "extend", "strip", "cut", "upset", "respell", "remove", "bulk"}

    blows = {how for script in scripts for round_ in script.rounds for _at, how in round_.restarts}

    assert drawn >= changes | {"rewrite", "expire", "swell", "shrink"} | (DEFINITIONS - {"wipe"})
    assert drawn >= {"spoil", "heal"}
    assert blows >= {"freeze", "stepdown", "pause", "lag", "isolate"}
    assert struck == {*DEFINITIONS, "stop"} - {"exile"}


def test_a_seed_gives_the_same_sql_server_history_and_json_keeps_it():
    script = write_sqlserver("q/1", Wanted(hard=True, restart=True, initial=True))

    assert script == write_sqlserver("q/1", Wanted(hard=True, restart=True, initial=True))
    assert from_json(script.to_json()) == script
    assert script.initial
    assert script.properties["snapshot.mode"] == "initial"


def test_some_seed_has_each_key_and_each_step_of_sql_server():
    scripts = [write_sqlserver(f"q/{number}") for number in range(100)]
    steps = [(script, step) for script in scripts for step in script.steps]
    defined = {step[0] for _script, step in steps if step[0] in SQLSERVER_DEFINITIONS}

    assert {shape.key for script in scripts for shape in script.tables} == set(SQLSERVER_KEYS)
    assert defined == SQLSERVER_DEFINITIONS
    for script, step in steps:
        assert step[0] in SQLSERVER_DEFINITIONS or sqlserver_statements(step, script.tables)


def test_initial_snapshots_of_sql_server_meet_tables_without_a_key_where_they_are_read():
    scripts = [write_sqlserver(f"q/{number}", Wanted(initial=True)) for number in range(200)]
    heaps = [script for script in scripts if any(shape.key == HEAP for shape in script.tables)]

    assert {heap.properties["snapshot.isolation.mode"] for heap in heaps} == {"exclusive"}


def test_tables_whose_deletes_name_no_row_stay_published():
    wanted = [Wanted(), Wanted(blow="administration")]
    scripts = [write(f"anonymous/{number}", wanted[number % 2]) for number in range(300)]
    anonymous = [script for script in scripts if any(shape.leaf == "n" for shape in script.tables)]

    assert anonymous
    assert not {step[0] for script in anonymous for step in script.steps} & {"unpublish", "retract"}
    assert {step[0] for script in scripts for step in script.steps} >= {"unpublish", "retract"}

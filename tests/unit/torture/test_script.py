"""A history is decided by its seed, and can be kept."""

from __future__ import annotations

import pytest

from tests.torture.documents import IDS
from tests.torture.drawn import write
from tests.torture.guards import GUARDS
from tests.torture.mongo_drawn import write_documents
from tests.torture.mongo_mutants import MONGO_MUTANTS
from tests.torture.mongo_scenes import SCENES as MONGO_SCENES
from tests.torture.mongo_writers import DEFINITIONS
from tests.torture.mutants import MUTANTS, switched_off
from tests.torture.scenes import SCENES, WRAPS
from tests.torture.script import STEPS, Wanted, from_json
from tests.torture.sqlserver_drawn import write_sqlserver
from tests.torture.sqlserver_tables import HEAP
from tests.torture.sqlserver_tables import KEYS as SQLSERVER_KEYS
from tests.torture.sqlserver_tables import statements as sqlserver_statements
from tests.torture.sqlserver_writers import DEFINITIONS as SQLSERVER_DEFINITIONS
from tests.torture.statements import statements
from tests.torture.tables import KEYS, TableShape


@pytest.mark.parametrize("number", range(20))
def test_a_seed_gives_the_same_script_again_and_it_survives_being_kept(number: int):
    script = write(f"s/{number}", Wanted(hard=True, restart=True))

    assert write(f"s/{number}", Wanted(hard=True, restart=True)) == script
    assert from_json(script.to_json()) == script


def test_some_seed_has_each_kind_of_key_and_each_step():
    scripts = [write(f"s/{number}") for number in range(200)]

    assert {shape.key for one in scripts for shape in one.tables} == set(KEYS)
    assert {fuse.step for one in scripts for fuse in one.fuses} == {*STEPS, "open_log"}


def test_every_step_of_a_script_is_known():
    for number in range(50):
        script = write(f"s/{number}")
        for transactions in (writer for one in script.rounds for writer in one.writers):
            for step in (step for transaction in transactions for step in transaction.steps):
                assert statements(step, script.tables)


def test_a_step_that_nobody_knows_is_an_error():
    with pytest.raises(ValueError, match="no step"):
        statements(["leap", 0], [TableShape("t0", "int", "d", 3)])


@pytest.mark.parametrize(
    ("source", "name"), [(source, name) for source, known in GUARDS.items() for name in known]
)
def test_what_is_switched_off_is_there(source: str, name: str):
    mutant = GUARDS[source][name]
    with switched_off(mutant):
        assert mutant.patches


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
    drawn = {
        step[0]
        for script in scripts
        for one in script.rounds
        for writer in one.writers
        for transaction in writer
        for step in transaction.steps
    }
    struck = {strike.step[0] for script in scripts for one in script.rounds for strike in one.strikes}
    changes = {"put", "touch", "extend", "strip", "cut", "upset", "respell", "remove", "bulk"}

    blows = {how for script in scripts for one in script.rounds for _at, how in one.restarts}

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
    steps = [
        (script, step)
        for script in scripts
        for one in script.rounds
        for writer in one.writers
        for transaction in writer
        for step in transaction.steps
    ]
    defined = {step[0] for _script, step in steps if step[0] in SQLSERVER_DEFINITIONS}

    assert {shape.key for one in scripts for shape in one.tables} == set(SQLSERVER_KEYS)
    assert defined == SQLSERVER_DEFINITIONS
    for script, step in steps:
        assert step[0] in SQLSERVER_DEFINITIONS or sqlserver_statements(step, script.tables)


def test_initial_snapshots_of_sql_server_meet_tables_without_a_key_where_they_are_read():
    scripts = [write_sqlserver(f"q/{number}", Wanted(initial=True)) for number in range(200)]
    heaps = [one for one in scripts if any(shape.key == HEAP for shape in one.tables)]

    assert {one.properties["snapshot.isolation.mode"] for one in heaps} == {"exclusive"}

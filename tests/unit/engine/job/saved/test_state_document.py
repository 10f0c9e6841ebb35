"""The saved document: all of it comes back, and what can't be read says so."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings

from engine.errors import StateError
from engine.job.saved.state import State
from engine.job.saved.state_document import beside_to_json, from_json, to_json
from engine.model import CollectionId, Position, Range, Target
from engine.snapshot.extent import Extent, FailedSnapshot, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.strategies import states

READING = Table(
    3,
    "0/1A",
    Target(CollectionId(("public", "t")), "x > 1", "id"),
    Progress(
        Extent(10, 100, greatest=("9", None), span=(1, 9), as_of=(7, 1)),
        7,
        (Range(("4", None), ("9", None)),),
        rows=4,
        emitted=3,
        chunks=1,
    ),
)
STATE = State(12, Position((5, "x")), Snapshot((READING,), 4), {"system": "1"}, {"unsettled": [1]})


@settings(max_examples=60)
@given(states)
def test_every_state_comes_back(state):
    assert from_json(to_json(state)) == state


@settings(max_examples=60)
@given(states)
def test_every_state_comes_back_whose_queue_stands_beside(state):
    tables = tuple(replace(table, ticket=ticket) for ticket, table in enumerate(state.snapshot.tables))
    state = replace(state, snapshot=replace(state.snapshot, tables=tables), beside="b")

    assert from_json(to_json(state), {"b": beside_to_json(state)}.__getitem__) == state


@pytest.mark.parametrize("state", [State(), STATE])
def test_a_state_comes_back(state):
    assert from_json(to_json(state)) == state


def test_the_next_turn_changes_the_number_alone():
    assert STATE.next_turn() == State(13, STATE.position, STATE.snapshot, STATE.identity, STATE.memory)


def test_a_person_can_read_it():
    lines = to_json(STATE).decode().splitlines()

    assert lines[:3] == ["{", '  "version": 1,', '  "turn": 12,']


def test_a_queue_saved_before_signals_kept_their_ids_is_read():
    named = replace(STATE, snapshot=Snapshot((replace(READING, id="monday"),), 4))
    older = orjson.loads(to_json(named))
    del older["snapshot"]["tables"][0]["id"]

    assert from_json(orjson.dumps(older)) == STATE


def test_an_extent_saved_before_it_told_its_place_in_the_log_is_read():
    older = orjson.loads(to_json(STATE))
    del older["snapshot"]["tables"][0]["progress"]["extent"]["as_of"]
    (table,) = from_json(orjson.dumps(older)).snapshot.tables

    assert table.progress
    assert table.progress.extent.as_of == ()


@pytest.mark.parametrize("version", [0, 3, "1", None])
def test_another_release_s_document_is_refused(version):
    document = orjson.dumps({**orjson.loads(to_json(STATE)), "version": version})

    with pytest.raises(StateError, match="saved by another release"):
        from_json(document)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(b"", id="empty"),
        pytest.param(to_json(STATE)[:-20], id="cut off"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"version": 1}', id="nothing else"),
        pytest.param(to_json(STATE).replace(b"12", b'"?"'), id="no number"),
        pytest.param(to_json(STATE).replace(b'"identity"', b'"other"'), id="a field is missing"),
        pytest.param(to_json(STATE).replace(b'"span": [', b'"span": [], "x": ['), id="an empty span"),
    ],
)
def test_an_unreadable_document_is_refused(document):
    with pytest.raises(StateError, match="can't be read"):
        from_json(document)


def test_a_condition_is_kept_once_however_many_tables_it_holds_for():
    condition = "x > 1 AND " + "y" * 60_000
    targets = [Target(CollectionId(("public", f"t{number}")), condition) for number in range(1_000)]
    tables = tuple(Table(number, "0/1A", target) for number, target in enumerate(targets))
    failed = tuple(FailedSnapshot(target, ("id",), (Gap(None, (("1",),)),)) for target in targets)
    state = replace(STATE, snapshot=Snapshot(tables, 1_000, failed))

    document = to_json(state)

    assert document.count(b"yyyyyyyyyy" * 6_000) == 1
    assert from_json(document) == state


def test_conditions_of_older_states_stand_in_their_places():
    resumed = FailedSnapshot(Target(CollectionId(("public", "u")), "y = 2"), ("id",), ())
    table = Table(4, "0/1B", Target(CollectionId(("public", "u")), "y = 2"), resumes=resumed)
    state = replace(STATE, snapshot=Snapshot((READING, table), 5, (resumed,)))
    older = orjson.loads(to_json(state))
    texts = older["snapshot"].pop("conditions")
    for entry in (*older["snapshot"]["tables"], *older["snapshot"]["failed"]):
        entry["condition"] = texts[entry["condition"]]
    older["snapshot"]["tables"][1]["resumes"]["condition"] = "y = 2"

    assert from_json(orjson.dumps(older)) == state


@pytest.mark.parametrize("number", [7, -9, True])
def test_a_condition_that_is_not_there_is_told(number):
    broken = orjson.loads(to_json(STATE))
    broken["snapshot"]["tables"][0]["condition"] = number

    with pytest.raises(StateError, match="can't be read"):
        from_json(orjson.dumps(broken))

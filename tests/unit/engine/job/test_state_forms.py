"""Both forms of the state: what the previous release reads, and what a new field of the state needs."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings

from engine.errors import StateError
from engine.job import state_document
from engine.job.state import State
from engine.job.state_document import CURRENT, Previous, Waiting, beside_to_json, from_json, to_json
from engine.snapshot.extent import Extent
from tests.strategies import states

KNOWN = Path(__file__).parents[2] / "states" / "version-1.json"
"""The fields that the previous release knows, by structure; recorded when version 1 was its only form."""
IGNORED: dict[str, str] = {
    "Queue.paused": "it goes on with snapshots that were paused",
    "Table.paused": "it goes on with a snapshot that was paused",
}
"""Fields that the previous release ignores, as `structure.field`, and why that does no harm.

If it does harm, write the field in the current form alone and name it in `needs`.
"""


def known_fields() -> dict[str, list[str]]:
    shared = [
        getattr(state_document, name)
        for name in ("_Failed", "_Gap", "_Incomplete", "_Progress", "_Queue", "_Range", "_Table")
    ]
    found = {
        kind.__name__.strip("_"): sorted(kind.__struct_encode_fields__)
        for kind in (Previous, Waiting, *shared)
    }
    return found | {"Extent": sorted(field.name for field in fields(Extent))}


def test_a_new_field_of_the_state_says_what_the_previous_release_does_without_it():
    known = orjson.loads(KNOWN.read_bytes())
    new = {f"{structure}.{field}" for structure, names in known_fields().items() for field in names} - {
        f"{structure}.{field}" for structure, names in known.items() for field in names
    }

    assert new == set(IGNORED)


def test_the_previous_release_finds_every_field_that_it_knows():
    known, found = orjson.loads(KNOWN.read_bytes()), known_fields()

    assert {name: sorted(set(known[name]) - set(found[name])) for name in known} == {
        name: [] for name in known
    }


@settings(max_examples=40)
@given(states)
def test_every_state_comes_back_from_the_current_form(state):
    tables = tuple(replace(table, ticket=ticket) for ticket, table in enumerate(state.snapshot.tables))
    long = replace(state, snapshot=replace(state.snapshot, tables=tables), beside="b")

    assert from_json(to_json(state, CURRENT)) == state
    assert from_json(to_json(long, CURRENT), {"b": beside_to_json(long)}.__getitem__) == long


def test_the_current_form_has_todays_names():
    document = orjson.loads(to_json(State(), CURRENT))

    assert document["version"] == CURRENT
    assert document["queue"]["tables"] == []
    assert document["needs"] == []


def test_a_state_that_needs_what_this_release_does_not_know_is_refused():
    document = orjson.loads(to_json(State(), CURRENT)) | {"needs": ["row tags"]}

    with pytest.raises(StateError, match="needs 'row tags', which this release does not know"):
        from_json(orjson.dumps(document))


def test_a_field_of_a_later_release_that_is_not_needed_is_ignored():
    document = orjson.loads(to_json(State(turn=3), CURRENT)) | {"color": "blue"}

    assert from_json(orjson.dumps(document)) == State(turn=3)


def test_what_is_wrong_with_a_state_is_told_with_its_place_and_without_its_value():
    document = orjson.loads(to_json(State()))
    document["snapshot"]["next_ticket"] = "secret"

    with pytest.raises(StateError, match=r"got `str` - at `\$\.snapshot\.next_ticket`") as caught:
        from_json(orjson.dumps(document))
    assert "secret" not in str(caught.value)

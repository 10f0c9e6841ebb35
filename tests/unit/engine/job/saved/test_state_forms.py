"""Both forms of the state: what the previous release reads, and what a new field of the state needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings

from engine.errors import StateError
from engine.job.saved import forms
from engine.job.saved.forms import Previous, Waiting
from engine.job.saved.state import State
from engine.job.saved.state_document import CURRENT, beside_to_json, from_json, to_json
from engine.model import CollectionId, Range, Target
from engine.snapshot.extent import Extent, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Table
from tests.strategies import states

KNOWN = Path(__file__).parents[3] / "states" / "version-1.json"
"""The fields that the previous release knows, by structure; recorded when version 1 was its only form."""
IGNORED: dict[str, str] = {
    "Failed.blocking": "it refuses a signal for a blocking snapshot",
    "Table.blocking": "it reads the table in an incremental snapshot, or refuses a SELECT as its condition",
    "Queue.paused": "it goes on with snapshots that were paused",
    "Table.paused": "it goes on with a snapshot that was paused",
    "Table.priority": "it reads the queue in the order that is saved; what it adds comes last",
    "Table.limit": "it reads as fast as it can",
    **dict.fromkeys(
        ("Table.scope", "Table.scoped", "Failed.scope"),
        "it reads all rows from the beginning, since it finds no progress",
    ),
    **dict.fromkeys(
        ("Progress.certified", "Previous.certificates"),
        "it issues no certificate; this release issues none for a snapshot that was partly sent without, and"
        " begins the chain of certificates anew",
    ),
    **dict.fromkeys(
        ("Table.purpose", "Failed.purpose", "Table.against", "Failed.against"),
        "it sends all rows of a collection that was to be verified or repaired, and gives no verdict",
    ),
    "Previous.recovery": "it goes on where a new log has begun; before that it takes an initial snapshot, or"
    " reads on from a slot that it finds, as where the checkpoint is empty",
    "Previous.attempt": "it does not notice that a restored server lacks what an unsaved turn has sent",
    "Extent.schema": "it issues no certificate; without it this release issues one without the schema",
    "Progress.noted": "it sends all rows, as for Table.purpose; this release begins a verification anew then",
    "Queue.failed_scopes": "it forgets that some rows of a scope were not read",
    **dict.fromkeys(
        (*("Gap.points", "Progress.points", "Progress.found", "Extent.scoped"),),
        "they are at their defaults, except below Table.scoped and Queue.failed_scopes, which it ignores",
    ),
}
"""Fields that the previous release ignores, as `structure.field`, and why that does no harm.

If it does harm, write the field in the current form alone and name it in `needs`.
"""


def known_fields() -> dict[str, list[str]]:
    shared = [
        *(forms.FailedForm, forms.GapForm, forms.IncompleteForm, forms.ProgressForm),
        *(forms.QueueForm, forms.RangeForm, forms.TableForm),
    ]
    found = {
        kind.__name__.removesuffix("Form"): sorted(kind.__struct_encode_fields__)
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


def test_ranges_have_the_two_ends_that_the_previous_release_expects():
    progress = Progress(Extent(10, 100, greatest=("9",)), 0, (Range(("1",), ("9",)),))
    table = Table(1, "s", Target(CollectionId(("public", "t"))), progress)

    document = orjson.loads(to_json(State(snapshot=Snapshot((table,), 2))))

    assert document["snapshot"]["tables"][0]["progress"]["left"] == [[["1"], ["9"]]]


_AT_ONCE = """
import sys, threading
from pathlib import Path
from engine.job.saved.state_document import from_json, to_json
document = Path(sys.argv[1]).read_bytes()
sys.setswitchinterval(1e-6)
ready = threading.Barrier(40)
def read():
    ready.wait()
    to_json(from_json(document))
threads = [threading.Thread(target=read) for _ in range(40)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_many_jobs_read_their_first_states_at_once(tmp_path):
    """As after a restart of their server. The process crashed where types were made by several threads."""
    document = tmp_path / "state.json"
    document.write_bytes(to_json(State(7)))
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _AT_ONCE, str(document)], check=False, cwd=Path(__file__).parents[5]
        )
        assert done.returncode == 0

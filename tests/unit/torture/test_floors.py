"""A long run that has not brought about what is rare fails, and a short one does not."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.torture.drawn import write
from tests.torture.floors import FLOORS, SUPERSEDED, missed
from tests.torture.mongo_drawn import write_documents
from tests.torture.script import Wanted
from tests.torture.sqlserver_drawn import write_sqlserver


def test_a_short_run_need_not_have_seen_anything():
    assert missed("postgres", 9.0, Counter()) == []


def test_a_long_run_names_all_that_is_too_rare():
    assert len(missed("postgres", 20.0, Counter())) == len(FLOORS["postgres"])


def test_what_is_wanted_grows_with_the_minutes():
    seen = Counter(dict(FLOORS["postgres"]))

    assert missed("postgres", 20.0, seen) == []
    assert f"{SUPERSEDED}: 55, and 110 are wanted" in missed("postgres", 40.0, seen)


def test_a_source_without_floors_misses_none():
    assert missed("another", 60.0, Counter()) == []


@pytest.mark.parametrize("source", FLOORS)
def test_ten_minutes_need_each_kind_once(source: str):
    assert len(missed(source, 10.0, Counter())) == len(FLOORS[source])


@pytest.mark.parametrize("number", range(20))
def test_a_history_has_the_blows_that_it_must_have(number: int):
    script = write(f"s/{number}", Wanted(blow="network administration freeze job"))
    verbs = [step[0] for step in script.steps]
    assert {"unpublish", "publish", "exchange"} <= set(verbs)
    blows = {blow.kind for round_ in script.rounds for blow in round_.blows}
    assert "freeze job" in blows
    assert blows & {"freeze", "cut", "lose"}
    assert not any(round_.stalls for round_ in script.rounds)


@pytest.mark.parametrize("number", range(20))
def test_a_history_of_mongodb_has_what_it_must_have(number: int):
    giant = write_documents(f"s/{number}", Wanted(blow="giants wipe disguise"))
    acts = {step[0] for step in giant.steps}
    assert {"spoil", "heal"} <= acts
    assert "swell" in acts or {shape.key for shape in giant.tables} == {"capped"}
    assert "wipe" in {strike.step[0] for round_ in giant.rounds for strike in round_.strikes}
    assert not giant.scene

    several = write_documents(f"s/{number}", Wanted(blow="members freeze job skew"))
    assert several.database["members"] == "3"
    assert (0.0, "lag") in several.rounds[0].restarts
    blows = [blow for round_ in several.rounds for blow in round_.blows]
    assert {"freeze job", "skew"} == {blow.kind for blow in blows}
    assert {True, False} == {blow.amount > 0 for blow in blows if blow.kind == "skew"}

    capped = write_documents(f"s/{number}", Wanted(blow="capped"))
    assert capped.initial
    assert [shape.key for shape in capped.tables[:2]] == ["capped", "raw"]

    sliced = write_documents(f"s/{number}", Wanted(blow="slices"))
    assert sliced.slice_bytes
    assert int(sliced.properties["tidemark.window.max.chunks"]) > 1
    assert sliced.tables[0].rows > 10 * int(sliced.properties["incremental.snapshot.chunk.size"])
    assert sliced.rounds[0].signals[0].collections == ["shop.t0"]

    assert write_documents(f"s/{number}", Wanted(blow="restored")).scene == "restored"


@pytest.mark.parametrize("number", range(20))
def test_a_history_of_sql_server_has_what_it_must_have(number: int):
    script = write_sqlserver(f"s/{number}", Wanted(blow="sleep freeze job skew"))
    first = script.fuses[0]
    assert first.sleeps
    assert not (script.initial and script.properties["snapshot.isolation.mode"] == "exclusive")
    blows = [blow for round_ in script.rounds for blow in round_.blows]
    assert {"freeze job", "skew"} == {blow.kind for blow in blows}

    sliced = write_sqlserver(f"s/{number}", Wanted(blow="skew slices"))
    assert not sliced.initial
    assert sliced.slice_bytes
    assert sliced.rounds[0].signals[0].collections == ["alpha.dbo.t0"]

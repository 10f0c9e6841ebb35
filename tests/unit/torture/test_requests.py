"""What histories request besides plain incremental snapshots."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.model import Channel, CollectionId
from signals.model import Signal
from signals.parse.commands import parse
from signals.parse.names import KnownNames
from tests.torture.drawn import write
from tests.torture.mongo_drawn import write_documents
from tests.torture.script import Wanted, collections, from_json
from tests.torture.sqlserver_drawn import write_sqlserver

if TYPE_CHECKING:
    from signals.parse.commands import AcceptedSignal
    from tests.torture.script import Script, Sent

SOURCES = {"postgres": write, "mongodb": write_documents, "sqlserver": write_sqlserver}


def drawn(source: str, asks: str, count: int = 40) -> list[Script]:
    return [SOURCES[source](f"seed/{n}", Wanted(asks=asks, initial=False)) for n in range(count)]


def sent(script: Script) -> list[Sent]:
    return [signal for part in script.rounds for signal in part.signals]


@pytest.mark.parametrize("source", SOURCES)
def test_histories_that_are_to_block_do_and_pause_nothing(source: str):
    scripts = drawn(source, "blocking")

    blocking = [script for script in scripts if any(event.blocks for event in sent(script))]
    assert len(blocking) > 20
    assert not any(event.kind in {"pause", "resume"} for script in scripts for event in sent(script))
    assert all(
        "priority" not in json.loads(event.data or "") for s in blocking for event in sent(s) if event.blocks
    )


@pytest.mark.parametrize("source", SOURCES)
def test_histories_that_are_to_ask_for_rows_name_as_many_as_they_expect(source: str):
    scoped = [
        event for script in drawn(source, "scope") for event in sent(script) if event.ordinals is not None
    ]

    assert len(scoped) > 20
    for row in scoped:
        data = json.loads(row.data or "")
        assert len(data.get("keys", ())) + len(data.get("ranges", ())) == len(row.ordinals or ())
        assert len(row.collections) == 1


@pytest.mark.parametrize("source", SOURCES)
def test_histories_that_are_to_pause_hold_what_was_just_asked_for(source: str):
    held = 0
    for script in drawn(source, "pause"):
        for part in script.rounds:
            signals = [signal for signal in part.signals if signal.kind != "schemas"]
            at = next((place for place, signal in enumerate(signals) if signal.id.startswith("held")), None)
            if at is None:
                continue
            asked, pause, resume = signals[at - 1 : at + 2]
            assert (pause.kind, resume.kind) == ("pause", "resume")
            assert asked.collections == pause.collections == resume.collections
            assert pause.pause_s == 0.0
            held += 1
    assert held > 20


@pytest.mark.parametrize("source", SOURCES)
def test_a_script_comes_back_from_its_text(source: str):
    for asks in ("", "blocking", "scope", "pause"):
        for script in drawn(source, asks, 5):
            assert from_json(script.to_json()) == script


@pytest.mark.parametrize("source", SOURCES)
def test_pauses_name_collections_or_all_and_are_resumed_alike_or_with_all(source: str):
    scripts = drawn(source, "")
    pauses = [event for script in scripts for event in sent(script) if event.kind == "pause"]

    assert any(pause.collections for pause in pauses)
    assert any(not pause.collections for pause in pauses)
    for script in scripts:
        for part in script.rounds:
            by_kind = {
                signal.kind: signal.collections
                for signal in part.signals
                if signal.kind in {"pause", "resume"}
            }
            if by_kind:
                assert by_kind["resume"] in ([], by_kind["pause"])


@pytest.mark.parametrize("source", SOURCES)
def test_each_kind_of_request_is_drawn(source: str):
    data = " ".join(event.data or "" for script in drawn(source, "", 120) for event in sent(script))

    for name in ("priority", "max-rows-per-second", "max-bytes-per-second", "dry-run", "keys", "ranges"):
        assert f'"{name}"' in data
    assert '"type": "blocking"' in data


@pytest.mark.parametrize("source", SOURCES)
def test_stops_and_malformed_signals_are_what_the_parser_takes_them_for(source: str):
    scripts = drawn(source, "", 120)
    stops = [(event, script) for script in scripts for event in sent(script) if event.kind == "stop"]

    assert any('"type"' not in (stop.data or "") for stop, _script in stops)
    for stop, script in stops:
        parsed(stop, script)  # is not refused
    for script in scripts:
        for event in sent(script):
            if event.kind == "malformed":
                with pytest.raises(SignalError):
                    parsed(event, script)


def parsed(one: Sent, script: Script) -> AcceptedSignal:
    names = [name for shape in script.tables for name in collections(shape, via_root=script.via_root)]
    known = KnownNames([CollectionId(tuple(name.split("."))) for name in names], bounded_matcher)
    return parse(Signal(Channel.SOURCE, "1", one.id, one.type, one.data), known)


def test_schemas_are_stated_on_sql_server_alone():
    kinds = {source: {event.kind for s in drawn(source, "") for event in sent(s)} for source in SOURCES}

    assert [source for source in SOURCES if "schemas" in kinds[source]] == ["sqlserver"]

"""The recorded change streams give the recorded events, key for key and letter for letter."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from adapters.mongodb.events.decode import decode
from tests.golden.case import OWN_CASES, case_folders, load_case
from tests.golden.compare import difference
from tests.golden.windows import without_windows
from tests.unit.adapters.mongodb.recorded import (
    NOTHING_OPEN,
    events_of,
    recorded_changes,
    replayed,
    rules_of,
    settings_of,
)

_BEYOND_THE_STREAM = {"change2.json", "between.json"}
FOLDERS = [
    folder
    for folder in case_folders(OWN_CASES / "mongodb")
    if load_case(folder).properties["snapshot.mode"] == "never"
    and not _BEYOND_THE_STREAM & {path.name for path in folder.iterdir()}
    and folder.name != "m2_event_over_16mb"  # whose stream could not be recorded
]


def streamed(events):
    """The events that come from the stream: no READs, no windows of Debezium's, no heartbeats."""
    return tuple(
        event
        for event in without_windows(events)
        if event.op != "r" and not (isinstance(event.body, dict) and event.body.keys() == {"ts_ms"})
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_recorded_stream_gives_the_recorded_events(folder: Path):
    case = load_case(folder)
    expected = case.documented.events if case.documented else case.expected
    plain = dataclasses.replace(case, properties={**case.properties, "heartbeat.interval.ms": "0"})

    assert difference(plain, streamed(expected), streamed(events_of(replayed(case)))) is None


def test_many_events_at_once_give_what_they_give_one_by_one():
    case = load_case(OWN_CASES / "mongodb" / "a1_crud_change_streams_update_full_with_pre_image")
    settings = settings_of(case)
    changes = recorded_changes(case, settings)
    many = decode(changes * 40, rules_of(settings), NOTHING_OPEN, 0)
    one = decode(changes, rules_of(settings), NOTHING_OPEN, 0)

    assert many.events.to_pylist() == one.events.to_pylist() * 40

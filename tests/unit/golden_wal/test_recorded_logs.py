"""Recorded logs through the decoder give the recorded events; where Debezium errs, ours."""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from adapters.postgres.log.touched_keys import Watch
from adapters.postgres.server.visibility import parse_lsn
from engine.config import parse
from tests.golden.case import load_case
from tests.golden.event import payload
from tests.golden.masks import masks_of
from tests.golden.values import event_difference
from tests.golden.windows import without_windows
from tests.unit.golden_wal.catalogs import CASES, RECORDED
from tests.unit.golden_wal.replay import Replay, events_of, payloads, replay_of

if TYPE_CHECKING:
    from engine.config import Settings
    from tests.golden.case import Case
    from tests.golden.event import Event

NAMES = sorted(path.stem for path in RECORDED.glob("*.json"))
REQUIRED = {
    "database.hostname": "db",
    "database.user": "u",
    "database.password": "p",
    "snapshot.mode": "never",
    "tidemark.checkpoint": "/c",
    "tidemark.sink.files.dir": "/e",
}


def settings_of(case: Case) -> Settings:
    return parse({**case.properties, **REQUIRED})


def comparable(case: Case, events: list[Event]) -> list[Event]:
    """Streamed events; places in the log stand as they are, except beside Debezium's own windows."""
    streamed = [event for event in events if event.op != "r" and "heartbeat" not in event.topic]
    if case.incremental:
        masks = masks_of(case, streamed)
        return [masks.apply(event) for event in without_windows(streamed)]
    return [timeless(event) for event in streamed]


def timeless(event: Event) -> Event:
    """Without the time of encoding."""
    value = copy.deepcopy(event.value)
    body = payload(value)
    if isinstance(body, dict) and "op" in body:
        body["ts_ms"] = 0
    return dataclasses.replace(event, value=value)


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_log_gives_the_events_of_its_case(name):
    case = load_case(CASES / name)
    expected = case.documented.events if case.documented else case.expected
    decoded = list(replay_of(name, settings_of(case)).run(payloads(case.folder)))

    wanted, found = comparable(case, list(expected)), comparable(case, events_of(decoded))

    assert [str(event) for event in wanted] == [str(event) for event in found]
    assert [
        d
        for collection, other in zip(wanted, found, strict=True)
        if (d := event_difference(collection, other))
    ] == []


def whole(replay: Replay, messages: list[bytes]) -> list[tuple[object, ...]]:
    rows = []
    for decoded in replay.run(messages):
        rows += [tuple(row.values()) for row in decoded.events.to_pylist()]
    return rows


@pytest.mark.parametrize("name", ["f1_tx_metadata", "b1_pk_update", "e2_messages_txmeta", "l2_toast_full"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_small_parts_give_the_same_events_as_large_ones(name, most):
    case = load_case(CASES / name)
    messages = payloads(case.folder)

    large = replay_of(name, settings_of(case))
    small = dataclasses.replace(replay_of(name, settings_of(case)), most=most)

    assert whole(large, messages) == whole(small, messages)
    assert large.context == small.context


def test_signal_rows_carry_their_position_and_texts():
    case = load_case(CASES / "i1_incremental")
    decoded = list(replay_of(case.name, settings_of(case)).run(payloads(case.folder)))
    signals = [signal for part in decoded for signal in part.signals]

    assert [signal.type for signal in signals if "window" not in (signal.type or "")] == ["execute-snapshot"]
    positions = [signal.position_label.rpartition("/") for signal in signals]
    ordered = [(parse_lsn(lsn), int(sequence)) for lsn, _slash, sequence in positions]
    assert all(lsn > 0 and sequence >= 0 for lsn, sequence in ordered)
    assert sorted(ordered) == ordered


def lacking(name: str) -> int:
    case = load_case(CASES / name)
    everything = Watch(settled=lambda xids: np.zeros(len(xids), bool))
    replay = dataclasses.replace(replay_of(name, settings_of(case)), watch=everything)
    return sum(decoded.incomplete.num_rows for decoded in replay.run(payloads(case.folder)))


def test_unchanged_values_are_reported_as_incomplete_and_a_full_identity_has_none():
    assert lacking("l1_toast_default") == 3
    assert lacking("l2_toast_full") == 0


def keys_touched(name: str, watch: Watch) -> list[bytes]:
    case = load_case(CASES / name)
    replay = dataclasses.replace(replay_of(name, settings_of(case)), watch=watch)
    return [
        key for decoded in replay.run(payloads(case.folder)) for key in decoded.touched["key"].to_pylist()
    ]


def test_a_key_change_touches_both_keys_and_a_delete_the_old_one():
    everything = Watch(settled=lambda xids: np.zeros(len(xids), bool))

    keys = keys_touched("b1_pk_update", everything)

    one, thousand = (len(text).to_bytes(4, "big") + text for text in (b"1", b"1001"))
    assert keys[:3] == [one, thousand, thousand]
    assert keys_touched("b1_pk_update", Watch()) == []


def test_contained_transactions_touch_nothing():
    relation = 0x407D  # customers, in the recorded log
    watched = Watch(frozenset({relation}), contained=lambda xids: xids < 831)

    assert len(keys_touched("b1_pk_update", watched)) == 1


def test_truncates_name_their_relations_also_when_they_are_skipped():
    case = load_case(CASES / "d1_truncate_skipped_none")
    settings = parse({**case.properties, **REQUIRED, "skipped.operations": "t"})
    decoded = list(replay_of(case.name, settings).run(payloads(case.folder)))

    emptied = set().union(*(part.truncated for part in decoded))
    assert len({oid for oid, _ in emptied}) == 3
    assert len({xid for _, xid in emptied}) == 4
    assert not any(event.op == "t" for event in events_of(decoded))


FAULTY = [
    name
    for name in NAMES
    if (found := load_case(CASES / name)).documented and found.properties["snapshot.mode"] == "never"
]


@pytest.mark.parametrize("name", FAULTY)
def test_with_its_faults_kept_a_recorded_log_gives_what_debezium_emitted(name):
    case = load_case(CASES / name)
    settings = parse({**case.properties, **REQUIRED, "tidemark.keep.debezium.faults": "all"})
    decoded = list(replay_of(name, settings).run(payloads(case.folder)))

    wanted, found = comparable(case, list(case.expected)), comparable(case, events_of(decoded))

    assert [str(event) for event in wanted] == [str(event) for event in found]
    assert [
        d
        for collection, other in zip(wanted, found, strict=True)
        if (d := event_difference(collection, other))
    ] == []

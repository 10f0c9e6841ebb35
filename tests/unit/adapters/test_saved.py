"""What a state keeps for a source or a channel is taken as it was saved, or refused by a StateError."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import adapters.mongodb.saved
import adapters.postgres.saved
import adapters.sqlserver.saved
from engine.errors import StateError
from engine.job.saved.state import State
from engine.model import Channel, Position
from signals.channels.topic import TopicChannel
from signals.desk import Desk
from tests.fakes import MemoryTopic
from tests.fuzz.saved import MONGODB, POSTGRES, SQL_SERVER

if TYPE_CHECKING:
    from collections.abc import Callable

READERS: dict[str, tuple[Callable[[State], object], dict[str, Any]]] = {
    "postgres": (adapters.postgres.saved.saved_of, POSTGRES),
    "mongodb": (adapters.mongodb.saved.saved_of, MONGODB),
    "sqlserver": (adapters.sqlserver.saved.check_saved, SQL_SERVER),
}


def state_of(fields: dict[str, Any]) -> State:
    fields = orjson.loads(orjson.dumps(fields))
    position = Position(tuple(fields["position"]))
    return State(position=position, memory=fields["memory"], identity=fields["identity"])


@pytest.mark.parametrize("source", READERS)
def test_what_was_saved_is_taken(source: str):
    read, fields = READERS[source]

    read(state_of(fields))
    read(State())


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("postgres", (1,)),
        ("postgres", ("1", 0)),
        ("postgres", (-1, 0)),
        ("postgres", (2**64, 0)),
        ("mongodb", ("82", "", 0)),
        ("mongodb", ("8265A0B1C2000000012x", "", 0)),
        ("mongodb", ("8265A0B1C200000001", "8", 0)),
        ("mongodb", ("8265A0B1C200000001", "", 2)),
        ("mongodb", (5, "", 0)),
        ("sqlserver", ("00000027:00000ac0:0002", 4, "00000027:00000758:0005")),
        ("sqlserver", ("00000027:00000ac0:000", 4, "00000027:00000758:0005", 2)),
        ("sqlserver", ("00000027:00000ac0:0002", -1, "00000027:00000758:0005", 2)),
        ("sqlserver", ("00000027:00000ac0:0002", 4, "00000027:00000758:0005", 2) * 2),
    ],
)
def test_a_position_of_another_form_is_refused(source: str, position: tuple[Any, ...]):
    read, fields = READERS[source]

    with pytest.raises(StateError, match="can't be read"):
        read(replace(state_of(fields), position=Position(position)))


@pytest.mark.parametrize(
    ("source", "name", "value"),
    [
        ("postgres", "last_commit", [1, 2]),
        ("postgres", "last_commit_end", "7"),
        ("postgres", "unsettled", [{"xid": 7}]),
        ("postgres", "transaction", {"xid": 7, "sequence": None, "collections": []}),
        ("postgres", "keys", {"x": ["id"]}),
        ("postgres", "first", None),
        ("postgres", "published", {"marks": "d"}),
        ("postgres", "members", {"publication": "1 2", "entries": {"a": "b"}}),
        ("postgres", "partitions", {"1": None}),
        ("postgres", "columns", {"x": [1]}),
        ("postgres", "columns", {"3": ["1"]}),
        ("mongodb", "transaction", {"id": "x"}),
        ("mongodb", "event", ["82", "", 0]),
        ("mongodb", "first", {"begins_at": 7}),
        (
            "mongodb",
            "capture",
            {"scope": "deployment", "target": "", "databases": [[]], "collections": [[], []]},
        ),
        ("mongodb", "capture", {"scope": "x", "target": "", "databases": [[], []], "collections": [[], []]}),
        ("sqlserver", "names", "shop"),
        ("sqlserver", "transactions", {"shop": {"id": "x", "collections": []}}),
        ("sqlserver", "shapes", [{"name": ["a"], "columns": [], "primary_key": [], "unique_key": []}]),
        ("sqlserver", "databases", {"shop": {"instances": [["a", "b"]]}}),
        ("sqlserver", "databases", {"shop": {"fork": 7}}),
        ("sqlserver", "first", {"begins_at": {"shop": "x"}}),
    ],
)
def test_a_memory_of_another_form_is_refused_without_its_values(source: str, name: str, value: object):
    read, fields = READERS[source]
    state = state_of(fields)

    with pytest.raises(StateError, match="can't be read"):
        read(replace(state, memory={**state.memory, name: value}))


@pytest.mark.parametrize("lengths", ["/////w==", "AQAAAA==", "////fw=="], ids=["negative", "too few", "huge"])
def test_keys_are_read_within_their_bytes(lengths: str):
    """Arrow would take what stands beside them in memory for keys."""
    state = state_of(POSTGRES)
    unsettled = [{**state.memory["unsettled"][0], "keys": {"1": {"lengths": lengths, "bytes": "MTIz"}}}]

    with pytest.raises(StateError):
        adapters.postgres.saved.saved_of(replace(state, memory={**state.memory, "unsettled": unsettled}))


@pytest.mark.parametrize(
    "saved",
    [
        {"kafka": {"topic": "t", "id": "x", "since_ms": 10**30, "offsets": {}}},
        {"kafka": {"topic": "t", "id": "x", "since_ms": 1, "offsets": {"0": -1}}},
        {"kafka": {"topic": "t", "id": "x", "since_ms": 1, "offsets": {"0": 2**63}}},
        {"kafka": {"topic": "t", "id": None, "since_ms": 1, "offsets": {}}},
        {"answers": [{"label": 5, "id": None, "outcome": "accepted", "text": "x"}]},
        {"answers": [{"label": "x"}]},
    ],
)
def test_a_channels_place_of_another_form_is_refused(saved: dict[str, Any]):
    channel = TopicChannel("t", "k", MemoryTopic(), 0)
    desk = Desk(channels={Channel.KAFKA: channel}, monotonic=time.monotonic)

    with pytest.raises(StateError, match="can't be read"):
        desk.resume(saved, 1)

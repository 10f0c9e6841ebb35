"""How a start of MongoDB opens the change stream, and as of which time collections are read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from adapters.mongodb.snapshot.initial import HeldSnapshot, StreamStart
from adapters.source.initial import InitialSnapshot
from engine.config import parse
from engine.config.settings import Settings, SnapshotMode
from engine.errors import ConfigError, PositionLost
from engine.job.saved.state import State
from engine.model import CollectionId, ExecuteSnapshot, Position, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.extent import Extent
from engine.snapshot.initial import Mode, StartSituation
from engine.snapshot.queue import Snapshot

A, B = (CollectionId(("shop", name)) for name in "ab")
NOW = Position(("820000000A00000001", "", 1))
EARLIER = Position(("820000000900000001", "", 1))
SETTINGS = parse(
    {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": "mongodb://localhost/?replicaSet=rs0",
        "topic.prefix": "tm",
        "tidemark.sink": "console",
    }
)


@dataclass
class FakeStream:
    position: Position
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeDeployment:
    """Two collections, one of them capped, and a log that reaches back or does not."""

    reaches_back: bool = True
    settings: Settings = SETTINGS
    opened: list[FakeStream] = field(default_factory=list)

    def open_stream(self, start: Position | None) -> Any:
        if start is not None and not self.reaches_back:
            raise PositionLost("the log does not reach back")
        self.opened.append(FakeStream(start or NOW))
        return self.opened[-1]

    def now(self) -> tuple[int, int]:
        return 10, 1

    def captured(self) -> list[CollectionId]:
        return [A, B]

    def capped(self) -> frozenset[CollectionId]:
        return frozenset({B})

    def start(self, first: InitialSnapshot[HeldSnapshot]) -> StreamStart:
        anything = cast("Any", self)
        opens = self.open_stream if first.streams else None
        return StreamStart(self.settings, anything, anything, opens, first.statement)


def snapshot_of(mode: SnapshotMode) -> InitialSnapshot[HeldSnapshot]:
    return InitialSnapshot(SETTINGS.snapshot, Mode(mode), "this run", lambda _seconds: False)


def signalled() -> State:
    """A job that streams, and has measured and read a part of what a signal asked for."""
    asked = execute(Snapshot(), ExecuteSnapshot("signal", (Target(A),)))
    return State(position=EARLIER, snapshot=asked.with_extent(1, Extent(100, 1000, greatest=("100",)), 5))


def test_a_signalled_collection_begins_anew_after_a_lost_log():
    """What was read before may have changed while nobody streamed."""
    first, deployment = snapshot_of(SnapshotMode.WHEN_NEEDED), FakeDeployment(reaches_back=False)

    state = first.start(signalled(), deployment.start(first))

    assert state.position == NOW
    assert [table.target.collection for table in state.snapshot.tables] == [A, B, A]
    assert [table.progress for table in state.snapshot.tables] == [None] * 3


@pytest.mark.parametrize(
    ("stream", "at"),
    [
        ("820000000A00000001", (10, 0)),
        ("820000000A00000000", (9, 0xFFFFFFFF)),
    ],
)
def test_collections_are_read_as_of_just_before_the_stream(monkeypatch, stream, at):
    monkeypatch.setattr(f"{__name__}.NOW", Position((stream, "", 1)))
    first, deployment = snapshot_of(SnapshotMode.INITIAL), FakeDeployment()
    start = deployment.start(first)
    first.start(State(), start)

    assert first.held == HeldSnapshot(at, Position((stream, "", 1)), (A, B), frozenset({B}))
    assert [cast("object", start.stream)] == deployment.opened


def test_without_a_log_they_are_read_as_of_now_and_read_on_after_a_fault():
    first, deployment = snapshot_of(SnapshotMode.INITIAL_ONLY), FakeDeployment()
    state = first.start(State(), deployment.start(first))
    held = first.held

    assert (held and held.at, state.position) == ((10, 1), NOW)
    assert first.start(state, deployment.start(first)) == state
    assert first.held is held
    assert deployment.opened == []


def test_a_stream_that_is_not_gone_on_with_is_closed():
    first, deployment = snapshot_of(SnapshotMode.INITIAL), FakeDeployment()
    start = deployment.start(first)
    start.find_log(signalled())
    start.begin(State())

    assert [stream.closed for stream in deployment.opened] == [True, False]


class Picky:
    """A user's snapshotter that has a SELECT for one collection."""

    def should_snapshot(self, standing: StartSituation) -> bool:
        return not standing.saved

    def should_stream(self) -> bool:
        return True

    def statement(self, collection: CollectionId) -> str | None:
        return "SELECT * FROM b WHERE n > 1" if collection == B else None


def test_a_snapshotter_with_a_statement_is_refused_by_its_name_with_what_to_use_instead():
    snapshot = replace(SETTINGS.snapshot, mode=SnapshotMode.CUSTOM, custom_name="mine:Picky")
    first: InitialSnapshot[HeldSnapshot] = InitialSnapshot(
        snapshot, Picky(), "this run", lambda _seconds: False
    )
    deployment = FakeDeployment(settings=replace(SETTINGS, snapshot=snapshot))

    with pytest.raises(ConfigError, match=r"'mine:Picky' has a statement for shop\.b") as caught:
        first.start(State(), deployment.start(first))
    assert "snapshot.collection.filter.overrides" in str(caught.value)

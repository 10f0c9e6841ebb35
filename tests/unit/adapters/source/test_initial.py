"""What the initial snapshot of any database does at a start, after a fault, and when its view is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import pytest

from adapters.source.initial import FoundLog, InitialSnapshot
from engine.config.settings import SnapshotMode, SnapshotRestart, SnapshotSettings
from engine.errors import ConfigError, PositionLost, SourceError
from engine.job.saved.state import State
from engine.model import CollectionId, ExecuteSnapshot, Position, Target
from engine.snapshot.changes.commands import execute
from engine.snapshot.extent import Extent, FailedSnapshot
from engine.snapshot.initial import Mode
from engine.snapshot.queue import Snapshot

A, B, CAPPED = (CollectionId(("shop", name)) for name in ("a", "b", "capped"))
EXTENT = Extent(rows=100, bytes=1000, greatest=("100",))
LOST = PositionLost("the log was removed")
STREAMED = Position((50,))


@dataclass
class FakeView:
    number: int
    collections: tuple[CollectionId, ...]
    held: bool = True
    closed: int = 0

    @property
    def position(self) -> Position:
        return Position((100 + self.number,))

    @property
    def begins_at(self) -> int:
        return 100 + self.number

    def is_alive(self) -> bool:
        return self.held

    def close(self) -> None:
        self.closed += 1
        self.held = False

    def __str__(self) -> str:
        return f"view {self.number}"


@dataclass
class FakeDatabase:
    """A database with two collections, which counts the views that it has opened."""

    tables: tuple[CollectionId, ...] = (A, B)
    lost: PositionLost | None = None
    kept: bool = False
    locks: bool = True
    refused: bool = False
    views: list[FakeView] = field(default_factory=list)
    given_up: int = 0

    def find_log(self, state: State) -> FoundLog:
        began = state.memory.get("first", {}).get("begins_at")
        streamed = began is None or state.position != Position((began,))
        return FoundLog(state, began, self.lost, kept=self.kept, streamed=streamed)

    def first_position(self) -> Position:
        return Position((1,))

    def give_up(self) -> None:
        self.given_up += 1

    def begin(self, state: State) -> FakeView:
        self.views.append(FakeView(len(self.views), tuple(self.collections(state)), held=self.locks))
        return self.views[-1]

    def collections(self, _state: State) -> tuple[CollectionId, ...]:
        if self.refused:
            raise ConfigError("the role may not read shop.a")
        return self.tables


def snapshot_of(
    mode: SnapshotMode = SnapshotMode.INITIAL,
    *,
    run: str = "this run",
    settings: SnapshotSettings | None = None,
    pause: Callable[[float], object] = lambda _seconds: False,
) -> InitialSnapshot[FakeView]:
    return InitialSnapshot(settings or SnapshotSettings(), Mode(mode), run, pause)


def read(state: State, *collections: CollectionId) -> State:
    """The state once these collections are read."""
    done = [table for table in state.snapshot.tables if table.target.collection in collections]
    return replace(state, snapshot=state.snapshot.without(done))


def queued(state: State) -> list[CollectionId]:
    return [table.target.collection for table in state.snapshot.tables if table.initial]


def waits(first: InitialSnapshot[FakeView], state: State, apart: Collection[CollectionId] = ()) -> bool:
    """Whether the log waits in the turn that begins with this state."""
    first.tick(state, apart)
    return first.holds_log


def signalled() -> State:
    """A job that streams, has read a part of what a signal asked for, and remembers a failure."""
    asked = execute(Snapshot(), ExecuteSnapshot("signal", (Target(A),))).with_extent(1, EXTENT, 5)
    failed = (FailedSnapshot(Target(B), ("id",), ()),)
    return State(position=STREAMED, snapshot=replace(asked, failed=failed), memory={"keys": "of this log"})


class TestInView:
    def test_the_log_waits_until_everything_is_read_and_the_view_is_released(self, caplog):
        caplog.set_level(logging.INFO)
        first, database = snapshot_of(), FakeDatabase()
        state = first.start(State(), database)

        assert (state.position, queued(state)) == (Position((100,)), [A, B])
        assert state.memory == {"first": {"run": "this run", "begins_at": 100}}
        assert waits(first, state)
        assert waits(first, read(state, A))
        assert database.views[0].closed == 0
        assert not waits(first, read(state, A, B))
        assert database.views[0].closed == 1
        assert "the initial snapshot is complete; the log is streamed from view 0" in caplog.messages

    def test_what_the_view_can_not_show_is_read_beside_the_log(self):
        first = snapshot_of()
        state = first.start(State(), FakeDatabase((A, CAPPED)))

        assert waits(first, state, apart={CAPPED})
        assert not waits(first, read(state, A), apart={CAPPED})
        assert first.held is None

    def test_without_a_log_the_job_ends_once_everything_is_read(self):
        first = snapshot_of(SnapshotMode.INITIAL_ONLY)
        state = first.start(State(), FakeDatabase())

        assert waits(first, state)
        assert not first.done(state)
        assert first.done(read(state, A, B))

    def test_a_database_that_holds_no_view_lets_the_log_go_on(self):
        first = snapshot_of()
        state = first.start(State(), FakeDatabase(locks=False))

        assert queued(state) == [A, B]
        assert first.held is None
        assert not waits(first, state)

    def test_a_filter_of_the_settings_is_the_condition_of_its_collection(self):
        first = snapshot_of(settings=SnapshotSettings(filters={"shop.b": "{}"}))

        state = first.start(State(), FakeDatabase())

        assert [table.target.condition for table in state.snapshot.tables] == [None, "{}"]

    def test_a_select_or_filter_for_what_is_not_read_gives_a_warning(self, caplog):
        selects = {"shop.a": "SELECT 1", "shop.A": "SELECT 2"}
        first = snapshot_of(settings=SnapshotSettings(select_overrides=selects, filters={"shop.x": "{}"}))

        first.start(State(), FakeDatabase())

        warned = [record.getMessage() for record in caplog.records if "SELECT or a filter" in record.msg]
        assert ["'shop.A'" in warned[0], "'shop.x'" in warned[1], len(warned)] == [True, True, 2]


@pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.INITIAL_ONLY])
class TestAfterAFault:
    def test_a_view_that_is_still_held_is_read_on(self, mode):
        first, database = snapshot_of(mode), FakeDatabase()
        saved = read(first.start(State(), database), A)

        assert first.start(saved, database) == saved
        assert len(database.views) == 1
        assert waits(first, saved)

    def test_one_opened_after_the_state_was_saved_is_read_from_its_beginning(self, mode):
        first, database = snapshot_of(mode), FakeDatabase()
        state = first.start(State(), database)

        assert first.start(State(), database) == state
        assert len(database.views) == 1

    def test_one_that_has_ended_is_left(self, mode):
        first, database = snapshot_of(mode), FakeDatabase()
        saved = read(first.start(State(), database), A)
        database.views[0].held = False
        state = first.start(saved, database)

        if mode is SnapshotMode.INITIAL:
            assert (queued(state), len(database.views)) == ([B], 1)
            assert not waits(first, state)
        else:
            assert (queued(state), len(database.views)) == ([A, B], 2)


class TestLostView:
    def test_the_rest_is_read_in_windows_beside_the_log(self, caplog):
        first, database = snapshot_of(), FakeDatabase()
        state = first.start(State(), database)
        first.lose("the state is too old")

        assert database.views[0].closed
        assert not waits(first, state)
        assert "the state is too old; the rest is read in windows" in caplog.messages

    def test_without_a_log_the_next_start_reads_everything_again(self, caplog):
        first, database = snapshot_of(SnapshotMode.INITIAL_ONLY), FakeDatabase()
        state = read(first.start(State(), database), A)
        with pytest.raises(SourceError, match="too old"):
            first.lose("the state is too old")

        assert queued(first.start(state, database)) == [A, B]
        assert len(database.views) == 2
        assert "starts over: no log has the changes" in caplog.text
        assert "stay in the sink" not in caplog.text


class TestLostLog:
    def test_is_noticed_though_the_view_is_still_held(self):
        """Else every start would continue in the view, and fail when it opens the log."""
        first, database = snapshot_of(), FakeDatabase()
        saved = read(first.start(State(), database), A)
        database.lost = LOST

        with pytest.raises(PositionLost, match="was removed"):
            first.start(saved, database)
        assert database.views[0].closed

    def test_before_anything_was_saved_the_snapshot_begins_with_a_new_log(self):
        first, database = snapshot_of(SnapshotMode.WHEN_NEEDED), FakeDatabase()
        first.start(State(), database)
        database.lost = LOST
        state = first.start(State(), database)

        assert (queued(state), state.position) == ([A, B], Position((101,)))
        assert database.views[0].closed

    def test_a_log_that_begins_anew_has_all_progress_dropped(self, caplog):
        """Progress was kept right by the log that is gone: rows read before may have changed since."""
        first = snapshot_of(SnapshotMode.WHEN_NEEDED)

        state = first.start(signalled(), FakeDatabase(lost=LOST))

        assert [table.target.collection for table in state.snapshot.tables] == [A, B, A]
        assert [table.progress for table in state.snapshot.tables] == [None] * 3
        assert state.snapshot.failed == ()
        assert list(state.memory) == ["first"]
        assert "deleted meanwhile are not reported" in caplog.text

    def test_stops_the_job_where_the_mode_asks_for_nothing_else(self):
        with pytest.raises(PositionLost, match="was removed"):
            snapshot_of().start(signalled(), FakeDatabase(lost=LOST))


class TestBesideTheLog:
    def test_the_position_and_the_progress_of_signals_are_kept(self):
        first = snapshot_of(SnapshotMode.ALWAYS)
        before = signalled()

        state = first.start(before, FakeDatabase())

        assert state.position == STREAMED
        assert state.snapshot.tables[-1] == before.snapshot.tables[0]
        assert queued(state) == [A, B]
        assert state.memory["keys"] == "of this log"
        assert not waits(first, state)

    def test_a_log_that_was_kept_without_a_state_is_streamed_from_its_beginning(self):
        state = snapshot_of().start(State(), FakeDatabase(kept=True))

        assert (state.position, queued(state)) == (Position((1,)), [A, B])

    def test_what_an_earlier_run_left_is_read_in_windows(self):
        left = read(snapshot_of(run="earlier").start(State(), FakeDatabase()), A)
        first, database = snapshot_of(), FakeDatabase()
        state = first.start(left, database)

        assert (queued(state), database.views) == ([B], [])
        assert not waits(first, state)

    def test_or_begun_anew_where_the_settings_say_so(self, caplog):
        left = read(snapshot_of(run="earlier").start(State(), FakeDatabase()), A)
        first = snapshot_of(settings=SnapshotSettings(restart=SnapshotRestart.REDO))

        assert queued(first.start(left, FakeDatabase())) == [A, B]
        assert "stay in the sink" in caplog.text


class TestDelay:
    SETTINGS = SnapshotSettings(delay_ms=1500)

    @pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.INITIAL_ONLY, SnapshotMode.ALWAYS])
    def test_it_is_waited_for_before_a_snapshot_and_only_then(self, mode):
        waited: list[float] = []
        first = snapshot_of(mode, settings=self.SETTINGS, pause=waited.append)
        saved = State(position=STREAMED) if mode is SnapshotMode.ALWAYS else State()
        first.start(first.start(saved, FakeDatabase()), FakeDatabase())

        assert waited == [1.5]

    def test_a_job_that_is_stopped_meanwhile_begins_nothing(self):
        database = FakeDatabase()
        first = snapshot_of(settings=self.SETTINGS, pause=lambda _seconds: True)

        with pytest.raises(SourceError, match="stopped before"):
            first.start(State(), database)
        assert database.views == []

    def test_what_can_not_be_read_is_told_before(self):
        waited: list[float] = []
        first = snapshot_of(settings=self.SETTINGS, pause=waited.append)

        with pytest.raises(ConfigError, match="may not read"):
            first.start(State(), FakeDatabase(refused=True))
        assert waited == []

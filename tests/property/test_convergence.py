"""Whatever happens while a snapshot runs: the events, applied in order, give the source's tables.

Random interleavings of transactions (in the log before they are visible), turns, windows, signals,
failures of the log and crashes at every step of a turn; the oracle below replays the sink and knows
nothing of the merge rule.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.spark.executors import LocalExecutors
from engine.errors import SourceError
from engine.job.heartbeat import Heartbeat
from engine.job.loop import Job
from engine.job.parts import JobParts, Pace
from engine.model import CollectionId
from signals.desk import Desk
from tests.fakes import MemorySink, MemoryStateStore
from tests.memory_source import Change, Guards, MemoryDatabase, MemorySource, batch_of

TABLE, OTHER = CollectionId(("public", "t")), CollectionId(("public", "u"))
_KEYS = st.integers(0, 7)
_PLACES = st.integers(-2, 9)
_STEPS = ("writer", "save_pending", "commit", "promote", "acknowledge")


class CrashError(Exception):
    """The process was killed here."""


class Fuse:
    """Kills the process when it comes to the n-th named step of a turn."""

    def __init__(self) -> None:
        self.left: int | None = None

    def burn(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise CrashError


class Fused:
    """Passes every call on, and burns the fuse before and after the named steps."""

    def __init__(self, behind: Any, fuse: Fuse) -> None:
        self._behind, self._fuse = behind, fuse

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._behind, name)
        if name not in _STEPS:
            return call

        def fused(*args: Any) -> Any:
            self._fuse.burn()
            result = call(*args)
            self._fuse.burn()
            return result

        return fused


class World:
    """A database, and a job over it that can be killed and started again."""

    def __init__(
        self, staging: str, guards: Guards, *, initial: bool = False, by_place: bool = False
    ) -> None:
        self.database, self.initial, self.by_place = MemoryDatabase(), initial, by_place
        for key in range(6):
            self.database.commit(Change(TABLE, key, f"before-{key}"), Change(OTHER, key, "before"))
        # What was there before the slot is only to be had by a snapshot.
        self.database.acknowledged = len(self.database.log)
        self.fuse, self.sink, self.store = Fuse(), MemorySink(), MemoryStateStore()
        self.clock, self.staging, self.guards = 0.0, staging, guards
        self.start()

    def start(self) -> None:
        self.source = MemorySource(
            self.database,
            self.staging,
            guards=self.guards,
            initial=self.initial,
            by_place=self.by_place,
        )
        fused = Fused(self.source, self.fuse)
        job_parts = JobParts(
            source=fused,
            sink=Fused(self.sink, self.fuse),
            store=Fused(self.store, self.fuse),
            executors=LocalExecutors(),
            desk=Desk(lambda _answer: None, monotonic=lambda: 0.0),
            pulse=Heartbeat(0.0, lambda _now_ms: batch_of([]), lambda: None),
            now=self._now,
            clock=self._now,
            sleep=lambda _s: None,
            new_id=lambda: f"window-{self._now():.0f}",
        )
        pace = Pace(
            chunk_rows=2,
            window_rows=4,
            slice_s=0.0,
            slice_bytes=1,
            max_lag_s=1e12,
            save_s=5.0,
        )
        self.job = Job(job_parts, pace)
        self.job.settle()

    def _now(self) -> float:
        self.clock += 1.0
        return self.clock

    def turn(self) -> None:
        try:
            self.job.turn()
        except SourceError:
            self.job.close()
            self.job.settle()
        except CrashError:
            self.start()

    def drain(self) -> None:
        self.fuse.left = None
        self.database.signal("r", "resume-snapshot", "{}")
        self.database.visible |= {entry.transaction for entry in self.database.log}
        for _ in range(400):
            self.turn()
            state = self.job.state
            done = state.position is not None and state.position.order[0] == len(self.database.log)
            if done and not state.snapshot.tables:
                return
        pytest.fail(f"the job did not come to rest: {self.job.state}")


_changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _KEYS),
        st.tuples(st.just("delete"), _KEYS),
        st.tuples(st.just("move"), _KEYS, _KEYS),
        st.tuples(st.just("touch"), _KEYS),
        st.tuples(st.just("slip"), _KEYS, _KEYS),
        st.tuples(st.just("shift"), _KEYS, _PLACES),
        st.tuples(st.just("truncate")),
    ),
    min_size=1,
    max_size=3,
)
_actions = st.one_of(
    st.tuples(st.just("commit"), _changes, st.booleans()),
    st.tuples(st.just("commit"), _changes, st.booleans()),
    st.tuples(st.just("settle"), st.integers(0, 3)),
    st.tuples(st.just("turns"), st.integers(1, 4)),
    st.tuples(st.just("turns"), st.integers(1, 4)),
    st.tuples(st.just("execute")),
    st.tuples(st.just("stop")),
    st.tuples(st.just("pause")),
    st.tuples(st.just("resume")),
    st.tuples(st.just("crash"), st.integers(0, 12)),
    st.tuples(st.just("disconnect")),
)


_late = st.one_of(
    st.tuples(st.just("commit"), _changes, st.booleans()),
    st.tuples(st.just("settle"), st.integers(0, 3)),
    st.tuples(st.just("turns"), st.integers(1, 2)),
    st.tuples(st.just("crash"), st.integers(0, 12)),
)


def act(world: World, action: tuple[Any, ...]) -> None:
    database = world.database
    match action:
        case ("commit", changes, visible):
            made = [change for changed in changes if (change := _change(world, changed)) is not None]
            if made:
                database.commit(*made, visible=visible)
        case ("settle", index):
            hidden = sorted({entry.transaction for entry in database.log} - database.visible)
            database.visible |= set(hidden[index : index + 1])
        case ("turns", count):
            for _ in range(count):
                world.turn()
        case ("execute",):
            database.signal("s", "execute-snapshot", '{"data-collections": ["public.[tu]"]}')
        case ("stop" | "pause" | "resume" as what,):
            database.signal(
                "s", f"{what}-snapshot", '{"data-collections": ["public.t"], "type": "incremental"}'
            )
        case ("crash", steps):
            world.fuse.left = steps
        case ("disconnect",):
            database.failures.append(SourceError("connection lost"))


def _change(world: World, one: tuple[Any, ...]) -> Change | None:  # noqa: PLR0911  one for each kind
    serial = len(world.database.log)
    match one:
        case ("put", key):
            return Change(TABLE, key, f"value-{serial}-{key}", large=f"large-{serial}")
        case ("delete", key):
            return Change(TABLE, key, None)
        case ("move", old, new) if old != new and old in world.database.rows(TABLE):
            return Change(TABLE, new, f"moved-{serial}", old=old)
        case ("touch", key) if key in world.database.rows(TABLE):
            return Change(TABLE, key, f"touched-{serial}", large=None)
        case ("slip", old, new) if old != new and old in world.database.rows(TABLE):
            return Change(TABLE, new, f"slipped-{serial}", old=old, large=None)
        case ("shift", key, place) if key in world.database.rows(TABLE):
            return Change(TABLE, key, f"shifted-{serial}", large=None, place=place)
        case ("truncate",):
            return Change(TABLE, None)
    return None


def events(sink: MemorySink) -> list[tuple[str, int | None, dict[str, Any]]]:
    return [
        (
            event["topic"],
            None if event["key"] is None else orjson.loads(event["key"]),
            orjson.loads(event["value"]),
        )
        for event in sink.events()
    ]


def replay(sink: MemorySink, collection: CollectionId) -> dict[int, tuple[str, str | None]]:
    """A consumer's table; a large value that an event leaves out is the one that the row had."""
    rows: dict[int, tuple[str, str | None]] = {}
    for topic, key, value in events(sink):
        if topic != str(collection):
            continue
        if key is None:
            rows.clear()
            continue
        old = value.get("old")
        before = rows.pop(key if old is None else old, ("", None))
        if value["value"] is not None:
            rows[key] = (value["value"], before[1] if value["large"] is None else value["large"])
    return rows


def check_history(sink: MemorySink, collection: CollectionId) -> None:
    """Per key, places in the log never go back: no READ after something newer, none before what it holds."""
    seen: dict[int, int] = {}
    for topic, key, value in events(sink):
        if topic != str(collection):
            continue
        touched: set[int] = (
            set(seen) if key is None else {image for image in (key, value.get("old")) if image is not None}
        )
        for number in touched:
            at = value["at"]
            last = seen.get(number, -1)
            repeated_read = value["op"] == "r" and at == last
            assert at > last or repeated_read, f"key {number}: {value} came after place {last}"
            seen[number] = at


def check_log_complete(world: World) -> None:
    start = 12 if world.database.slot is None else world.database.slot
    written = [value["at"] for _topic, _key, value in events(world.sink) if value["op"] == "w"]

    assert written == list(range(start, len(world.database.log)))


def run(world: World, actions: list[tuple[Any, ...]], late: list[tuple[Any, ...]]) -> None:
    """Play actions, take a snapshot of everything, and play some more while it runs."""
    for action in actions:
        act(world, action)
    world.drain()
    world.database.signal("last", "execute-snapshot", '{"data-collections": ["public.[tu]"]}')
    for action in late:
        act(world, action)
    world.drain()


@settings(max_examples=150, deadline=None)
@given(st.lists(_actions, max_size=30), st.lists(_late, max_size=15), st.booleans())
def test_applying_the_events_gives_the_source_tables(actions, late, by_place):
    with tempfile.TemporaryDirectory() as staging:
        world = World(staging, Guards(), by_place=by_place)

        run(world, actions, late)

        check_log_complete(world)
        for collection in (TABLE, OTHER):
            check_history(world.sink, collection)
            assert replay(world.sink, collection) == world.database.rows(collection)


@settings(max_examples=150, deadline=None)
@given(st.lists(_changes, max_size=3), st.lists(_late, max_size=25), st.booleans())
def test_with_a_snapshot_before_the_log_too(before, actions, by_place):
    with tempfile.TemporaryDirectory() as staging:
        world = World(staging, Guards(), initial=True, by_place=by_place)
        for changes in before:
            act(world, ("commit", changes, False))
        world.turn()
        for action in actions:
            act(world, action)
        world.drain()

        check_log_complete(world)
        for collection in (TABLE, OTHER):
            check_history(world.sink, collection)
            assert replay(world.sink, collection) == world.database.rows(collection)


def test_what_is_left_of_it_waits_for_what_the_log_began_behind(tmp_path):
    """A transaction before the slot is in no log, and may be hidden from new snapshots for long."""

    def left(guards: Guards, name: str) -> World:
        world = World(str(tmp_path / name), guards, initial=True)
        world.database.commit(Change(TABLE, 1, "hidden"), visible=False)
        world.turn()
        world.start()
        for _ in range(30):
            world.turn()
        return world

    guarded = left(Guards(), "guarded")
    guarded.drain()
    assert replay(guarded.sink, TABLE) == guarded.database.rows(TABLE)

    unguarded = left(Guards(beginning=False), "unguarded")
    unguarded.drain()
    assert replay(unguarded.sink, TABLE) != unguarded.database.rows(TABLE)


HIDDEN_UPDATE = [
    ("commit", [("put", 1)], False),
    ("turns", 3),
    ("execute",),
    ("turns", 8),
    ("settle", 0),
]
UPDATE_IN_WINDOW = [("execute",), ("turns", 1), ("commit", [("put", 2)], True), ("turns", 8)]
MOVE_IN_WINDOW = [("execute",), ("turns", 1), ("commit", [("move", 2, 7)], True), ("turns", 8)]
TOUCH_IN_WINDOW = [("execute",), ("turns", 1), ("commit", [("touch", 2)], True), ("turns", 8)]
SLIP_PAST_THE_RANGES = [("execute",), ("turns", 1), ("commit", [("slip", 4, 0)], True), ("turns", 8)]
SHIFT_PAST_THE_RANGES = [("execute",), ("turns", 1), ("commit", [("shift", 4, 0)], True), ("turns", 8)]
TRUNCATE_IN_WINDOW = [("execute",), ("turns", 1), ("commit", [("truncate",)], True), ("turns", 8)]
EARLY_CLOSE = [
    ("execute",),
    ("commit", [("put", 1), ("put", 2), ("put", 3)], True),
    ("commit", [("put", 4), ("put", 5)], True),
    ("commit", [("put", 1), ("put", 2), ("put", 3)], True),
    ("commit", [("put", 4), ("put", 5), ("put", 1)], True),
    ("turns", 8),
]


@pytest.mark.parametrize(
    ("guards", "actions"),
    [
        pytest.param(Guards(contains=False), UPDATE_IN_WINDOW, id="contains"),
        pytest.param(Guards(unsettled=False), HIDDEN_UPDATE, id="unsettled"),
        pytest.param(Guards(old_keys=False), MOVE_IN_WINDOW, id="old-keys"),
        pytest.param(Guards(truncates=False), TRUNCATE_IN_WINDOW, id="truncates"),
        pytest.param(Guards(rereads=False), TOUCH_IN_WINDOW, id="rereads"),
        pytest.param(Guards(moves=False), SLIP_PAST_THE_RANGES, id="moves"),
        pytest.param(Guards(places=False), SHIFT_PAST_THE_RANGES, id="places"),
        pytest.param(Guards(reached=False), EARLY_CLOSE, id="reached"),
    ],
)
def test_without_a_guard_the_oracle_objects(guards, actions, tmp_path):
    by_place = not guards.places
    world = World(str(tmp_path / "guarded"), Guards(), by_place=by_place)
    for action in actions:
        act(world, action)
    world.drain()
    check_history(world.sink, TABLE)
    assert replay(world.sink, TABLE) == world.database.rows(TABLE)
    unguarded = World(str(tmp_path / "unguarded"), guards, by_place=by_place)

    with pytest.raises(AssertionError):  # noqa: PT012  the oracle objects somewhere on the way
        for action in actions:
            act(unguarded, action)
        unguarded.drain()
        check_history(unguarded.sink, TABLE)
        assert replay(unguarded.sink, TABLE) == unguarded.database.rows(TABLE)


def test_a_killed_turn_is_sent_once(tmp_path):
    world = World(str(tmp_path), Guards())
    for steps in range(40):
        world.database.commit(Change(TABLE, steps % 8, f"v{steps}"))
        world.fuse.left = steps % 11
        for _ in range(3):
            world.turn()
    world.drain()

    check_log_complete(world)
    with contextlib.suppress(AttributeError):
        world.job.close()

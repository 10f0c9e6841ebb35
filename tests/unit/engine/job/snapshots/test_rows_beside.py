"""Rows that a sink takes beside the turns: which changes wait for them, and when their progress is saved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

from engine.errors import LeaseLost, SinkError
from engine.snapshot.key_hashes import KeyHashing
from engine.snapshot.markers import NO_MARKERS, Marker, Markers
from engine.staging.port import TellsKeys
from engine.staging.rows import MERGE_KEY, ROWS, DigestedRows
from engine.staging.text_rows import StagedTexts
from tests.changed_parts import change_parts
from tests.fakes import _ATTEMPTS, MemorySink, MemoryWriter
from tests.job_bench import BOTH, Bench, T, U
from tests.memory_source import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.job.snapshots.emission import Emission, EmissionResult
    from engine.model import StagedRun


@dataclass
class HandedRows:
    """A run that a test acknowledges, or whoever waits for it."""

    sink: HandSink
    emission: Emission
    topic: str
    emitted: EmissionResult
    events: list[Any]
    acknowledged: bool = False
    error: SinkError | None = None
    changed: Callable[[], object] | None = None

    @property
    def keys(self) -> list[Any]:
        return [orjson.loads(event["key"]) for event in self.events]

    def acknowledge(self) -> None:
        if not self.acknowledged:
            self.acknowledged = True
            self.sink.order += [(self.topic, key, "r") for key in self.keys]
            self.sink.read += self.events

    def done(self) -> bool:
        return self.acknowledged or self.error is not None

    def watch(self, changed: Callable[[], object]) -> None:
        self.changed = changed

    def poll(self) -> None:
        pass

    def result(self) -> EmissionResult:
        if self.error is not None:
            raise self.error
        if not self.acknowledged:
            self.sink.waited += 1
        self.acknowledge()
        return self.emitted

    def stop(self) -> None:
        self.sink.stopped += 1


@dataclass
class HandSink(MemorySink):
    """A sink that takes rows; `order` is what it has, in the order in which it got it."""

    takes_rows: bool = True
    ways: list[HandedRows] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    order: list[tuple[str, Any, str]] = field(default_factory=list)
    waited: int = 0
    stopped: int = 0
    ready: bool = True
    room: int = 100

    def prepare_for_rows(self) -> bool:
        return self.ready and len(self.on_their_way) < self.room

    def take_rows(self, emission: Emission, topic: str) -> HandedRows:
        _ATTEMPTS["rows"] = {}
        emitted = emission.write(MemoryWriter("rows"))
        self.ways.append(HandedRows(self, emission, topic, emitted, _ATTEMPTS["rows"][0]))
        return self.ways[-1]

    def commit(self, turn: int, parts: Any) -> None:
        super().commit(turn, parts)
        for event in self.turns[turn]:
            key = event["key"] and orjson.loads(event["key"])
            self.order.append((event["topic"], key, orjson.loads(event["value"]).get("op", "")))

    @property
    def on_their_way(self) -> list[HandedRows]:
        return [way for way in self.ways if not way.done()]

    def acknowledge(self) -> None:
        for way in self.on_their_way:
            way.acknowledge()


def bench_of(tmp_path: Path, local_rows: int = 0, **pace: Any) -> Any:
    bench = Bench(tmp_path, **pace)
    bench.sink, bench.local_rows = HandSink(), local_rows
    bench.new_job()
    return bench


@pytest.fixture
def bench(tmp_path):
    return bench_of(tmp_path)


def until_on_their_way(bench: Any, runs: int = 1) -> list[HandedRows]:
    for _ in range(20):
        if len(bench.sink.on_their_way) >= runs:
            break
        bench.turns(1)
    found: list[HandedRows] = bench.sink.on_their_way
    assert len(found) == runs
    return found


def until_finished(bench: Any, outcomes: int = 1) -> None:
    for _ in range(40):
        if len([text for text in bench.told() if text.startswith("finished")]) >= outcomes:
            return
        bench.sink.acknowledge()
        bench.turns(1)
    raise AssertionError(bench.told())


def rows_recorded(bench: Any) -> int:
    return sum(table.progress.rows for table in bench.job._checkpoint.state.snapshot.tables if table.progress)


def test_what_becomes_of_rows_ends_the_wait_for_the_log(bench):
    bench.execute()
    way: Any = until_on_their_way(bench, runs=2)[0]
    log = bench.job._log
    before = log.woken
    way.changed()

    assert log.woken == before + 1


def test_all_rows_go_beside_the_turns_and_none_twice(bench):
    bench.execute(BOTH)
    until_finished(bench, 2)
    read = sorted((event["topic"], orjson.loads(event["key"])) for event in bench.sink.read)

    assert read == [("public.t", key) for key in range(1, 6)] + [("public.u", key) for key in range(1, 4)]
    assert not any(op == "r" for op, _topic, _key in bench.events())


def test_the_turn_that_saves_the_progress_of_rows_counts_them(bench):
    bench.execute(BOTH)
    until_finished(bench, 2)

    assert sum(seen.events for seen in bench.seen) == len(bench.events()) + len(bench.sink.read)


def test_a_change_of_another_row_goes_ahead(bench):
    bench.execute()
    until_on_their_way(bench, 2)
    bench.database.commit(Change(T, 9, "new"))
    bench.database.commit(Change(U, 1, "other table"))
    bench.turns(1)

    assert bench.sink.waited == 0
    assert [(topic, key) for topic, key, _op in bench.sink.order[-2:]] == [("public.t", 9), ("public.u", 1)]


def test_a_change_of_a_row_on_its_way_waits_for_that_run_alone(bench):
    bench.execute()
    other, touched = until_on_their_way(bench, 2)
    bench.database.commit(Change(T, touched.keys[0], "newer"))
    bench.turns(1)
    change, read = (("public.t", touched.keys[0], op) for op in "wr")

    assert isinstance(other.emission.staged.content, DigestedRows)
    assert isinstance(other.emission.staged.content.rows, TellsKeys)
    assert (touched.acknowledged, other.acknowledged) == (True, False)
    assert bench.sink.order.index(read) < bench.sink.order.index(change)


@dataclass(frozen=True)
class RowsElsewhere:
    """Staged rows as the driver has them on a cluster: neither they nor their keys are there."""

    rows: Any

    def emit(self, *given: Any) -> Any:
        return self.rows.emit(*given)


@pytest.mark.parametrize("hashes", [True, False], ids=["hashes", "nothing"])
def test_changes_of_rows_that_are_on_executors_wait_by_the_hashes_of_their_keys(bench, hashes):
    windows = bench.job._windows
    note = windows._note

    def noting(opened: Any, staged: Any, position: Any) -> None:
        note(opened, staged and [elsewhere(file, hashes=hashes) for file in staged], position)

    windows._note = noting
    bench.execute()
    until_on_their_way(bench, 2)
    other, touched = bench.sink.on_their_way
    sent = [way.emission.staged.hashes for way in bench.sink.ways]
    bench.database.commit(Change(T, touched.keys[0], "newer"))
    bench.turns(1)

    assert sent == [None, None]
    assert (touched.acknowledged, other.acknowledged) == (True, not hashes)


@pytest.mark.parametrize("hashes", [True, False], ids=["hashes", "nothing"])
def test_a_run_takes_along_the_superseded_keys_of_its_own_rows(bench, hashes):
    windows = bench.job._windows
    note = windows._note

    def noting(opened: Any, staged: Any, position: Any) -> None:
        note(opened, staged and [elsewhere(file, hashes=hashes) for file in staged], position)

    windows._note = noting
    bench.sink.ready = False
    bench.execute()
    while bench.job.window is None:
        bench.turns(1)
    for key in range(1, 4):
        bench.database.commit(Change(T, key, "newer"))
    bench.turns(3)
    bench.sink.ready = True
    until_on_their_way(bench, 2)
    given = [len(way.emission.newer.keys) for way in bench.sink.ways]

    assert (sum(given) < 3 * len(given)) == hashes, given


def elsewhere(file: StagedRun, *, hashes: bool) -> StagedRun:
    """A staged run as a task on an executor gives it back."""
    if isinstance(file.content, RowsElsewhere):
        return file
    rows: Any = file.content.rows  # type: ignore[attr-defined]  # they have digests
    block = rows.keys if isinstance(rows, StagedTexts) else rows.block
    hashing = KeyHashing()
    with block.open(ROWS) as content, pa.ipc.open_stream(content) as stream:
        for batch in stream:
            hashing.add(batch.column(MERGE_KEY.name))
    return replace(file, content=RowsElsewhere(file.content), hashes=hashing.all if hashes else None)


def test_a_truncate_waits_for_every_run_of_its_table(bench):
    bench.execute(BOTH)
    until_on_their_way(bench, 2)
    bench.database.commit(Change(T, None))
    bench.turns(1)

    assert [way.acknowledged for way in bench.sink.ways[:2]] == [True, True]


def test_progress_is_saved_with_the_turn_after_the_run_was_taken_and_in_order(bench):
    bench.execute()
    first, second = until_on_their_way(bench, 2)
    bench.database.commit(Change(U, 1, "a"))
    bench.turns(1)
    before = rows_recorded(bench)
    second.acknowledge()
    bench.turns(2)
    behind = rows_recorded(bench)
    first.acknowledge()
    bench.turns(1)

    assert (before, behind) == (0, 0)
    assert bench.told()[-1] == "finished public.t"


def test_a_crash_repeats_what_was_on_its_way_and_loses_nothing(bench):
    bench.execute()
    first, _second = until_on_their_way(bench, 2)
    first.acknowledge()
    bench.database.commit(Change(T, first.keys[0], "newer"))
    bench.new_job().settle()
    bench.sink.ways.clear()
    until_finished(bench)
    keys = [orjson.loads(event["key"]) for event in bench.sink.read]

    assert set(keys) | {first.keys[0]} == set(range(1, 6))
    assert bench.sink.order[-1][2] == "r"
    assert all(keys.count(key) <= 2 for key in keys)


def test_a_run_that_fails_ends_the_session_and_its_rows_are_read_again(bench):
    bench.execute()
    first, second = until_on_their_way(bench, 2)
    first.error = SinkError("the broker is away")
    with pytest.raises(SinkError, match="the broker is away"):
        bench.turns(2)
    bench.job.close()

    assert bench.sink.stopped >= 1
    assert not second.acknowledged
    bench.job._settled = False
    bench.job.settle()
    until_finished(bench)
    assert {orjson.loads(event["key"]) for event in bench.sink.read} == set(range(1, 6))


def test_a_window_that_is_given_up_lets_nothing_arrive_later(bench):
    bench.execute()
    until_on_their_way(bench, 2)
    bench.database.signal("x", "stop-snapshot", '{"type": "incremental", "data-collections": ["public.t"]}')
    bench.turns(2)

    assert bench.sink.stopped == 2
    assert bench.job.window is None


def test_nothing_goes_before_the_sink_is_ready_or_without_the_lease(bench):
    bench.sink.ready = False
    bench.execute()
    bench.turns(8)
    before = len(bench.sink.ways)
    bench.sink.ready = True
    change_parts(bench.job, lease=NoLeaseAnyMore())
    bench.job._windows._parts = bench.job._parts
    with pytest.raises(LeaseLost):
        bench.turns(1)

    assert (before, bench.sink.ways) == (0, [])


class NoLeaseAnyMore:
    """Another job has it."""

    def check(self) -> None:
        raise LeaseLost("another job has it")

    confirm = check


def test_few_rows_go_with_their_turn(tmp_path):
    bench = bench_of(tmp_path, local_rows=100)
    bench.execute()
    bench.turns(8)

    assert bench.sink.ways == []
    assert sorted(key for op, _topic, key in bench.events() if op == "r") == [1, 2, 3, 4, 5]


def test_a_sink_that_is_set_up_otherwise_gets_rows_with_their_turn(bench):
    bench.sink.takes_rows = False
    bench.execute()
    bench.turns(8)

    assert sorted(key for op, _topic, key in bench.events() if op == "r") == [1, 2, 3, 4, 5]


def test_rows_that_carry_markers_go_alone(tmp_path):
    bench = bench_of(tmp_path, window_rows=100, tasks=4)
    for key in range(6, 60):
        bench.database.commit(Change(T, key, "more"))
    bench.execute('{"type": "blocking", "data-collections": ["public.t"]}')
    for _ in range(60):
        if "finished public.t" in bench.told():
            break
        before = len(bench.sink.ways)
        bench.turns(1)
        started = bench.sink.ways[before:]
        if any(way.emission.marks != NO_MARKERS for way in started):
            assert len(bench.sink.on_their_way) == 1
        bench.sink.acknowledge()
    marks = [way.emission.marks for way in bench.sink.ways]

    assert len(marks) >= 3
    assert marks[0] == Markers(first=Marker.FIRST)
    assert marks[-1] == Markers(last=Marker.LAST)
    assert set(marks[1:-1]) == {NO_MARKERS}


def test_how_many_runs_are_on_their_way_is_bounded(tmp_path):
    bench = bench_of(tmp_path, tasks=3, chunk_rows=1)
    bench.execute()
    until_on_their_way(bench, 3)
    bench.turns(3)

    assert len(bench.sink.ways) == 3


def test_a_sink_that_takes_as_many_as_it_can_is_given_no_more(tmp_path):
    bench = bench_of(tmp_path, tasks=3, chunk_rows=1)
    bench.sink.room = 2
    bench.execute()
    until_on_their_way(bench, 2)
    bench.turns(3)
    before = len(bench.sink.ways)
    until_finished(bench)

    assert before == 2
    assert len(bench.sink.ways) > 2

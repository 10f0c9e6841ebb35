"""What every window must promise; see `engine.ports.source.Source.open_window` and `OpenWindow`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from engine.errors import SourceError
from engine.job.saved.state import State
from engine.job.snapshots.emission import Emission
from engine.model import Run, Target, Window
from engine.snapshot.extent import Extent
from engine.snapshot.merge import SupersededKeys
from tests.conformance.subjects import TIMEOUT_S, T, open_log
from tests.fakes import MemorySink
from tests.memory_source import Change
from tests.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.model import Key, StagedRun
    from engine.ports.log import LogReader
    from engine.ports.source import OpenWindow, Source
    from tests.conformance.subjects import Row, Subject

TARGET = Target(T)
WHOLE = (Run(1, TARGET, None, None),)


class Reader:
    """A source whose log is read by hand beside one window."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.source: Source = subject.source()
        self.log: LogReader
        self.state, self.log = open_log(self.source, State())
        self.rows: list[Row] = []
        self.windows: list[OpenWindow] = []

    def open(self, *runs: Run) -> OpenWindow:
        (extent,) = self.source.tables().measure([self.subject.target])
        assert isinstance(extent, Extent)
        keyed = tuple(replace(run, key=extent.key, target=self.subject.target) for run in runs or WHOLE)
        self.windows.append(self.source.open_window(Window(str(uuid4()), keyed)))
        return self.windows[-1]

    def stream(self) -> SupersededKeys | None:
        """Take the next span; gives what it superseded of open windows, one at most being open."""
        span = self.log.take(0.02)
        if span is None:
            return None
        sink = Turns(MemorySink())
        encoded = self.source.encode(span, sink.writer(1))
        sink.commit(1)
        told = (self.subject.row(event) for event in sink.events())
        self.rows += [row for row in told if row is not None]
        self.state = replace(self.state, position=span.end)
        superseded = encoded.superseded
        for value in encoded.superseded_in.values():
            superseded |= value
        return superseded

    def stream_rows(self, count: int, superseded: SupersededKeys) -> SupersededKeys:
        """Take spans until so many rows have come; gives all that was superseded."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.rows) < count:
            assert time.monotonic() < deadline, f"{len(self.rows)} of {count} rows"
            superseded |= self.stream() or type(superseded)()
        return superseded

    def settle(self, count: int) -> None:
        """Take what rows are to contain before they are read, where that is not told from later changes."""
        if not self.subject.exact:
            self.stream_rows(count, SupersededKeys())

    def reach(self, window: OpenWindow) -> None:
        """Take spans until the watermark is reached."""
        self.log.hurry(on=True)
        deadline = time.monotonic() + TIMEOUT_S
        while self.state.position is None or not window.reached(self.state.position):
            assert time.monotonic() < deadline, "the watermark is not reached"
            self.source.tick(self.state)
            window.poll()
            self.stream()

    def close(self) -> None:
        for window in self.windows:
            window.close()
        self.log.close()


@pytest.fixture
def reader(subject) -> Iterator[Reader]:
    made = Reader(subject)
    yield made
    made.close()


def staged_by(window: OpenWindow) -> Sequence[StagedRun]:
    deadline = time.monotonic() + TIMEOUT_S
    while (staged := window.poll()) is None:
        assert time.monotonic() < deadline, "the window is not read"
        time.sleep(0.01)
    return staged


def rows_of(subject: Subject, staged: Sequence[StagedRun]) -> list[Row]:
    """The rows staged, in no particular order of the runs."""
    return surviving(subject, staged, SupersededKeys())


def is_there(subject: Subject, staged: Sequence[StagedRun]) -> bool:
    """Whether the rows can still be emitted."""
    try:
        return bool(rows_of(subject, staged))
    except SourceError:
        return False


def surviving(subject: Subject, staged: Sequence[StagedRun], superseded: SupersededKeys) -> list[Row]:
    """The rows that the merge rule leaves."""
    sink = Turns(MemorySink())
    writer = sink.writer(1)
    for part, rows in enumerate(staged):
        Emission(rows, superseded.of(rows.collection), part).write(writer)
    sink.commit(1)
    told = [subject.row(event) for event in sink.events()]
    return sorted(row for row in told if row is not None)


def put(*keys: int, value: str = "old") -> list[Change]:
    return [Change(T, key, value) for key in keys]


def run(after: int | None, upto: int | None, ticket: int = 1) -> Run:
    def key(one: int | None) -> Key | None:
        return None if one is None else (str(one),)

    return Run(ticket, TARGET, key(after), key(upto))


class TestRows:
    def test_they_are_what_was_committed_before_the_window(self, subject, reader):
        subject.commit(*put(1, 2, 3))
        subject.commit(Change(T, 2, None), *put(3, value="new"))
        window = reader.open()

        assert rows_of(subject, staged_by(window)) == [(1, "old"), (3, "new")]

    def test_a_commit_after_the_opening_is_not_among_them_or_supersedes_them(self, subject, reader):
        subject.commit(*put(1, 2, 3))
        reader.settle(3)
        window = reader.open()
        subject.commit(Change(T, 1, None), *put(2, 4, value="new"))
        staged = staged_by(window)

        if subject.exact:
            assert rows_of(subject, staged) == [(1, "old"), (2, "old"), (3, "old")]
        survivors = surviving(subject, staged, reader.stream_rows(6, window.superseded))
        assert survivors == [(3, "old")]

    def test_a_run_is_open_below_and_closed_above(self, subject, reader):
        expected = {
            (None, None): [-5, 2, 9, 10, 30],
            (None, 9): [-5, 2, 9],
            (9, 30): [10, 30],
            (2, 9): [9],
            (2, 5): [],
            (30, 40): [],
            (-5, 29): [2, 9, 10],
        }
        subject.commit(*put(-5, 2, 9, 10, 30))
        staged = staged_by(reader.open(*(run(*bounds, ticket=at) for at, bounds in enumerate(expected))))
        found = {
            bounds: [key for key, _value in rows_of(subject, [read for read in staged if read.ticket == at])]
            for at, bounds in enumerate(expected)
        }

        assert found == expected

    def test_runs_are_staged_apart_and_counted(self, subject, reader):
        subject.commit(*put(1, 2, 3, 4, 5))
        window = reader.open(run(None, 2, ticket=7), run(2, 5, ticket=8))
        staged, name = staged_by(window), subject.target.collection

        assert [(read.ticket, read.collection, read.rows) for read in staged] == [(7, name, 2), (8, name, 3)]
        assert [key for key, _value in rows_of(subject, staged)] == [1, 2, 3, 4, 5]

    def test_named_keys_are_read_alone(self, subject, reader):
        subject.commit(*put(1, 2, 3, 4))
        window = reader.open(Run(1, TARGET, None, None, keys=(("2",), ("4",), ("9",))))

        assert [key for key, _value in rows_of(subject, staged_by(window))] == [2, 4]

    def test_a_collection_without_rows_gives_none(self, subject, reader):
        subject.commit(*put(1))
        subject.commit(Change(T, 1, None))

        assert rows_of(subject, staged_by(reader.open())) == []


class TestWatermark:
    def test_it_is_not_reached_before_what_the_rows_contain_was_streamed(self, subject, reader):
        subject.commit(*put(1, 2, 3))
        window = reader.open()
        staged_by(window)
        before = window.reached(reader.state.position)
        reader.reach(window)

        assert not before
        assert sorted(reader.rows) == [(1, "old"), (2, "old"), (3, "old")]

    def test_it_is_reached_without_further_traffic(self, subject, reader):
        subject.commit(*put(1))
        reader.reach(reader.open())

    def test_what_the_rows_contain_does_not_supersede_them(self, subject, reader):
        subject.commit(*put(1, 2, 3))
        window = reader.open()
        superseded = reader.stream_rows(3, window.superseded)

        survivors = surviving(subject, staged_by(window), superseded)
        assert len(survivors) == 3 if subject.exact else set(survivors) <= set(reader.rows)

    @pytest.mark.parametrize(
        ("changes", "streamed", "expected"),
        [
            pytest.param([Change(T, 2, "new")], 1, [1, 3], id="update"),
            pytest.param([Change(T, 2, None)], 1, [1, 3], id="delete"),
            pytest.param([Change(T, 9, "new")], 1, [1, 2, 3], id="insert"),
            pytest.param([Change(T, 2, None), Change(T, 2, "new")], 2, [1, 3], id="delete and insert"),
            pytest.param([Change(T, 9, "new", old=2)], 1, [1, 3], id="key change"),
        ],
    )
    def test_later_changes_supersede_their_rows(self, subject, reader, changes, streamed, expected):
        subject.commit(*put(1, 2, 3))
        reader.settle(3)
        window = reader.open()
        staged = staged_by(window)
        subject.commit(*changes)
        superseded = reader.stream_rows(3 + streamed, window.superseded)

        assert [key for key, _value in surviving(subject, staged, superseded)] == expected

    def test_a_key_that_a_row_moved_to_is_superseded_too(self, subject, reader):
        subject.commit(*put(1, 2, 3))
        reader.settle(3)
        window = reader.open()
        staged = staged_by(window)
        subject.commit(Change(T, 1, None), Change(T, 1, "moved", old=2))
        superseded = reader.stream_rows(5, window.superseded)

        assert [key for key, _value in surviving(subject, staged, superseded)] == [3]


class TestClosing:
    def test_it_removes_what_was_staged(self, subject, reader):
        subject.commit(*put(1, 2))
        window = reader.open()
        staged = staged_by(window)
        there = is_there(subject, staged)
        window.close()

        assert there
        deadline = time.monotonic() + TIMEOUT_S
        while is_there(subject, staged):
            assert time.monotonic() < deadline, "it is still there"
            time.sleep(0.01)

    @pytest.mark.parametrize("polled", [False, True])
    def test_it_may_come_at_any_time_and_twice(self, subject, reader, polled):
        subject.commit(*put(*range(50)))
        window = reader.open()
        if polled:
            window.poll()
        window.close()
        window.close()
        subject.commit(*put(50))

        assert len(rows_of(subject, staged_by(reader.open()))) == 51

    def test_no_entry_supersedes_anything_after_it(self, subject, reader):
        subject.commit(*put(1))
        reader.open().close()
        subject.commit(*put(1, value="new"))
        nothing = reader.stream_rows(2, reader.windows[0].superseded)

        assert not nothing.keys
        assert not nothing.truncated

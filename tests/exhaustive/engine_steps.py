"""The engine's own code as steps between values: each is run once for the same input and remembered.

Runs `Windows`, `WindowScheduler`, the plan, the queue and the merge rule as they are, over a source that has
just what the step needs. Leaves out of a value what people alone read: counters, times, ids.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from engine.errors import SourceError, TableBusy
from engine.job.parts import JobParts, Pace
from engine.job.saved.state import State
from engine.job.snapshots.opened_window import OpenedWindow
from engine.job.snapshots.windows import Windows
from engine.model import ExecuteSnapshot, Part, Position, Range, Run, StagedRun, Target, Window
from engine.ports.source import EncodingResult
from engine.snapshot.changes.commands import execute
from engine.snapshot.changes.moved_rows import with_moved
from engine.snapshot.extent import Extent
from engine.snapshot.merge import NewerKeys, SupersededKeys
from engine.snapshot.merge_key import KEY_TYPE
from engine.snapshot.queue import Snapshot
from engine.staging.rows import Survivors
from tests.exhaustive.logs import Change
from tests.simulation.database import T
from tests.simulation.source import merge_key, moved, superseding

Value = TypeVar("Value")
Result = TypeVar("Result")
_PACE = Pace(chunk_rows=1, window_rows=2, slice_s=0.0, slice_bytes=1, max_lag_s=1e12, longest_window_s=0.0)


class Numbers(Generic[Value]):
    """Values, each with a number: equal ones have the same."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._numbers: dict[Hashable, int] = {}

    def of(self, value: Value, same: Hashable) -> int:
        """The number of a value; `same` is what equal ones have in common."""
        number = self._numbers.get(same)
        if number is None:
            number = self._numbers[same] = len(self.values)
            self.values.append(value)
        return number


class WindowState(NamedTuple):
    """A window in progress: its plan, what it contains, what superseded its rows (numbers), and its rows.

    `staged` has the keys read by each run; None while they are being read.
    """

    plan: int
    shown: int
    superseded: int
    hidden: int
    staged: tuple[tuple[int, ...], ...] | None
    sent: int


class Planned(NamedTuple):
    """What became of the wish to open a window: the queue, and its plan if one opens (numbers)."""

    snapshot: int
    plan: int | None


class Sent(NamedTuple):
    """What a turn sent of a window: the queue (a number), the window unless it is finished, the keys read."""

    snapshot: int
    window: WindowState | None
    keys: tuple[int, ...]


class EngineSteps:
    """The steps, for tables of so many keys."""

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._snapshots: Numbers[Snapshot] = Numbers()
        self._superseded: Numbers[SupersededKeys] = Numbers()
        self._plans: Numbers[tuple[Run, ...]] = Numbers()
        self._known: dict[Hashable, Any] = {}
        self.calls = 0
        """How often the engine's code was run."""
        first = execute(Snapshot(), ExecuteSnapshot("signal", targets=(Target(T),)))
        self.first = self._snapshot(first)
        self.nothing = self._number(SupersededKeys())

    def _remembered(self, key: Hashable, run: Callable[[], Result]) -> Result:
        if key not in self._known:
            self.calls += 1
            self._known[key] = run()
        found: Result = self._known[key]
        return found

    def _snapshot(self, snapshot: Snapshot) -> int:
        tables = tuple(
            replace(
                table,
                progress=table.progress and replace(table.progress, rows=0, emitted=0, chunks=0, since_ms=0),
            )
            for table in snapshot.tables
        )
        canonical = replace(snapshot, tables=tables)
        return self._snapshots.of(canonical, canonical)

    def _number(self, found: SupersededKeys) -> int:
        """The number of what is superseded: keys in any order, and how often, mean the same."""
        keys = sorted({key for array in found.keys.get(T, ()) for key in array.to_pylist()})
        lacking = found.lacking.get(T, ())
        arrays = {T: (pa.array(keys, KEY_TYPE),)} if keys else {}
        canonical = SupersededKeys(arrays, found.truncated, {T: lacking} if lacking else {})
        return self._superseded.of(canonical, (tuple(keys), found.truncated, lacking))

    def ended(self, snapshot: int) -> bool:
        """Whether nothing is queued any more."""
        return not self._snapshots.values[snapshot].tables

    # Entries.

    def streamed(
        self, snapshot: int, windows: tuple[WindowState, ...], change: Change, contained: tuple[bool, ...]
    ) -> tuple[int, tuple[WindowState, ...]]:
        """Stream an entry: what may have moved is read again, and windows drop what it superseded."""
        after = self._remembered(("moved", snapshot, change), lambda: self._moved(snapshot, change))
        if not windows:
            return after, windows
        numbers = tuple(window.superseded for window in windows)
        now = self._remembered(
            ("superseded", numbers, change, contained),
            lambda: self._supersede(windows, change, contained),
        )
        return after, tuple(
            window._replace(superseded=number) for window, number in zip(windows, now, strict=True)
        )

    def _moved(self, snapshot: int, change: Change) -> int:
        before = self._snapshots.values[snapshot]
        return self._snapshot(with_moved(before, moved([change.entry], before.reading)))

    def _supersede(
        self, windows: Sequence[WindowState], change: Change, contained: Sequence[bool]
    ) -> tuple[int, ...]:
        real = self._windows(windows)
        found = {
            str(at): SupersededKeys() if has else superseding([change.entry])
            for at, has in enumerate(contained)
        }
        real.in_progress.supersede(EncodingResult(superseded_in=found))
        return tuple(self._number(opened.superseded) for opened in real.in_progress.opened)

    # Windows.

    def measured(self, snapshot: int) -> bool:
        """Whether it is known what there is to read."""
        return all(table.progress for table in self._snapshots.values[snapshot].tables)

    def planned(
        self,
        snapshot: int,
        windows: tuple[WindowState, ...],
        shown: Sequence[int],
        missed: Sequence[Change],
        *,
        opens: bool = True,
    ) -> Planned:
        """What to read next, if rows with these keys are shown and these changes are not.

        Without `opens` the table is measured, and the window is refused.
        """
        ahead = tuple((window.plan, window.staged, window.sent) for window in windows)
        asked = None if self.measured(snapshot) else (max(shown, default=-1), tuple(missed))
        return self._remembered(
            ("planned", snapshot, ahead, asked, opens),
            lambda: self._plan(snapshot, windows, _Source(self._keys, *(asked or (-1, ())), opens=opens)),
        )

    def _plan(self, snapshot: int, windows: Sequence[WindowState], source: _Source) -> Planned:
        real = self._windows(windows, source)
        state, may_open = real.measure(self._state(snapshot), 0.0)
        if may_open:
            state = real.open_next(state)
        runs = source.opened.runs if source.opened else None
        return Planned(self._snapshot(state.snapshot), None if runs is None else self._plans.of(runs, runs))

    def runs(self, plan: int) -> tuple[Run, ...]:
        """What a plan reads."""
        return self._plans.values[plan]

    def staged(self, plan: int, shown: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """The keys that each run of a plan reads, if these are shown."""
        return self._remembered(
            ("staged", plan, tuple(shown)), lambda: tuple(_keys_of(run, shown) for run in self.runs(plan))
        )

    def hidden(self, missed: Sequence[Change]) -> int:
        """What changes superseded that a window does not show and that were streamed before it opened."""
        entries = [change.entry for change in missed]
        return self._remembered(("hidden", tuple(missed)), lambda: self._number(superseding(entries)))

    def may_send(self, windows: tuple[WindowState, ...], position: int) -> bool:
        """Whether rows of the front window may be sent at a position."""
        front = windows[0]
        key = ("may", front.staged is None, front.shown, position)
        return self._remembered(key, lambda: self._opened(0, front).may_emit(Position((position,))))

    def sent(self, snapshot: int, front: WindowState, position: int) -> Sent:
        """Send the front window's next slice."""
        # Where the stream is has been asked before.
        return self._remembered(
            ("sent", snapshot, front._replace(shown=0)), lambda: self._send(snapshot, front, position)
        )

    def _send(self, snapshot: int, front: WindowState, position: int) -> Sent:
        real, written = self._windows([front]), _Writer()
        state, _parts, _rows = real.emit(self._state(snapshot, position), written, 0)  # type: ignore[arg-type]  # all that a slice needs
        left = front._replace(sent=real.in_progress.opened[0].sent) if real.in_progress.opened else None
        return Sent(self._snapshot(state.snapshot), left, tuple(written.keys))

    def failed(self, windows: tuple[WindowState, ...], at: int) -> tuple[WindowState, ...]:
        """What is left in progress once the rows of a window could not be read."""
        kept = self._remembered(("failed", len(windows), at), lambda: self._fail(windows, at))
        return tuple(windows[number] for number in kept)

    def _fail(self, windows: Sequence[WindowState], at: int) -> tuple[int, ...]:
        real = self._windows(windows)
        for number, opened in enumerate(real.in_progress.opened):
            opened.reading.fails = number == at  # type: ignore[attr-defined]  # ours
        real.poll(self._state(self.first))
        return tuple(int(opened.window.id) for opened in real.in_progress.opened)

    # The engine's values.

    def _state(self, snapshot: int, position: int = 0) -> State:
        return State(position=Position((position,)), snapshot=self._snapshots.values[snapshot])

    def _windows(self, opened: Sequence[WindowState], source: _Source | None = None) -> Windows:
        real = Windows(_parts(source or _Source(self._keys, -1, ())), _PACE)
        real.in_progress.opened = [self._opened(at, window) for at, window in enumerate(opened)]
        return real

    def _opened(self, at: int, window: WindowState) -> OpenedWindow:
        runs = self.runs(window.plan)
        superseded, hidden = (self._superseded.values[n] for n in (window.superseded, window.hidden))
        reading = _Reading(window.shown.bit_length(), hidden)
        made = OpenedWindow(Window(str(at), runs), reading, 0.0, superseded, hidden, is_open=True)
        made.sent = window.sent
        if window.staged is not None:
            made.staged = reading.staged = [
                StagedRun(run.ticket, T, _Rows(keys), len(keys), 0, number)
                for number, (run, keys) in enumerate(zip(runs, window.staged, strict=True))
            ]
        return made


@dataclass
class _Rows:
    """The staged rows of a run: their keys."""

    keys: Sequence[int]

    def emit(self, newer: NewerKeys, _marks: Any, writer: _Writer, part: int) -> tuple[Part, Survivors]:
        keys = pa.chunked_array([pa.array(map(merge_key, self.keys), KEY_TYPE)])
        mask = newer.survivors(keys)
        left = (
            self.keys
            if mask is None
            else [k for k, on in zip(self.keys, mask.to_pylist(), strict=True) if on]
        )
        writer.keys += left
        return Part(part, len(left)), Survivors(mask, len(left), newer.dropped_lacking(keys, mask))


@dataclass
class _Writer:
    keys: list[int] = field(default_factory=list)


@dataclass
class _Reading:
    """A window's reading: it contains nothing behind the horizon."""

    horizon: int
    superseded: SupersededKeys
    staged: list[StagedRun] | None = None
    fails: bool = False

    def poll(self) -> list[StagedRun] | None:
        if self.fails:
            raise SourceError("rows could not be read")
        return self.staged

    def watch(self, changed: Callable[[], object]) -> None: ...

    def reached(self, position: Position) -> bool:
        return int(position.order[0]) >= self.horizon

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class _Source:
    """What is asked before a window opens. Each row is a run, and so is the place before the last one."""

    lasting = ()

    keys: int
    greatest: int
    missed: Sequence[Change]
    opens: bool = True
    opened: Window | None = None

    def tables(self) -> _Source:
        return self

    def holds_log(self, _state: State) -> bool:
        return False

    def measure(self, targets: Sequence[Target], *, bounded: bool = False) -> list[Extent]:  # noqa: ARG002
        greatest = None if self.greatest < 0 else (str(self.greatest),)
        return [Extent(self.keys, self.keys, greatest=greatest, key=("key",)) for _target in targets]

    def boundaries(self, _target: Target, left: Range, _step: int, count: int) -> list[tuple[str]]:
        places = [float(key) for key in range(self.keys)]
        places[-1:] = [self.keys - 1.5, self.keys - 1.0]
        after, upto = left.after or ("-1",), left.upto or ("inf",)
        low, high = float(after[0] or 0), float(upto[0] or 0)
        return [(f"{place:g}",) for place in places if low < place < high][:count]

    def hidden_moves(self, reading: Any) -> Any:
        return moved([change.entry for change in self.missed], reading)

    def open_window(self, window: Window) -> _Reading:
        if not self.opens:
            raise TableBusy("a lock is held", where=T)
        self.opened = window
        return _Reading(0, SupersededKeys())


class _Answers:
    """Hears that the table is finished; that it failed is an error here."""

    def finished(self, _table: Any, _note: str = "") -> None:
        """It has left the queue."""

    def started(self, _table: Any) -> None:
        """Its first rows were read."""

    def progress(self, _table: Any, _percent: int) -> None:
        """More of its rows were read."""

    def failed(self, _table: Any, error: Exception) -> None:
        raise error


def _parts(source: _Source) -> JobParts:
    nothing: Any = None
    return JobParts(
        source=source,  # type: ignore[arg-type]  # no more than a step needs
        sink=nothing,
        store=nothing,
        executors=nothing,
        desk=SimpleNamespace(answers=_Answers()),
        pulse=nothing,
        now=lambda: 1.0,
        clock=lambda: 1.0,
        sleep=lambda _seconds: None,
        new_id=lambda: "new",
    )


def _keys_of(run: Run, shown: Iterable[int]) -> tuple[int, ...]:
    """Which of the rows shown a run reads."""
    if run.keys:
        wanted = {key[0] for key in run.keys}
        return tuple(key for key in shown if str(key) in wanted)
    low = -1.0 if run.after is None else float(run.after[0] or 0)
    high = float(run.upto[0] or 0) if run.upto else float("inf")
    return tuple(key for key in shown if low < key <= high)

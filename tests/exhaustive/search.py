"""Tries every order of what can happen to one log, and judges what is sent. Shortest histories come first.

What needs no order of its own is left out. A commit matters only once its entry is streamed or shown, so it
comes when it is needed. A transaction becomes visible when a snapshot shows it. A step of a turn
that nobody else can see is not a step here: a turn happens, is lost, or reaches a sink that forgets it. That
the job's real steps come to nothing else is what `protocol.py` tries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tests.exhaustive.engine_steps import EngineSteps, Planned, WindowState
from tests.exhaustive.logs import Change, Log

AFTER = "no READ after a newer change"
BEFORE = "no READ before what it contains"
WHOLE = "every row is delivered by completion"
Facts: TypeAlias = "tuple[str, ...]"
_MOST_WINDOWS = 2
"""As many as are in progress at once."""
Copy: TypeAlias = "tuple[tuple[int, bool] | None, ...]"
"""A consumer's copy: for each key the row's version, and whether its large value is there."""


class Place(NamedTuple):
    """Where the job and the world stand. `snapshot` is the number of a queue, sets are numbers.

    `shown` is what the last snapshot contained: later ones contain at least that. `unsettled` are the entries
    streamed that no snapshot has shown. `saved` is what a restart finds of both, as long as one may come; the
    stream's position is saved with every turn. `heard` is how far consumers have heard the stream: a sink
    that forgets a turn hears it again.
    """

    position: int
    shown: int
    unsettled: int
    snapshot: int
    saved: tuple[int, int]
    windows: tuple[WindowState, ...]
    copy: Copy
    heard: int
    faults: int


class Broken(Exception):
    """An invariant is violated."""


@dataclass
class Found:
    """What a search came to: its size, and the first violation with the steps that lead there."""

    states: int = 0
    transitions: int = 0
    violation: str = ""
    steps: list[str] = field(default_factory=list)


class Search:
    """The search over one log."""

    def __init__(
        self, engine: EngineSteps, log: Log, faults: int, *, everywhere: bool = True, told: bool = False
    ) -> None:
        self._engine, self._log, self._everywhere, self._told = engine, log, everywhere, told
        self._all = len(log.changes)
        copy: Copy = (None,) * len(log.first)
        self._start = Place(0, 0, 0, engine.first, (engine.first, 0), (), copy, 0, faults)
        # What sets of entries come to, by their number.
        self._there = {
            shown: tuple(key for key, row in enumerate(rows) if row is not None)
            for shown, rows in log.snapshots.items()
        }
        self._missed = [
            tuple(change for at, change in enumerate(log.changes) if unsettled >> at & 1)
            for unsettled in range(1 << self._all)
        ]
        self._hidden = [engine.hidden(missed) for missed in self._missed]

    def run(self) -> Found:
        """Visit every place that can be reached."""
        seen: dict[Place, tuple[Place, Facts] | None] = {self._start: None}
        waiting, found = [self._start], Found()
        for place in waiting:
            moved = False
            try:
                for step, after in self._steps(place):
                    found.transitions += 1
                    moved = moved or after.faults == place.faults or self._engine.ended(after.snapshot)
                    if after not in seen:
                        seen[after] = (place, step) if self._told else None
                        waiting.append(after)
                if not moved:
                    self._over(place)
            except Broken as broken:
                found.violation = broken.args[0]
                found.steps = [*_way(seen, place), "; ".join(broken.args[1:])]
                break
        found.states = len(seen)
        return found

    def _over(self, place: Place) -> None:
        """Nothing more happens: everything was streamed, and the table is finished."""
        if place.position < self._all or not self._engine.ended(place.snapshot):
            raise Broken(f"{WHOLE}: nothing more can happen, and the table is not finished")

    def _steps(self, place: Place) -> Iterator[tuple[Facts, Place]]:
        staged = self._staged(place)
        if place.position < self._all:
            yield from self._turn(place, staged, entry=True)
        if place.windows:
            yield from self._turn(place, staged, entry=False)
        if self._unsaved(place):
            yield ("the state is saved",), self._saved(place)
        if len(place.windows) < _MOST_WINDOWS and not self._engine.ended(place.snapshot):
            yield from self._opened(staged)
        if place.faults:
            yield from self._faults(place)

    # Turns.

    def _turn(self, place: Place, staged: Place, *, entry: bool) -> Iterator[tuple[Facts, Place]]:
        """A turn before the front window is read, and one after that."""
        if entry and staged is not place:
            yield self._entry(place), self._saved(self._streamed(place), self._entry(place))
        streamed = self._streamed(staged) if entry else staged
        said = self._entry(place) if entry else ()
        if not staged.windows or not self._engine.may_send(streamed.windows, streamed.position):
            if entry and staged is place:
                yield said, self._saved(streamed, said)
            return
        after, keys = self._sent(streamed, said)
        said = (*said, *self._reads(streamed, keys))
        yield said, self._saved(after, said)
        if place.faults and (keys or self._everywhere):
            lost = "the job dies before it knows, and the sink forgets the turn"
            yield (*said, lost), self._restarted(place, after)
            if entry and self._everywhere:
                yield (*said, f"{lost} and all but its first event"), self._restarted(place, streamed)

    def _entry(self, place: Place) -> Facts:
        at = place.position
        return (f"entry {at + 1} is streamed: {self._log.changes[at]}",) if self._told else ()

    def _reads(self, place: Place, keys: tuple[int, ...]) -> Facts:
        if not self._told:
            return ()
        rows = self._log.snapshots[place.windows[0].shown]
        names = [f"READ row {key} (version {rows[key]})" for key in keys]
        return (f"sent at {place.position}: {', '.join(names) or 'no row of a slice'}",)

    def _staged(self, place: Place) -> Place:
        """The place with the front window read: that is put off until something needs it."""
        if not place.windows or place.windows[0].staged is not None:
            return place
        front = place.windows[0]
        staged = self._engine.staged(front.plan, self._there[front.shown])
        return place._replace(windows=(front._replace(staged=staged), *place.windows[1:]))

    def _streamed(self, place: Place) -> Place:
        at = place.position
        change, bit = self._log.changes[at], 1 << at
        contained = tuple(bool(window.shown & bit) for window in place.windows)
        snapshot, windows = self._engine.streamed(place.snapshot, place.windows, change, contained)
        copy = list(place.copy)
        if change.op == "t":
            copy = [None] * len(copy)
        else:
            before = copy[change.old] if change.op != "c" else None
            there = copy[change.key]
            if before is None and there is not None and there[0] == at + 1:
                before = there  # the entry is heard again: the row has moved already
            copy[change.old] = None
            if change.op != "d":
                whole = not change.lacks or (before is not None and before[1])
                copy[change.key] = (at + 1, whole)
        after = place._replace(
            position=at + 1,
            snapshot=snapshot,
            windows=windows,
            copy=tuple(copy),
            heard=max(place.heard, at + 1),
            unsettled=place.unsettled if place.shown & bit else place.unsettled | bit,
        )
        if self._engine.ended(snapshot):
            self._finished(after, self._entry(place))
        return after

    def _sent(self, place: Place, said: Facts) -> tuple[Place, tuple[int, ...]]:
        """Send a slice. Each READ must show the row as it stands where it is sent."""
        front = place.windows[0]
        sent = self._engine.sent(place.snapshot, front, place.position)
        rows, table = self._log.snapshots[front.shown], self._log.tables[place.position]
        copy = list(place.copy)
        for key in sent.keys:
            read, now = rows[key], table[key]
            if read != now:
                contains = read is not None and read > place.position
                rule = BEFORE if contains else AFTER
                text = f"{rule}: row {key} is {_version(now)} at {place.position}, read was {_version(read)}"
                raise Broken(text, *said, *self._reads(place, sent.keys))
            copy[key] = (read or 0, True)
        windows = (sent.window, *place.windows[1:]) if sent.window else place.windows[1:]
        return place._replace(snapshot=sent.snapshot, windows=windows, copy=tuple(copy)), sent.keys

    def _finished(self, place: Place, said: Facts) -> None:
        """The copy of a finished table is the table, once consumers have heard nothing that comes again."""
        if place.position < place.heard:
            return
        table = self._log.tables[place.position]
        for key, row in enumerate(table):
            expected = None if row is None else (row, True)
            if place.copy[key] != expected:
                raise Broken(
                    f"{WHOLE}: row {key} is {_row(expected)}, consumers have {_row(place.copy[key])}",
                    *said,
                )

    def _unsaved(self, place: Place) -> bool:
        """Whether saving the state makes a difference: nobody reads it where no fault can come any more."""
        if place.windows or place.saved == (place.snapshot, place.unsettled):
            return False
        return place.faults > 0 or self._engine.ended(place.snapshot)

    def _saved(self, place: Place, said: Facts = ()) -> Place:
        if self._engine.ended(place.snapshot):
            self._finished(place, (*said, "the table is finished"))
            return place._replace(saved=(place.snapshot, 0), unsettled=0, shown=0, windows=(), faults=0)
        if not place.faults:
            return place
        return place._replace(saved=(place.snapshot, place.unsettled))

    def _restarted(self, place: Place, sent: Place) -> Place:
        snapshot, unsettled = place.saved
        faults = place.faults - 1
        return place._replace(
            snapshot=snapshot,
            unsettled=unsettled,
            saved=place.saved if faults else self._start.saved,
            windows=(),
            copy=sent.copy,
            heard=sent.heard,
            faults=faults,
        )

    # Windows.

    def _opened(self, place: Place) -> Iterator[tuple[Facts, Place]]:
        missed = self._missed[place.unsettled]
        known = (
            self._engine.planned(place.snapshot, place.windows, (), missed)
            if self._engine.measured(place.snapshot)
            else None
        )
        for shown in self._log.snapshots:
            if shown & place.shown == place.shown:
                yield from self._look(place, shown, missed, known)

    def _look(
        self, place: Place, shown: int, missed: tuple[Change, ...], known: Planned | None
    ) -> Iterator[tuple[Facts, Place]]:
        """The queue is looked at by a snapshot: the table is measured, a window opens or is refused.

        `known` is what becomes of a measured table, which no snapshot changes.
        """
        engine = self._engine
        contents = _contents(shown) if self._told else ""
        if known is None:
            there = self._there[shown]
            seen = engine.planned(place.snapshot, place.windows, there, missed, opens=False)
            yield (f"the table is measured; {contents}",), self._measured(place, shown, seen.snapshot)
            known = engine.planned(place.snapshot, place.windows, there, missed)
        if known.plan is None:
            if known.snapshot != place.snapshot:
                yield ("the queue is looked at",), self._measured(place, shown, known.snapshot)
            return
        unsettled = place.unsettled & ~shown
        hidden = self._hidden[unsettled]
        window = WindowState(known.plan, shown, hidden, hidden, None, 0)
        windows = (*place.windows, window)
        after = place._replace(shown=shown, unsettled=unsettled, snapshot=known.snapshot, windows=windows)
        yield (self._opening(known.plan, contents) if self._told else ()), after

    def _measured(self, place: Place, shown: int, snapshot: int) -> Place:
        after = place._replace(shown=shown, snapshot=snapshot)
        if self._engine.ended(snapshot):
            self._finished(after, ("the table is finished",))
        return after

    def _opening(self, plan: int, contents: str) -> Facts:
        what = " and ".join(
            f"rows {', '.join(str(key[0]) for key in run.keys)} again"
            if run.keys
            else f"({run.after[0] if run.after else ''}, {run.upto[0] if run.upto else ''}]"
            for run in self._engine.runs(plan)
        )
        return (f"a window opens over {what}; {contents}",)

    # Faults.

    def _faults(self, place: Place) -> Iterator[tuple[Facts, Place]]:
        """Faults everywhere, or where they leave a trace: once a slice was sent."""
        begun = bool(place.windows) and place.windows[0].sent > 0
        if begun or (
            self._everywhere and (place.windows or place.saved != (place.snapshot, place.unsettled))
        ):
            yield ("the job dies and starts again",), self._restarted(place, place)
        for at in range(len(place.windows)) if self._everywhere else ():
            if place.windows[at].staged is None:
                windows = self._engine.failed(place.windows, at)
                after = place._replace(windows=windows, faults=place.faults - 1)
                yield (f"window {at + 1} can't be read",), after


def _way(seen: dict[Place, tuple[Place, Facts] | None], place: Place) -> list[str]:
    steps: list[Facts] = []
    while (before := seen[place]) is not None:
        place, step = before
        steps.append(step)
    return ["; ".join(step) for step in reversed(steps)]


def _version(row: int | None) -> str:
    return "gone" if row is None else f"version {row}"


def _contents(shown: int) -> str:
    entries = [str(at + 1) for at in range(shown.bit_length()) if shown >> at & 1]
    return f"snapshots show {'entries ' + ', '.join(entries) if entries else 'no entry'}"


def _row(row: tuple[int, bool] | None) -> str:
    if row is None:
        return "gone"
    return f"version {row[0]}{'' if row[1] else ' without its large value'}"

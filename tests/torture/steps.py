"""Wraps the ports of a job with crashes at named steps, and delays in between. The job is not aware of it.

Owns where the named steps of a turn are, and what a crash is: `SIGKILL`, or `Dropped`, an exception that
nothing in the product catches. After that everything in memory is lost, and the job restarts from what was
saved.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from engine.errors import SinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from engine.job.parts import JobParts
    from engine.job.saved.state import State
    from engine.ports.log import LogReader
    from engine.ports.source import OpenWindow
    from tests.torture.journal import Journal
    from tests.torture.script import Fuse


_OPENED = ("open_log", True)
"""A log that is open but not yet handed over: only the end of the process can close it."""


class Dropped(BaseException):
    """The job was dropped here."""


@dataclass(slots=True)
class Fuses:
    """The blows still to come, in sequence. `drop` requests one at the next step.

    `sleep` returns once another job has taken over.
    """

    waiting: list[Fuse]
    journal: Journal
    sleep: Callable[[], None]
    passed: int = 0
    drop: bool = False

    def passing(self, step: str, *, after: bool) -> None:
        """Note that a step is passed; crash if the next fuse is there."""
        if self.drop and (step, after) != _OPENED:
            self.drop = False
            self._blow(step, after=after)
        if not self.waiting or (self.waiting[0].step, self.waiting[0].after) != (step, after):
            return
        self.passed += 1
        if self.passed > self.waiting[0].passes:
            fuse = self.waiting.pop(0)
            self.passed = 0
            self.journal.note("fuse")
            if fuse.sleeps:
                self.journal.note("sleep", step=step, after=after)
                self.sleep()
                return
            self._blow(step, after=after, hard=fuse.hard or (step, after) == _OPENED)

    def _blow(self, step: str, *, after: bool, hard: bool = False) -> None:
        self.journal.note("crash", step=step, after=after, hard=hard)
        if hard:
            os.kill(os.getpid(), signal.SIGKILL)
        raise Dropped(step)


class Passing:
    """Forwards every call. Calls in `steps` are steps, under their name there."""

    def __init__(self, behind: Any, fuses: Fuses, steps: Mapping[str, str]) -> None:
        self._behind, self._fuses, self._steps = behind, fuses, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        step = self._steps.get(name)
        return found if step is None else self._stepped(step, found)

    def _stepped(self, step: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **more: Any) -> Any:
            self._fuses.passing(step, after=False)
            result = call(*args, **more)
            self._fuses.passing(step, after=True)
            return result

        return stepped


@dataclass(slots=True)
class Lull:
    """Holds something back now and then, for up to `longest_s`, and while the file `gate` exists."""

    random: Random
    longest_s: float
    gate: Path
    until_s: float = 0.0
    next_s: float = 0.0

    def holds(self) -> bool:
        """Whether it is on."""
        now = time.monotonic()
        if self.longest_s and now >= self.next_s:
            self.until_s = now + self.random.uniform(0, self.longest_s)
            self.next_s = self.until_s + self.random.uniform(0, 2 * self.longest_s)
        return now < self.until_s or self.gate.exists()

    def pass_slowly(self) -> None:
        """Let the caller through late."""
        time.sleep(self.random.uniform(0, self.longest_s))
        while self.gate.exists():
            time.sleep(0.01)


@dataclass(slots=True)
class SteppedLog:
    """A log reader. Taking a span with entries is a step."""

    behind: LogReader
    fuses: Fuses
    lull: Lull

    def take(self, timeout_s: float) -> Any:
        """Take a span, unless the log is to appear slow."""
        if self.lull.holds():
            if self.fuses.drop:
                self.fuses.passing("take", after=False)
            time.sleep(min(timeout_s, 0.01))
            return None
        self.fuses.passing("take", after=False)
        span = self.behind.take(timeout_s)
        if span is not None and span.entries:
            self.fuses.passing("take", after=True)
        return span

    def acknowledge(self, position: Any) -> None:
        """A step."""
        self.fuses.passing("acknowledge", after=False)
        self.behind.acknowledge(position)
        self.fuses.passing("acknowledge", after=True)

    def wake(self) -> None:
        """No step."""
        self.behind.wake()

    def hurry(self, *, on: bool) -> None:
        """No step."""
        self.behind.hurry(on=on)

    def limit(self, share: float) -> None:
        """No step."""
        self.behind.limit(share)

    def close(self) -> None:
        """No step."""
        self.behind.close()


@dataclass(slots=True)
class SteppedWindow:
    """A window. Its steps are that all rows are read, and that its watermark is reached."""

    behind: OpenWindow
    fuses: Fuses
    lull: Lull
    among: set[int]
    id: str = ""
    read: bool = False
    told: bool = False

    @property
    def superseded(self) -> Any:
        """No step."""
        return self.behind.superseded

    def poll(self) -> Any:
        """The rows, unless reading is to appear slow."""
        staged = self.behind.poll()
        if staged is None or self.lull.holds():
            return None
        if not self.read:
            self.fuses.passing("poll", after=False)
            self.read = True
            self.fuses.passing("poll", after=True)
        return staged

    def watch(self, changed: Any) -> None:
        """No step."""
        self.behind.watch(changed)

    def reached(self, position: Any) -> bool:
        """Whether the watermark is reached."""
        if not self.behind.reached(position):
            return False
        if not self.told:
            self.fuses.passing("reached", after=False)
            self.told = True
            self.fuses.passing("reached", after=True)
        return True

    def close(self) -> None:
        """No step, but noted, to show whether a blow struck an open window."""
        self.among.discard(id(self))
        self.fuses.journal.note("closed", id=self.id)
        self.behind.close()


class SteppedSource(Passing):
    """A source whose logs and windows have steps."""

    def __init__(self, behind: Any, fuses: Fuses, lulls: Lulls) -> None:
        super().__init__(behind, fuses, {"encode": "encode"})
        self._lulls = lulls
        self._open: set[int] = set()

    def open_log(self, state: State) -> Any:
        """A step. Notes where the log is opened."""
        self._fuses.passing("open_log", after=False)
        state, log = self._behind.open_log(state)
        self._fuses.journal.note("opened", position=list(state.position.order) if state.position else None)
        self._fuses.passing("open_log", after=True)
        return state, SteppedLog(log, self._fuses, self._lulls.of("take"))

    def open_window(self, window: Any) -> SteppedWindow:
        """A step. Notes which rows the window reads, and how many others are open."""
        self._fuses.passing("open_window", after=False)
        opened = self._behind.open_window(window)
        while opened.superseded is None:
            opened.poll()  # what is aimed at a window comes once it is open
            time.sleep(0.001)
        runs = [
            [str(run.target.collection), run.after, run.upto, run.target.surrogate_key] for run in window.runs
        ]
        self._fuses.journal.note("window", id=window.id, runs=runs, beside=len(self._open))
        stepped = SteppedWindow(opened, self._fuses, self._lulls.of("poll"), self._open, window.id)
        self._open.add(id(stepped))
        self._fuses.passing("open_window", after=True)
        return stepped


class SteppedSink(Passing):
    """A sink that notes what it has committed."""

    def __init__(self, behind: Any, fuses: Fuses, turns: Turns, lull: Lull) -> None:
        super().__init__(behind, fuses, {"writer": "writer"})
        self._turns, self._lull = turns, lull

    def commit(self, turn: int, parts: Any) -> None:
        """A step. A gate may hold it back if there are events."""
        if parts and self._lull.gate.exists():
            self._fuses.journal.note("waits", turn=turn)
        if parts:
            self._lull.pass_slowly()
        self._fuses.passing("commit", after=False)
        try:
            self._behind.commit(turn, parts)
        except SinkError:
            self._fuses.journal.note("unsent", turn=turn)
            raise
        self._turns.committed = turn
        self._fuses.journal.note("committed", turn=turn)
        self._fuses.passing("commit", after=True)


class SteppedDesk(Passing):
    """A desk that notes when it has given its answers."""

    def __init__(self, behind: Any, fuses: Fuses, turns: Turns) -> None:
        super().__init__(behind, fuses, {})
        self._turns = turns

    def commands(self, rows: Sequence[Any], *more: Any) -> Any:
        """A step, if there are signals."""
        if rows:
            self._fuses.passing("commands", after=False)
        found = self._behind.commands(rows, *more)
        if rows:
            self._fuses.passing("commands", after=True)
        return found

    def tell(self, *args: Any) -> None:
        """A step."""
        self._fuses.passing("tell", after=False)
        self._behind.tell(*args)
        self._fuses.journal.note("told", turn=self._turns.committed)
        self._fuses.passing("tell", after=True)


@dataclass(slots=True)
class Turns:
    """The last committed turn."""

    committed: int = 0


@dataclass(frozen=True, slots=True)
class Lulls:
    """The longest delays, in seconds. Gates are files `hold-…` in the directory."""

    longest_s: Mapping[str, float]
    random: Random
    directory: Path

    def of(self, what: str) -> Lull:
        """A new lull for this."""
        return Lull(self.random, self.longest_s.get(what, 0.0), self.directory / f"hold-{what}")


def stepped(job_parts: JobParts, fuses: Fuses, lulls: Lulls, turns: Turns) -> JobParts:
    """The job's parts, with steps."""
    source: Any = SteppedSource(job_parts.source, fuses, lulls)
    sink: Any = SteppedSink(job_parts.sink, fuses, turns, lulls.of("commit"))
    store: Any = Passing(job_parts.store, fuses, {"save_pending": "save_pending", "promote": "promote"})
    desk: Any = SteppedDesk(job_parts.desk, fuses, turns)
    return replace(job_parts, source=source, sink=sink, store=store, desk=desk)

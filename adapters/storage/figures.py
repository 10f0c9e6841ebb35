"""The figures file: how a running job does, beside its state. People and tools read it, also after the job.

The job writes it every few seconds in a thread of its own, so no turn waits for it. It has what the state
lacks: rates, lag, and what the server keeps. Losing it loses nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from adapters.system import start_thread
from engine.errors import LeaseLost, StateError
from engine.saved import Natural  # noqa: TC001  the form is read at run time

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.storage.directory import Storage
    from adapters.system import StartBeside
    from engine.job.reports.observation import Observation
    from engine.model import Position

FILE: Final = "figures.json"
_EVERY_S: Final = 5.0
_log = logging.getLogger("adapters")


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How a job does at `at_s`, in Unix seconds, after turn `turn`.

    `events` counts those sent since the job started; `events_per_s` is their rate since the figures before.
    `lag_s` is the age of the last commit when it was sent. `kept_bytes` is the log that the server keeps for
    the job; None if the source does not know. `position` is in the database's own format.
    """

    at_s: float
    turn: Natural
    position: str = ""
    events: Natural = 0
    events_per_s: float = 0.0
    lag_s: float = 0.0
    kept_bytes: Natural | None = None


class FiguresFile:
    """Writes a job's figures; give it every observation. `check` raises LeaseLost once others may write."""

    def __init__(
        self,
        storage: Storage,
        show: Callable[[Position], str],
        kept: Callable[[], int | None],
        check: Callable[[], None] = lambda: None,
        start: StartBeside = start_thread,
    ) -> None:
        self._storage, self._show, self._kept, self._check = storage, show, kept, check
        self._seen: Observation | None = None
        self._events = 0
        self._written: tuple[Observation, int] | None = None
        self._stop = threading.Event()
        self._thread = start(self._keep_writing, "tidemark-figures")

    def __call__(self, seen: Observation) -> None:
        """Note a turn."""
        self._events += seen.events
        self._seen = seen

    def close(self) -> None:
        """Write the last figures."""
        self._stop.set()
        self._thread.join()
        self.write()

    def _keep_writing(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self.write()

    def write(self) -> None:
        """Write the figures if there was a turn since the last time."""
        seen, events = self._seen, self._events
        if seen is None or (self._written and self._written[0] is seen):
            return
        try:
            self._check()
            self._storage.create(
                FILE, msgspec.json.format(msgspec.json.encode(self._of(seen, events))), forced=False
            )
        except (LeaseLost, StateError) as error:
            _log.debug("the figures were not written: %s", error)
            return
        self._written = seen, events

    def _of(self, seen: Observation, events: int) -> Figures:
        rate = 0.0
        if self._written:
            before, sent = self._written
            rate = (events - sent) / max(seen.clock_s - before.clock_s, 1e-3)
        position = seen.state.position
        return Figures(
            at_s=seen.now_s,
            turn=seen.state.turn,
            position=self._show(position) if position else "",
            events=events,
            events_per_s=round(rate, 1),
            lag_s=round(seen.lag_s, 3),
            kept_bytes=self._kept(),
        )

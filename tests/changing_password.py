"""A password that changes again and again while a job streams and takes snapshots, on any database."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.config import parse
from engine.config.text.references import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.config.settings import Settings
    from engine.job.loop import Job

CHANGES = 2


def by_references(given: Mapping[str, str]) -> Settings:
    """The settings of properties that hold references."""
    found, unresolved = resolve(given, {})
    assert not unresolved
    return parse(found)


@dataclass
class Load:
    """Signals, rows and passwords, in turns: a password changes once the row before it has come.

    `write` asks for a snapshot and inserts the row of a number, `change` gives another password, `streamed`
    are the numbers of the rows that have come. `rows` are there from the beginning, numbered from 0.
    """

    rows: int
    write: Callable[[int], object]
    change: Callable[[], object]
    streamed: Callable[[], set[int]]
    changes: int = 0

    def drive(self, job: Job, most_s: float = 120.0) -> None:
        """Run the job until the load has ended, all rows have come, and all snapshots are taken."""
        stop = threading.Event()
        loading = threading.Thread(target=self._run, args=[stop])
        bound = threading.Timer(most_s, stop.set)
        loading.start()
        bound.start()
        try:
            job.run(lambda: stop.is_set() or (not loading.is_alive() and self._all_came(job)))
        finally:
            stop.set()
            bound.cancel()
            loading.join()

    def _all_came(self, job: Job) -> bool:
        return len(self.streamed()) >= self.rows and not job.state.snapshot.tables

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.write(self.rows)
            self.rows += 1
            while self.rows - 1 not in self.streamed():
                if stop.wait(0.2):
                    return
            if self.changes == CHANGES:
                return
            self.changes += 1
            self.change()

    def check(self) -> None:
        """Check that every password came into use, and that no row is missing."""
        assert self.changes == CHANGES
        assert self.streamed() == set(range(self.rows))

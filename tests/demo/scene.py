"""What happens in the demo, step by step, and what came of it.

Owns the order: stream, write, signal, snapshot, stop writing, drain, stop, replay, compare. Every
wait watches the job and the writers, and ends with what they died of.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.job.saved.overview import of_entries
from tests.demo.tidemark import PREFIX, JobFailed, Tidemark, write_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.job.saved.state import State
    from tests import replay
    from tests.demo.display import Display
    from tests.demo.load import Load
    from tests.demo.roads import Road
    from tests.demo.shop import Shop
    from tests.demo.tidemark import Folder
    from tests.demo.users import Users

_PAGE = {"tidemark.http.port": "0", "tidemark.http.control": "true"}
_POLL_S = 0.2
_START_TIMEOUT_S = 300.0  # the first start may have to fetch a driver
_STEP_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demo found out."""

    tables: tuple[replay.Compared, ...]
    figures: replay.Figures
    rows_read: int
    snapshot_s: float
    writes_per_s: float
    units: str = "rows"

    @property
    def equal(self) -> bool:
        """Whether every table was replayed exactly, and every one of them had been read."""
        return bool(self.rows_read) and all(table.equal for table in self.tables)

    def __str__(self) -> str:
        reads = self.figures.operations["r"]
        tables = "; ".join(
            f"{'.'.join(table.table)} {table.source.rows:,} {self.units}, md5 {table.source.digest}"
            + (
                ""
                if table.equal
                else f" against {table.replayed.rows:,} {self.units}, md5 {table.replayed.digest}"
            )
            for table in self.tables
        )
        events = (
            f"{self.figures.events:,} events, {reads:,} of them READs,"
            f" {self.rows_read - reads:,} {self.units} read were superseded;"
        )
        return (
            f"{'EQUAL' if self.equal else 'NOT EQUAL'}: {tables};"
            f"{f' {events}' if self.figures.events else ''}"
            f" snapshot {self.rows_read / self.snapshot_s:,.0f} {self.units}/s for {self.snapshot_s:.1f} s"
            f" under {self.writes_per_s:,.0f} writes/s"
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """The demo in a fresh shop; `initial`: with the snapshot before the log instead of a signal's."""

    shop: Shop
    folder: Folder
    load: Load
    display: Display
    road: Road
    initial: bool = False

    def play(self) -> Verdict:
        """Everything; raises JobFailed when the job can't do its part."""
        say, load = self.display.say, self.load
        say(f"making {load.orders:,} orders and {load.stock:,} articles in stock")
        rights = self.shop.prepare(load)
        mode = "initial" if self.initial else "never"
        source = self.shop.properties() | _PAGE
        write_job(self.folder, source, self.road.properties(self.folder), mode=mode)
        say(f"tidemark run {self.folder.properties}")
        say(f"  {rights}")
        with Tidemark(self.folder) as job:
            rows_read, snapshot_s, writes_per_s = self._stream(job)
            say(f"SIGTERM: the job ended cleanly after {job.stop():.1f} s")
        return self._compared(rows_read, snapshot_s, writes_per_s)

    def _stream(self, job: Tidemark) -> tuple[int, float, float]:
        """From an idle stream to a drained one; rows read, seconds of the snapshot, writes per second."""
        load = self.load
        self._wait(job, lambda: self.shop.streams(job.state()), "the stream is not up", _START_TIMEOUT_S)
        for line in job.said("page is at "):
            self.display.say(f"the {line.partition(' the ')[2]}")
        with self.shop.users(load) as users:
            begun_s = time.monotonic()
            self.display.say(f"streaming; {load.writes_per_s:,.0f} writes/s begin")
            if not self.initial:
                time.sleep(min(2.0, load.least_s or 2.0))
            rows_read, snapshot_s = self._snapshot(job, users)
            self._wait(job, lambda: time.monotonic() - begun_s >= load.least_s, "", load.least_s + 1)
            written = users.stop()
            wrote_s = time.monotonic() - begun_s
        self.display.say(f"the writers have stopped after {written:,} {self.shop.units} written")
        self._drain(job)
        return rows_read, snapshot_s, written / wrote_s

    def _snapshot(self, job: Tidemark, users: Users) -> tuple[int, float]:
        """Ask for the snapshot, if need be, and watch it to its end; rows read, and the seconds it took."""
        data = {"type": "incremental", "data-collections": list(self.shop.names)}
        since_s = time.monotonic()
        initial = "the log waits while the tables are read as they were where it begins"
        self.display.say(initial if self.initial else self.road.ask(self.shop, data))
        with self.shop.lag() as lag, self.display:
            while not self._finished(job):
                users.check()
                self._show(job, lag, users)
                time.sleep(_POLL_S)
        snapshot_s = time.monotonic() - since_s
        for line in job.said("completed: "):
            self.display.say(f"  {line.partition(' signals: ')[2] or line}")
        return _rows_read(job), snapshot_s

    def _finished(self, job: Tidemark) -> bool:
        """Whether each table has been answered to the end; raises if one was refused."""
        job.check()
        answers = job.said(" signals: ")
        refused = [line for line in answers if " rejected: " in line or " failed: " in line]
        if refused:
            raise JobFailed(f"the snapshot was refused\n{refused[0]}")
        state = job.state()
        taken = state is not None and state.snapshot.next_ticket > len(self.shop.names)
        # The answers follow the state: they are given once it is saved.
        answered = len(job.said("completed: ")) >= len(self.shop.names)
        return taken and answered and state is not None and not state.snapshot.tables

    def _show(self, job: Tidemark, lag: Callable[[State | None], float], users: Users) -> None:
        state = job.state()
        tables = state.snapshot.tables if state else ()
        note = f"lag {lag(state):.1f} s, {users.written:,} {self.shop.units} written meanwhile"
        self.display.show(of_entries(tables, time.time()), note)

    def _drain(self, job: Tidemark) -> None:
        """Wait until the job has confirmed everything written."""
        end, reached = self.shop.end()
        since_s = time.monotonic()
        self._wait(job, lambda: reached(job.state()), "the stream has not drained", _STEP_TIMEOUT_S)
        self.display.say(f"everything up to {end} is sent, {time.monotonic() - since_s:.1f} s later")

    def _compared(self, rows_read: int, snapshot_s: float, writes_per_s: float) -> Verdict:
        topics = [f"{PREFIX}.{name}" for name in self.shop.names]
        if collected := self.road.collect(self.folder, topics):
            self.display.say(collected)
        figures, compared, wrong = self.road.compared(self.shop, self.folder, self.display.say)
        for line in wrong:
            self.display.say(f"  {line}")
        return Verdict(tuple(compared), figures, rows_read, snapshot_s, writes_per_s, self.shop.units)

    def _wait(self, job: Tidemark, condition: Callable[[], bool], otherwise: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            job.check()
            if time.monotonic() > deadline:
                raise JobFailed(f"{otherwise} within {timeout_s:g} s\n{job.last_lines()}")
            time.sleep(_POLL_S)


def _rows_read(job: Tidemark) -> int:
    """The rows that the answers say were read."""
    said = (line.partition("completed: ")[2].split()[0] for line in job.said("completed: "))
    return sum(int(number.replace(",", "")) for number in said)

"""What happens in the demo, step by step, and what came of it.

Owns the order: stream, write, signal, snapshot, stop writing, drain, stop, replay, compare. Every
wait watches the job and the writers, and ends with what they died of.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.progress import table_report
from tests import replay
from tests.demo.display import Lag, Progress
from tests.demo.source import ORDERS, SIGNALS, SLOT, STOCK, TABLES, fill, grant
from tests.demo.tidemark import PREFIX, JobFailed, Tidemark, write_properties
from tests.demo.writer import Writers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.demo.display import Display
    from tests.demo.roads import Road
    from tests.demo.tidemark import Folder
    from tests.servers.postgres import Database

_POLL_S = 0.2
_START_TIMEOUT_S = 300.0  # the first start may have to fetch a driver
_STEP_TIMEOUT_S = 60.0
_LOG_ROW = (
    f"INSERT INTO {SIGNALS} VALUES ('demo-end', 'log', '{{\"message\": \"the writers have stopped\"}}')"
)


@dataclass(frozen=True, slots=True)
class Load:
    """How much there is to read and to write; `least_s`: how long writing goes on at least."""

    orders: int
    stock: int
    writes_per_s: float
    least_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demo found out."""

    tables: tuple[replay.Compared, ...]
    figures: replay.Figures
    rows_read: int
    snapshot_s: float
    writes_per_s: float

    @property
    def equal(self) -> bool:
        """Whether every table was replayed exactly, and every one of them had been read."""
        return bool(self.rows_read) and all(table.equal for table in self.tables)

    def __str__(self) -> str:
        reads = self.figures.operations["r"]
        tables = "; ".join(
            f"{'.'.join(table.table)} {table.source.rows:,} rows, md5 {table.source.digest}"
            + ("" if table.equal else f" against {table.replayed.rows:,} rows, md5 {table.replayed.digest}")
            for table in self.tables
        )
        return (
            f"{'EQUAL' if self.equal else 'NOT EQUAL'}: {tables}; "
            f"{self.figures.events:,} events, {reads:,} of them READs,"
            f" {self.rows_read - reads:,} rows read were superseded;"
            f" snapshot {self.rows_read / self.snapshot_s:,.0f} rows/s for {self.snapshot_s:.1f} s"
            f" under {self.writes_per_s:,.0f} writes/s"
        )


@dataclass(frozen=True, slots=True)
class Scene:
    """The demo on a fresh database; `initial`: with the snapshot before the log instead of a signal's."""

    database: Database
    folder: Folder
    load: Load
    display: Display
    road: Road
    initial: bool = False

    def play(self) -> Verdict:
        """Everything; raises JobFailed when the job can't do its part."""
        say, load = self.display.say, self.load
        say(f"making {load.orders:,} orders and {load.stock:,} articles in stock")
        fill(self.database, orders=load.orders, stock=load.stock)
        mode = "initial" if self.initial else "never"
        login, sink = grant(self.database), self.road.properties(self.folder)
        write_properties(self.folder, self.database, login, sink, mode=mode)
        say(f"tidemark run {self.folder.properties}")
        say("  as a role with LOGIN, REPLICATION, SELECT on the tables, INSERT on the signal table")
        with Tidemark(self.folder) as job:
            rows_read, snapshot_s, writes_per_s = self._stream(job)
            say(f"SIGTERM: the job ended cleanly after {job.stop():.1f} s")
        return self._compared(rows_read, snapshot_s, writes_per_s)

    def _stream(self, job: Tidemark) -> tuple[int, float, float]:
        """From an idle stream to a drained one; rows read, seconds of the snapshot, writes per second."""
        load = self.load
        self._wait(job, self._slot_active, "the stream is not up", _START_TIMEOUT_S)
        writers = Writers(self.database, orders=load.orders, stock=load.stock, per_s=load.writes_per_s)
        with writers:
            begun_s = time.monotonic()
            self.display.say(f"streaming; {load.writes_per_s:,.0f} writes/s begin")
            if not self.initial:
                time.sleep(min(2.0, load.least_s or 2.0))
            rows_read, snapshot_s = self._snapshot(job, writers)
            self._wait(job, lambda: time.monotonic() - begun_s >= load.least_s, "", load.least_s + 1)
            written = writers.stop()
            wrote_s = time.monotonic() - begun_s
        self.display.say(f"the writers have stopped after {written:,} rows written")
        self._drain(job)
        return rows_read, snapshot_s, written / wrote_s

    def _snapshot(self, job: Tidemark, writers: Writers) -> tuple[int, float]:
        """Ask for the snapshot, if need be, and watch it to its end; rows read, and the seconds it took."""
        names = [".".join(table) for table in TABLES]
        data = {"type": "incremental", "data-collections": names}
        since_s = time.monotonic()
        initial = "the log waits while the tables are read as they were where it begins"
        self.display.say(initial if self.initial else self.road.ask(self.database, data))
        with self.database.connect() as connection, self.display:
            lag = Lag(connection, SLOT)
            while not self._finished(job):
                writers.check()
                self._show(job, lag, writers)
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
        taken = state is not None and state.snapshot.next_ticket > len(TABLES)
        return taken and state is not None and not state.snapshot.tables

    def _show(self, job: Tidemark, lag: Lag, writers: Writers) -> None:
        state = job.state()
        report = table_report(state.snapshot.tables, time.time()) if state else None
        self.display.show(Progress(report, lag.seconds(), writers.written))

    def _slot_active(self) -> bool:
        query = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
        return self._value(query, SLOT) is True

    def _drain(self, job: Tidemark) -> None:
        """Wait until the job has confirmed everything written; the log row ends the stream visibly."""
        end = self._value("SELECT pg_current_wal_insert_lsn()::text")
        with self.database.connect() as connection:
            connection.execute(_LOG_ROW.encode())
        query = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s"
        since_s = time.monotonic()
        self._wait(
            job, lambda: self._value(query, end, SLOT) is True, "the stream has not drained", _STEP_TIMEOUT_S
        )
        self.display.say(f"everything up to {end} is sent, {time.monotonic() - since_s:.1f} s later")

    def _compared(self, rows_read: int, snapshot_s: float, writes_per_s: float) -> Verdict:
        if collected := self.road.collect(self.folder, [f"{PREFIX}.{'.'.join(table)}" for table in TABLES]):
            self.display.say(collected)
        self.display.say(f"replaying {self.folder.events} and comparing")
        with self.database.connect(options="-c timezone=UTC -c work_mem=256MB") as connection:
            shapes = {
                f"{PREFIX}.{'.'.join(table)}": replay.shape_of(connection, table) for table in (ORDERS, STOCK)
            }
            figures = replay.replay(connection, self.folder.events, shapes)
            compared = tuple(replay.compare(connection, table) for table in TABLES)
            for table in compared:
                for line in [] if table.equal else replay.differences(connection, table.table):
                    self.display.say(f"  {'.'.join(table.table)}: {line}")
        return Verdict(compared, figures, rows_read, snapshot_s, writes_per_s)

    def _value(self, query: str, *values: object) -> object:
        with self.database.connect() as connection:
            row = connection.execute(query.encode(), values).fetchone()
        return row[0] if row else None

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

"""Whoever wants to change a table that a window reads: let through in a second, not ahead of it for ever."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from adapters.postgres.snapshot.chunk_reader import ChunkReader
from adapters.sinks.files import FilesSink
from engine.snapshot import failure_policy
from tests.driven import SIGNAL_TABLE, Driven, driven, replayed_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
ROWS = 8_000
CHUNKS = {"incremental__snapshot__chunk__size": "100", "tidemark__window__local__rows": "1000000"}


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE t (id int PRIMARY KEY, b int)",
        f"INSERT INTO t SELECT g, g FROM generate_series(1, {ROWS}) g",
    )
    return database


def slow_readers(monkeypatch: pytest.MonkeyPatch, row_s: float) -> None:
    """Each row takes so long to be read."""
    read = ChunkReader.read

    def slowly(self: ChunkReader, window_id: str, reads: Any, *more: Any, **named: Any) -> Any:
        time.sleep(row_s * 100 * sum(read.run.chunks for read in reads))
        return read(self, window_id, reads, *more, **named)

    monkeypatch.setattr(ChunkReader, "read", slowly)


@contextmanager
def asking(database: Database, every_s: float) -> Iterator[list[float]]:
    """Somebody who asks for the table again and again; gives how long each time took."""
    took: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        with database.connect(autocommit=False) as connection:
            connection.execute("SET lock_timeout = '30s'")
            connection.commit()
            while not stop.wait(every_s):
                begun = time.monotonic()
                connection.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
                connection.commit()
                took.append(time.monotonic() - begun)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield took
    finally:
        stop.set()
        thread.join(35)


class TestShrinking:
    """A table that somebody asks for every 1.5 s, and of which a window takes longer to read."""

    def finishes(self, table: Database, tmp_path: Any, spark: Any, within_s: float) -> bool:
        with driven(table, tmp_path, spark, **CHUNKS) as job, asking(table, 1.5) as took:
            with table.connect() as connection:
                connection.execute(SNAPSHOT)
            until_s = time.monotonic() + within_s
            while time.monotonic() < until_s and not job.answered("finished"):
                job.job.turn()
            if job.answered("finished"):
                assert set(replayed_rows(job.events("t"))) == set(range(1, ROWS + 1))
            assert took
            return bool(job.answered("finished"))

    @pytest.mark.thorough
    def test_the_table_is_read_to_its_end(self, table, tmp_path, spark, monkeypatch, caplog):
        slow_readers(monkeypatch, 0.0005)

        assert self.finishes(table, tmp_path, spark, 90.0)
        assert "rows at once: another session waited" in caplog.text

    def test_a_table_of_which_no_chunk_can_be_read_fails_with_that_reason(
        self, table, tmp_path, spark, monkeypatch
    ):
        slow_readers(monkeypatch, 0.05)
        monkeypatch.setattr(failure_policy, "_IN_VAIN", 3)
        with driven(table, tmp_path, spark, **CHUNKS) as job, asking(table, 0.2):
            with table.connect() as connection:
                connection.execute(SNAPSHOT)
            job.until_answered("failed")

            assert "another session waited to change a table" in job.answered("failed")[0].text
            assert "before a chunk was read" in job.answered("failed")[0].text


class Hanging:
    """A sink whose commits wait while it is not `free`, those of them that `concerns` is true for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.concerns: Callable[[], bool] = lambda: True
        self.free, self.entered = threading.Event(), threading.Event()
        self.free.set()
        commit = FilesSink.commit

        def committed(sink: FilesSink, turn: int, parts: Any) -> None:
            if not self.free.is_set() and self.concerns():
                self.entered.set()
                assert self.free.wait(60)
            commit(sink, turn, parts)

        monkeypatch.setattr(FilesSink, "commit", committed)


@contextmanager
def turning(job: Driven) -> Iterator[None]:
    """The job turns in a thread of its own."""
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            job.job.turn()

    thread = threading.Thread(target=turn, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(70)


def let_through_s(table: Database, patience_s: float = 8.0) -> float | None:
    """How long an ALTER TABLE takes; None if that is too long."""
    begun = time.monotonic()
    with table.connect() as connection:
        connection.execute(f"SET lock_timeout = '{int(patience_s * 1000)}'".encode())
        try:
            connection.execute("ALTER TABLE t ALTER b TYPE bigint")
        except psycopg.errors.LockNotAvailable:
            return None
    return time.monotonic() - begun


class TestHangingSink:
    """A turn stands in a commit for as long as it likes."""

    @pytest.mark.parametrize("reading", [True, False], ids=["while rows are read", "while rows go out"])
    def test_ddl_waits_for_a_second_all_the_same(self, table, tmp_path, spark, monkeypatch, reading):
        sink = Hanging(monkeypatch)
        if reading:
            slow_readers(monkeypatch, 0.0005)
        more = {**CHUNKS, "tidemark__window__max__chunks": "1000"}
        with driven(table, tmp_path, spark, **more) as job, table.connect() as connection:
            if not reading:
                # In slices of one run each: once the first of them is sent, others wait for their turn.
                job.job._windows._emitter._slices.most_bytes = 1
                sink.concerns = lambda: job.job._windows.in_progress.any_waits
            connection.execute(SNAPSHOT)
            if reading:
                job.until(lambda: job.job.window is not None)
            sink.free.clear()
            connection.execute("INSERT INTO signals VALUES ('x', 'log', '{}')")
            with turning(job):
                assert sink.entered.wait(10)
                took_s = let_through_s(table)
                sink.free.set()
            job.until_answered("finished")
            job.until_drained(table)

            assert took_s is not None
            assert took_s < 6.0  # a second, and what a loaded machine adds
            assert set(replayed_rows(job.events("t"))) == set(range(1, ROWS + 1))

    def test_so_it_does_beside_an_initial_snapshot(self, table, tmp_path, spark, monkeypatch):
        sink = Hanging(monkeypatch)
        more = {**CHUNKS, "snapshot__mode": "initial", "tidemark__window__max__chunks": "10"}
        with driven(table, tmp_path, spark, **more) as job:
            job.until(lambda: job.events("t"))
            sink.free.clear()
            with turning(job):
                assert sink.entered.wait(10)
                took_s = let_through_s(table)
                sink.free.set()
            job.until(lambda: not job.job.state.snapshot.tables)

            assert took_s is not None
            assert took_s < 6.0  # a second, and what a loaded machine adds
            assert set(replayed_rows(job.events("t"))) == set(range(1, ROWS + 1))

"""Small windows are read by the driver itself: soon, under the same snapshot, into the same events."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.snapshot import chunk_reader, local_reader
from adapters.postgres.snapshot.local_reader import LocalReader
from tests.driven import SIGNAL_TABLE, driven, replayed_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
CONDITION = "j ? 'a' AND v <> 'what?'".replace("'", "''")
ASKED = SNAPSHOT.replace("]}", f'], "additional-condition": "{CONDITION}"}}')
WINDOWS, FAR_WINDOWS = 30, 10
SPARK = {"tidemark__window__local__rows": "0"}


@pytest.fixture
def table(each_database: Database) -> Database:
    with each_database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text, j jsonb, b bytea)")
        connection.execute(
            "INSERT INTO t SELECT g, 'v ' || g, '{\"a\": 1}', sha256(g::text::bytea)"
            " FROM generate_series(1, 500) g"
        )
        connection.execute("INSERT INTO t VALUES (501, '', NULL, ''), (502, E'a\\x1fb', '{\"a\": 2}', NULL)")
        connection.execute("INSERT INTO t VALUES (503, 'what?', '{\"a\": 3}', NULL), (504, NULL, '[]', NULL)")
    return each_database


def read(table: Database, directory: Path, spark: Any, signal: str, **more: str) -> list[dict[str, Any]]:
    with driven(table, directory, spark, **more) as job, table.connect() as connection:
        connection.execute(signal)
        job.until_answered("finished")
        events = [(event["key"]["id"], event) for event in job.events("t")]
        for _, event in events:
            del event["value"]["ts_ms"], event["value"]["source"]
        return [event for _, event in sorted(events, key=lambda event: event[0])]


class TestEvents:
    @pytest.mark.parametrize(("signal", "rows"), [(SNAPSHOT, 504), (ASKED, 501)])
    def test_both_roads_give_the_same(self, table, tmp_path, spark, monkeypatch, signal, rows):
        far = read(table, tmp_path / "far", spark, signal, **SPARK)
        monkeypatch.setattr(chunk_reader.ChunkReader, "_runs_query", None)
        monkeypatch.setattr(local_reader, "_FETCH_ROWS", 7)
        close = read(table, tmp_path / "near", spark, signal, slot__name="near")

        assert close == far
        assert len(close) == rows

    def test_a_window_that_is_not_small_is_spark_s(self, table, tmp_path, spark, monkeypatch):
        monkeypatch.setattr(LocalReader, "read", None)
        few = {"tidemark__window__local__rows": "100", "incremental__snapshot__chunk__size": "101"}

        assert len(read(table, tmp_path, spark, SNAPSHOT, **few)) == 504

    def test_a_reader_on_another_snapshot_fails(self, table, tmp_path, spark, monkeypatch, caplog):
        exact = chunk_reader.session_statement
        later: Callable[..., str] = lambda exported, *more, **named: exact(  # noqa: E731
            replace(exported, text="1:2:"), *more, **named
        )
        with driven(table, tmp_path, spark) as job, table.connect() as connection:
            monkeypatch.setattr(chunk_reader, "session_statement", later)
            connection.execute(SNAPSHOT)
            job.until(lambda: "the reader is on snapshot" in caplog.text)
            monkeypatch.setattr(chunk_reader, "session_statement", exact)
            job.until_answered("finished")

            assert len(replayed_rows(job.events("t"))) == 504

    def test_a_stop_ends_the_query(self, table, tmp_path, spark):
        slow = SNAPSHOT.replace("]}", '], "additional-condition": "pg_sleep(30) IS NOT NULL"}')
        stop = "INSERT INTO signals VALUES ('x', 'stop-snapshot', '{\"type\": \"incremental\"}')"
        running = (
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%FETCH%tidemark%'"
        )
        trusted = {"tidemark__snapshot__conditions": "sql"}
        with driven(table, tmp_path, spark, **trusted) as job, table.connect() as connection:
            connection.execute(slow)
            job.until(lambda: job.job.window is not None)
            job.until(lambda: self.count(connection, running) == 2)
            begun = time.monotonic()
            connection.execute(stop)
            job.until_answered("stopped")
            job.until(lambda: self.count(connection, running) == 1)

            assert time.monotonic() - begun < 15.0

    def count(self, connection: Any, query: str) -> int:
        """Those that run, the asking session itself included."""
        row = connection.execute(query).fetchone()
        return int(row[0])


class TestSoon:
    """How long a window over a small table is open: 0.3 s at most for 95 in 100.

    On a machine that has no time for us, less than the longest through Spark, which takes 0.2 s where it has.
    """

    def opened_s(
        self, table: Database, job: Driven, beside: Callable[[bool], object], windows: int
    ) -> list[float]:
        """How long each of some windows was open, in order of that. `beside` learns which is the last."""
        taken = []
        with table.connect() as connection:
            for number in range(windows):
                connection.execute(SNAPSHOT)
                job.until(lambda: job.job.window is not None)
                beside(number == windows - 1)
                begun = time.monotonic()
                job.until(lambda: job.job.window is None)
                taken.append(time.monotonic() - begun)
        return sorted(taken)

    def compared(self, table: Database, tmp_path: Path, spark: Any, beside: Callable[[bool], object]) -> None:
        with driven(table, tmp_path / "far", spark, **SPARK) as job:
            far = self.opened_s(table, job, beside, FAR_WINDOWS)
        with driven(table, tmp_path / "near", spark, slot__name="near") as job:
            close = self.opened_s(table, job, beside, WINDOWS)

        assert close[WINDOWS // 2] < 0.7 * far[FAR_WINDOWS // 2]
        assert close[int(WINDOWS * 0.95)] <= max(0.3, far[-1])

    def test_on_an_idle_database(self, table, tmp_path, spark):
        self.compared(table, tmp_path, spark, lambda _last: None)

    def test_beside_an_idle_open_writer(self, table, tmp_path, spark):
        with table.connect() as connection:
            connection.execute("CREATE TABLE o (id int PRIMARY KEY, v int)")
            connection.execute("INSERT INTO o VALUES (0, 0)")
        with table.connect(autocommit=False) as writer:

            def write(last: bool) -> None:  # noqa: FBT001
                """Leave a record that nobody flushes before the horizon; at last let slots be made again."""
                if last:
                    writer.commit()
                else:
                    writer.execute("UPDATE o SET v = v + 1")

            self.compared(table, tmp_path, spark, write)

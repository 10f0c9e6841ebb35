"""Jobs among locked, damaged and changing tables: whoever waits is let through, and nobody else waits."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.snapshot.chunk_reader import ChunkReader
from adapters.source.assembly import wiring
from engine.errors import SourceError
from engine.job.parts import Pace
from tests.driven import SIGNAL_TABLE, Driven, driven

if TYPE_CHECKING:
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = (
    """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.[tuv]"]}')"""
)


def fill(database: Database, **rows: int) -> None:
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        for name, count in rows.items():
            connection.execute(f"CREATE TABLE {name} (id bigserial PRIMARY KEY, b int DEFAULT 0)".encode())
            connection.execute(f"INSERT INTO {name} SELECT g, g FROM generate_series(1, {count}) g".encode())
            connection.execute(f"ANALYZE {name}".encode())


def signal(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(SNAPSHOT)


def keys_read(job: Driven, table: str) -> list[int]:
    return sorted(event["value"]["after"]["id"] for event in job.events(table) if event["value"]["op"] == "r")


def test_ddl_between_two_windows_of_a_held_snapshot_goes_through(database, tmp_path, spark):
    """Describing a table with a default would wait behind it, and it for the snapshot's lock."""
    fill(database, t=20_000)
    changed: list[float] = []

    def change() -> None:
        with database.connect() as connection:
            connection.execute("SET lock_timeout = 0")
            connection.execute("ALTER TABLE t ADD COLUMN z int")
        changed.append(time.monotonic())

    few = {"tidemark__window__max__chunks": "2", "signal__data__collection": ""}
    with driven(database, tmp_path, spark, snapshot__mode="initial", **few) as job:
        job.until(lambda: keys_read(job, "t"))
        time.sleep(2)
        threading.Thread(target=change, daemon=True).start()
        job.until(lambda: changed, 20)
        job.until(lambda: not job.job.state.snapshot.tables)

        assert keys_read(job, "t")[-1] == 20_000


def test_a_table_that_is_locked_once_it_was_measured_keeps_no_other_waiting(database, tmp_path, spark):
    fill(database, t=20_000, u=500, v=500)
    with driven(database, tmp_path, spark, tidemark__window__max__chunks="4") as job:
        signal(database)
        job.until(lambda: keys_read(job, "t"))
        with database.connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE u IN ACCESS EXCLUSIVE MODE")
            job.until_answered("finished", 2)
            meanwhile = [answer.text.split()[0] for answer in job.answered("finished")]
            holder.rollback()
        job.until_answered("finished", 3)

    assert sorted(meanwhile) == ["public.t", "public.v"]


def test_the_gap_of_a_small_table_is_read_by_the_same_signal(database, tmp_path, spark, monkeypatch):
    fill(database, t=3_000)
    read, bad = ChunkReader.read, [True]

    def damaged(self: ChunkReader, window_id: str, reads: Any, *more: Any, **named: Any) -> Any:
        for reading in reads:
            after, upto = reading.run.after, reading.run.upto
            if bad and (int(after[0]) if after else 0) < 1500 <= (int(upto[0]) if upto else 10**9):
                raise SourceError("bad block")
        return read(self, window_id, reads, *more, **named)

    monkeypatch.setattr(ChunkReader, "read", damaged)
    monkeypatch.setattr("engine.job.parts.Pace.pause_s", lambda *_: 0.01)
    with driven(database, tmp_path, spark) as job:
        signal(database)
        job.until_answered("failed")
        missing = set(range(1, 3_001)).difference(keys_read(job, "t"))
        bad.clear()
        signal(database)
        job.until_answered("finished")

        assert 0 < len(missing) <= 1024
        assert 1500 in missing
        assert set(keys_read(job, "t")) == set(range(1, 3_001))


def test_a_window_whose_exporter_has_ended_is_read_again(database, tmp_path, spark, caplog):
    """Its locks went with it: nobody knows what the readers saw."""
    fill(database, t=500)
    with driven(database, tmp_path, spark) as job:
        signal(database)
        job.until(lambda: job.job.window)
        time.sleep(2)
        with database.connect() as connection:
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state = 'idle in transaction' AND application_name = 'tidemark'"
            ).fetchall()
        job.until_answered("finished")

        assert ended == [(True,)]
        assert "the session that held the window's snapshot has ended" in caplog.text
        assert keys_read(job, "t") == list(range(1, 501))


@pytest.fixture
def sliced(monkeypatch):
    """A window's rows go out run by run, one in each turn."""
    monkeypatch.setattr(wiring, "Pace", partial(Pace, slice_bytes=1, slice_s=1e-9, piece_rows=1_000))


_END_EXPORTER = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND state = 'idle in transaction'"
)


@pytest.mark.usefixtures("sliced")
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (("ALTER TABLE t ALTER b TYPE text",), str),
        (("ALTER TABLE t RENAME TO was", "ALTER TABLE swapped RENAME TO t"), str),
        ((), int),
    ],
    ids=["another type", "swapped by rename", "as it was"],
)
def test_rows_of_a_window_whose_exporter_ended_between_slices(database, tmp_path, spark, change, kind):
    fill(database, t=8_000)
    database.execute(
        "CREATE TABLE swapped AS SELECT id, 'new ' || b AS b FROM t",
        "ALTER TABLE swapped ADD PRIMARY KEY (id)",
    )
    with driven(database, tmp_path, spark, tidemark__window__max__chunks="1000") as job:
        signal(database)
        job.until(lambda: keys_read(job, "t"))
        before = len(keys_read(job, "t"))
        with database.connect() as connection:
            connection.execute(_END_EXPORTER)
            for statement in change:
                connection.execute(statement.encode())
        job.until_answered("finished")
        rows = {event["key"]["id"]: event["value"]["after"]["b"] for event in job.events("t")}

    assert 0 < before < 8_000
    assert set(rows) == set(range(1, 8_001))
    assert {type(value) for value in rows.values()} == {kind}

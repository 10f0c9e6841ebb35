"""Rows of a megabyte and tables of a thousand columns: bytes bound what is fetched, held and staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adapters.postgres.snapshot import chunk_reader
from engine.staging.rows import ROWS
from tests.driven import SIGNAL_TABLE, Driven, driven

if TYPE_CHECKING:
    from engine.staging.port import Block
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
MEGABYTE = 1 << 20


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    return database


def fill(database: Database, *, large: str, rows: int) -> None:
    """Rows of which those where `large` holds have a megabyte, which a table stores in a few kilobytes."""
    with database.connect() as connection:
        connection.execute(
            f"INSERT INTO t SELECT g, CASE WHEN {large} THEN repeat('large ' || g % 10, {MEGABYTE} / 7)"
            f" ELSE 'small' END FROM generate_series(1, {rows}) g".encode()
        )
        connection.execute("ANALYZE t")


def staged(job: Driven) -> list[list[int]]:
    """Turn until the snapshot is finished; gives the bytes of each batch of every window's rows."""
    windows: list[list[int]] = []
    seen: str | None = None

    def finished() -> bool:
        nonlocal seen
        window = job.job.window
        if window is not None and window.id != seen:
            opened: Any = job.job._windows.in_progress.opened[-1]
            seen = window.id
            # Not all files of its directory: an attempt that failed may have left one half written.
            runs = opened.reading._rows._staged.result()
            windows.append([size for run in runs for size in batch_sizes(run.content.rows.keys)])
        return bool(job.answered("finished"))

    job.until(finished, timeout_s=120)
    return windows


def batch_sizes(keys: Block) -> list[int]:
    """The bytes of text in each batch of a run."""
    with keys.open(ROWS) as content, pa.ipc.open_stream(content) as batches:
        return [sum(batch.column("size").to_pylist()) for batch in batches]


def ids(job: Driven) -> list[int]:
    return sorted(event["value"]["after"]["id"] for event in job.events("t"))


def test_a_window_of_large_rows_keeps_to_its_bytes(table, tmp_path, spark):
    fill(table, large="true", rows=120)
    with (
        driven(table, tmp_path, spark, tidemark__window__max__bytes=str(30 * MEGABYTE)) as job,
        table.connect() as c,
    ):
        c.execute(SNAPSHOT)
        windows = staged(job)

        assert ids(job) == list(range(1, 121))
        assert len(windows) >= 4
        assert max(sum(batches) for batches in windows) < 36 * MEGABYTE
        assert max(size for batches in windows for size in batches) < 12 * MEGABYTE


@pytest.mark.thorough
def test_rows_that_turn_out_large_are_fetched_a_few_at_a_time(table, tmp_path, spark, caplog):
    """Neither the table's size nor its last rows tell of the large ones, which stand together."""
    caplog.set_level("INFO")
    fill(table, large="g BETWEEN 20000 AND 20150", rows=40_000)
    with driven(table, tmp_path, spark) as job, table.connect() as connection:
        connection.execute(SNAPSHOT)
        (batches,) = staged(job)

        assert ids(job) == list(range(1, 40_001))
        assert "rows at once are more than" in caplog.text
        assert max(batches) < 3 * chunk_reader._MOST_BYTES


def test_what_was_learnt_of_their_size_bounds_the_next_window(table, tmp_path, spark):
    fill(table, large="g <= 200", rows=20_000)
    small = {"tidemark__window__max__bytes": str(40 * MEGABYTE), "incremental__snapshot__chunk__size": "50"}
    with driven(table, tmp_path, spark, **small, tidemark__window__max__chunks="1") as job:
        with table.connect() as connection:
            connection.execute(SNAPSHOT)
        job.until(lambda: job.events("t"))
        (queued,) = job.job.state.snapshot.tables

        assert queued.progress is not None
        assert queued.progress.extent.bytes > 20_000 * MEGABYTE * 0.9


@pytest.mark.parametrize("separator", ["", "\x1f"])
def test_a_thousand_columns_come_alike_from_the_table_and_from_the_log(table, tmp_path, spark, separator):
    """A function takes a hundred arguments."""
    columns = [f"c{at} {('int', 'text', 'numeric', 'bool')[at % 4]}" for at in range(1000)]
    values = [
        ("%d * g", f"'{separator}v' || %d * g", "%d.5 * g", "g > %d")[at % 4] % at for at in range(1000)
    ]
    with table.connect() as connection:
        connection.execute(f"CREATE TABLE wide (id int PRIMARY KEY, {', '.join(columns)})".encode())
        insert = f"INSERT INTO wide SELECT g, {', '.join(values)} FROM generate_series(%d, %d) g"
        connection.execute((insert % (1, 60)).encode())
        connection.execute("UPDATE wide SET c1 = NULL, c2 = NULL, c5 = '' WHERE id % 3 = 0")
        with driven(table, tmp_path, spark) as job:
            connection.execute(SNAPSHOT.replace("public.t", "public.wide"))
            job.until_answered("finished")
            connection.execute("UPDATE wide SET id = id + 1000")
            job.until_drained(table)

    read = {
        e["key"]["id"]: e["value"]["after"]
        for e in job.events("wide")
        if e["value"] and e["value"]["op"] == "r"
    }
    streamed = {
        e["key"]["id"]: e["value"]["after"]
        for e in job.events("wide")
        if e["value"] and e["value"]["op"] == "c"
    }
    assert len(read) == 60
    assert streamed == {key + 1000: {**row, "id": key + 1000} for key, row in read.items()}
    assert read[3]["c1"] is None
    assert read[3]["c5"] == ""

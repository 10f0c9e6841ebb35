"""Limits, priorities and given rows on a real PostgreSQL, in real time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
_IDLE = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    " AND backend_xmin IS NOT NULL AND backend_type = 'client backend'"
)


def run(database: Database, statement: str, *values: str) -> None:
    with database.connect() as connection:
        connection.execute(statement.encode(), values or None)


def signal(database: Database, **fields: Any) -> None:
    data = {name.replace("_", "-"): value for name, value in fields.items()}
    run(database, "INSERT INTO signals VALUES ('s', 'execute-snapshot', %s)", orjson.dumps(data).decode())


def prepare(database: Database, rows: int) -> None:
    run(database, 'CREATE TABLE t (a text COLLATE "C", b int, v text, PRIMARY KEY (a, b))')
    run(database, f"INSERT INTO t SELECT 'k' || n % 10, n, repeat('x', 50) FROM generate_series(1, {rows}) n")
    run(database, SIGNAL_TABLE)
    run(database, "CREATE PUBLICATION dbz_publication FOR ALL TABLES")


def test_a_limit_holds_and_nothing_is_open_while_it_waits(database, tmp_path: Path, spark):
    prepare(database, 3_000)
    read: list[tuple[float, int]] = []
    waiting: list[int] = []
    with (
        driven(database, tmp_path, spark, tidemark__window__seconds="0.5") as job,
        database.connect() as look,
    ):
        signal(database, data_collections=["public.t"], max_rows_per_second=400)

        def done() -> bool:
            tables = job.job.state.snapshot.tables
            rows = tables[0].progress.rows if tables and tables[0].progress else 0
            if rows and (not read or rows > read[-1][1]):
                read.append((time.monotonic(), rows))
            if rows and job.job.window is None:
                row = look.execute(_IDLE).fetchone()
                waiting.append(int(row[0]) if row else 0)
            return bool(job.answered("finished"))

        job.until(done)

    (first_s, first), (last_s, last) = read[0], read[-1]
    rate = (last - first) / (last_s - first_s)
    assert len(read) >= 8, "many windows"
    assert 300 <= rate <= 440, f"{rate:.0f} rows/s"
    assert waiting
    # A window that is being opened beside the turns has its session already.
    assert waiting.count(0) >= 0.9 * len(waiting)


def test_keys_and_ranges_of_a_composite_key(database, tmp_path: Path, spark):
    prepare(database, 100)
    with driven(database, tmp_path, spark) as job:
        signal(database, data_collections=["public.t"], keys=[["k1", 1], ["k1", 2], ["k2", 12], ["é", 5]])
        job.until_answered("finished", 1)
        signal(database, data_collections=["public.t"], ranges=[{"from": ["k9", 50]}, {"to": ["k0", 25]}])
        job.until_answered("finished", 2)
        signal(database, data_collections=["public.t"], keys=[["k1"]])
        signal(database, data_collections=["public.t"], keys=[["k1", "secret"]])
        signal(database, data_collections=["public.t"], keys=[["k1", 1]], additional_condition="b > 5")
        job.until_answered("finished", 3)
        found = [
            (event["key"]["a"], event["key"]["b"]) for event in job.events("t") if event["value"]["op"] == "r"
        ]
        refused = [answer.text for answer in job.answered("rejected")]

    assert sorted(found) == sorted(
        [
            *(("k1", 1), ("k2", 12)),
            *(("k0", n) for n in (10, 20)),
            *(("k9", n) for n in (59, 69, 79, 89, 99)),
        ]
    )
    texts = [answer.text for answer in job.answered("finished")]
    assert texts[0] == "public.t completed: 2 rows read, 2 of 4 keys found"
    assert texts[2] == "public.t completed: 0 rows read, 0 of 1 keys found"
    assert "a key of the signal has 1 values" in refused[0]
    assert "the server can't read the signal's keys" in refused[1]
    assert "secret" not in "".join(refused)


def test_a_dry_run_reads_nothing(database, tmp_path: Path, spark):
    prepare(database, 100)
    run(database, "ANALYZE t")
    with driven(database, tmp_path, spark) as job:
        signal(database, data_collections=["public.t"], dry_run=True)
        signal(database, data_collections=["public.t"], dry_run=True, ranges=[{"to": ["k1", 0]}])
        job.until_answered("planned", 2)
        texts = [answer.text for answer in job.answered("planned")]

        assert "in 1 chunks: about 100 rows" in texts[0]
        assert job.job.state.snapshot.tables == ()
        assert not [event for event in job.events("t") if event["value"]["op"] == "r"]

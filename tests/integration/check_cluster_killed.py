"""Executors and Python workers of a cluster are killed in every phase of a window and of a span.

Takes minutes, so `make test-cluster` runs it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import PositionLost, SourceError
from tests import replay
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.driven import driven
from tests.driven_sqlserver import SIGNALS, DrivenSqlServer, driven_sqlserver, writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.driven import Driven
    from tests.servers.postgres import Database
    from tests.servers.spark_cluster import SparkCluster
    from tests.servers.sqlserver import SqlServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ORDERS, STOCK = 60_000, 2_000
TIMEOUT_S = 300.0
KILLS = {"executor": "kill_executor", "worker": "kill_workers"}


def survive(job: Driven, condition: Callable[[], Any]) -> int:
    """Turn until the condition holds, through failures as the job's own loop; returns how many there were."""
    deadline, failures = time.monotonic() + TIMEOUT_S, 0
    while not condition():
        assert time.monotonic() < deadline, f"state: {job.job.state}; answers: {job.answers}"
        try:
            if not job.job._settled:
                job.job.settle()
            job.job.start()
            job.job.turn()
        except PositionLost:
            raise
        except SourceError:
            failures += 1
            job.job.close()
            job.job._settled = False
    return failures


def opened(job: Driven) -> Any:
    """The window in front; None if none is in progress."""
    windows = job.job._windows.in_progress.opened
    return windows[0] if windows else None


PHASES = ("reading", "staged", "emitting")


def strike(job: Driven, phase: str, kill: Callable[[], Any]) -> list[str]:
    """Kill once, when a window comes to this phase; returns where it is noted that it did."""
    windows = job.job._windows
    emit, open_window, struck = windows.emit, windows._open, list[str]()

    def emitting(*given: Any) -> Any:
        front = opened(job)
        if (
            not struck
            and front
            and front.staged is not None
            and phase == ("emitting" if front.sent else "staged")
        ):
            struck.append(phase)
            kill()
        return emit(*given)

    def opening(*given: Any) -> None:
        open_window(*given)
        if not struck and phase == "reading":
            struck.append(phase)
            threading.Timer(0.2, kill).start()

    windows.emit, windows._open = emitting, opening  # type: ignore[method-assign,assignment]
    return struck


def reached(job: Driven, end: int) -> bool:
    position = job.job.state.position
    return position is not None and int(position.order[0]) >= end


def settled(cluster: SparkCluster) -> None:
    """Wait until the workers have replaced what was killed."""
    deadline = time.monotonic() + 60
    while len(cluster.executors()) < 2:
        assert time.monotonic() < deadline, cluster.logs()
        time.sleep(0.1)


def ask(database: Database) -> None:
    names = ", ".join(f'"{".".join(table)}"' for table in source.TABLES)
    with database.connect() as connection:
        connection.execute(
            f"INSERT INTO {source.SIGNALS} VALUES ('x', 'execute-snapshot', %s)".encode(),
            [f'{{"data-collections": [{names}]}}'],
        )


def assert_equal(database: Database, events: Path) -> replay.Figures:
    with database.connect(options="-c timezone=UTC") as connection:
        shapes = {f"tm.{'.'.join(table)}": replay.shape_of(connection, table) for table in source.TABLES}
        figures = replay.replay(connection, events, shapes)
        for table in source.TABLES:
            assert replay.compare(connection, table).equal, replay.differences(connection, table)
    return figures


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("killed", KILLS)
def test_killed_in_a_window(
    database: Database,
    tmp_path: Path,
    cluster: SparkCluster,
    cluster_spark: SparkSession,
    phase: str,
    killed: str,
):
    source.fill(database, orders=ORDERS, stock=STOCK)
    settled(cluster)
    more = {"signal__data__collection": source.SIGNALS, "tidemark__window__local__rows": "0"}
    with driven(database, tmp_path, cluster_spark, **more) as job:
        with postgres_users(database, orders=ORDERS, stock=STOCK, per_s=50) as writers:
            # One run a slice, so that there is a phase between the first and the last.
            job.job._windows._emitter._slices.most_bytes = 1
            struck = strike(job, phase, getattr(cluster, KILLS[killed]))
            ask(database)
            survive(job, lambda: len(job.answered("finished")) == 2)
            writers.stop()
        end = database.value("SELECT pg_current_wal_insert_lsn() - '0/0' FROM pg_current_xact_id()")
        survive(job, lambda: reached(job, int(end)))

    assert struck
    figures = assert_equal(database, tmp_path / "events")
    # What supersedes a row or is read again changes the count a little.
    assert figures.operations["r"] > ORDERS * 0.9


@pytest.mark.parametrize("killed", KILLS)
def test_killed_in_a_span(
    database: Database, tmp_path: Path, cluster: SparkCluster, cluster_spark: SparkSession, killed: str
):
    source.fill(database, orders=ORDERS, stock=STOCK)
    settled(cluster)
    with driven(database, tmp_path, cluster_spark, signal__data__collection=source.SIGNALS) as job:
        ask(database)
        survive(job, lambda: len(job.answered("finished")) == 2)
        with database.connect() as connection:
            connection.execute("UPDATE public.orders SET placed_at = placed_at + interval '1 second'")
            connection.execute("UPDATE public.orders SET weight = 1")
        end = database.value("SELECT pg_current_wal_insert_lsn() - '0/0' FROM pg_current_xact_id()")
        ended = threading.Event()

        def kill() -> None:
            # While entries are decoded, and once more while the rest is.
            while not ended.wait(0.7):
                getattr(cluster, KILLS[killed])()
                settled(cluster)
                if ended.wait(1.0):
                    return
                getattr(cluster, KILLS[killed])()
                return

        killer = threading.Thread(target=kill)
        killer.start()
        survive(job, lambda: reached(job, int(end)))
        ended.set()
        killer.join()

    figures = assert_equal(database, tmp_path / "events")
    assert figures.operations["u"] >= 2 * ORDERS


@pytest.mark.parametrize("mode", ["initial", "schema_only"])
def test_sqlserver_with_an_executor_killed(
    sqlserver: SqlServer, tmp_path: Path, cluster: SparkCluster, cluster_spark: SparkSession, mode: str
):
    shop = sqlserver.create_database("shop")
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(40) NULL)")
    shop.execute(SIGNALS)
    shop.execute("INSERT INTO dbo.t SELECT n, 'row ' || n FROM generate_series(0, 59999) AS n")
    for table in ("dbo.t", "dbo.signals"):
        shop.enable_cdc(table)
    settled(cluster)
    sqlserver.start_capture(delay_s=0.2)
    more = {"snapshot__mode": mode, "signal__data__collection": "shop.dbo.signals"}
    with driven_sqlserver(sqlserver, tmp_path, cluster_spark, **more) as job:
        with writing(shop, "dbo.t", keys=60_000, pause_s=0.02):
            if mode != "initial":
                data = '{"data-collections": ["shop.dbo.t"]}'
                shop.execute(f"INSERT INTO dbo.signals VALUES ('x', 'execute-snapshot', '{data}')")
            survive(job, lambda: opened(job) is not None)
            cluster.kill_executor()
            survive(job, lambda: snapshot_is_over(job, mode))
        time.sleep(0.5)
        shop.capture()
        job.until_streamed(shop)

    rows: dict[int, Any] = {}
    for event in job.events("t"):
        if event["value"] is None or event["value"]["op"] == "d":
            rows.pop(event["key"]["id"], None)
        else:
            rows[event["key"]["id"]] = event["value"]["after"]["v"]
    assert rows == dict(shop.query("SELECT [id], [v] FROM [dbo].[t]"))


def snapshot_is_over(job: DrivenSqlServer, mode: str) -> bool:
    if mode == "initial":
        return not job.job.state.snapshot.tables
    return len(job.answered("finished")) == 1

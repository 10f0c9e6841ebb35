"""`tidemark import-offsets` of what the real Debezium 2.1.4 and 3.6.1 stored: `make import-offsets`."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from adapters.cli import app
from tests.bench.peers.jars import SHA256
from tests.driven import driven, properties
from tests.integration.test_command_signal import configured
from tests.integration.test_moving_from_debezium import EVENTS, SHARED, changes, ours, told
from tests.java.debezium import postgres_properties, running

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]
ROWS = 3000
SIGNALS = "CREATE TABLE signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))"


def imported(database: Database, directory: Path, **more: str) -> dict[str, Any]:
    """Run the command on the file of offsets that the engine left in `directory`."""
    return imported_by(properties(database, directory, **more), directory)


def imported_by(said: dict[str, str], directory: Path) -> dict[str, Any]:
    """The same for a job on any source, whose properties these are."""
    config = configured(said, directory)
    result = CliRunner().invoke(
        app.app, ["import-offsets", str(config), str(directory / "offsets"), "--json"]
    )
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("version", SHA256)
def test_we_go_on_at_its_offset(database: Database, tmp_path: Path, spark: SparkSession, version: str):
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT g, 'old' FROM generate_series(1, 3) g",
    )
    first = postgres_properties(database, snapshot__mode="initial", **SHARED)
    with running(first, tmp_path, version) as engine:
        engine.until(lambda sent: len(sent) == 3)
        database.execute(*changes(100), *changes(200))
        engine.until(lambda sent: len(sent) == 3 + 2 * EVENTS)
    database.execute(*changes(300))

    more = {**SHARED, "signal__data__collection": "", "snapshot__mode": "initial"}
    assert imported(database, tmp_path, **more)["snapshots"] == []
    with driven(database, tmp_path, spark, **more) as job:
        job.until_drained(database)

    theirs, mine = [told(event.key, event.value, event.headers) for event in engine.sent[3:]], ours(job)
    repeated = (Counter(theirs) & Counter(mine)).total()
    # Nothing is lost or out of order, and at most its last transaction comes again.
    assert theirs[len(theirs) - repeated :] == mine[:repeated]
    assert len(theirs) + len(mine) - repeated == 3 * EVENTS
    assert repeated <= 2


@pytest.mark.parametrize(("version", "mode"), list(zip(SHA256, ["never", "no_data"], strict=True)))
def test_an_incremental_snapshot_in_the_middle_goes_on(
    database: Database, tmp_path: Path, spark: SparkSession, version: str, mode: str
):
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, v text)",
        "CREATE TABLE more (id int PRIMARY KEY)",
        SIGNALS,
        f"INSERT INTO orders SELECT g, 'old' FROM generate_series(1, {ROWS}) g",
        "INSERT INTO more SELECT generate_series(1, 5)",
    )
    chunks = {"incremental.snapshot.chunk.size": "10", "signal.data.collection": "public.signals"}
    data = {"data-collections": ["public.orders", "public.more"], "type": "INCREMENTAL"}
    engine_properties = postgres_properties(database, snapshot__mode=mode, **SHARED) | chunks
    with running(engine_properties, tmp_path, version) as engine:
        _until_slot(database)
        database.execute(f"INSERT INTO signals VALUES ('a', 'execute-snapshot', '{json.dumps(data)}')")
        engine.until(lambda sent: sum(".orders" in event.topic for event in sent) > 300)
        engine.kill()
    sent = {
        json.loads(event.key)["id"] for event in engine.sent if event.key and event.topic.endswith(".orders")
    }
    assert len(sent) < ROWS

    more = {**SHARED, "snapshot__mode": "never"}
    assert imported(database, tmp_path, **more)["snapshots"] == ["public.orders", "public.more"]
    with driven(database, tmp_path, spark, **more) as job:
        job.until_answered("finished", 2)

    mine = [event["key"]["id"] for event in job.events("orders") if event["value"]["op"] == "r"]
    assert sent | set(mine) == set(range(1, ROWS + 1))
    # It goes on behind what was sent, not from the beginning.
    assert 1 not in mine
    assert {event["key"]["id"] for event in job.events("more")} == set(range(1, 6))


def _until_slot(database: Database) -> None:
    """Wait until the engine streams, so that it sees the signal."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with database.connect() as connection:
            if connection.execute("SELECT FROM pg_replication_slots WHERE active").fetchone() is not None:
                return
        time.sleep(0.1)
    raise AssertionError("Debezium does not stream")

"""The command `tidemark run` with an initial snapshot, killed at random moments while tables are written."""

from __future__ import annotations

import random
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests import replay
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.demo.tidemark import PREFIX, Folder, Tidemark, write_properties
from tests.driven import read_events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ORDERS, STOCK, KILLS = 60_000, 6_000, 2
TIMEOUT_S = 240.0


def rows_read(job: Tidemark) -> int:
    """Rows read of the tables in the queue, by the saved state; those done count as all of their rows."""
    state = job.state()
    if state is None:
        return 0
    left = {table.ordinal: table.progress.rows if table.progress else 0 for table in state.snapshot.tables}
    sizes = {(1, 2): ORDERS, (2, 2): STOCK}
    return sum(left.get(place, rows) for place, rows in sizes.items())


def has_read(job: Tidemark, rows: int) -> bool:
    return rows_read(job) >= rows


def drained(database: Database, end: str) -> bool:
    query = (
        f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{source.SLOT}'"
    )
    return database.value(query) is True


@pytest.mark.thorough
def test_it_goes_on_wherever_it_is_killed_and_the_events_equal_the_tables(
    database: Database, tmp_path: Path, record_property: Callable[[str, object], None]
):
    seed = random.randrange(2**32)
    record_property("seed", seed)
    print(f"seed {seed}")
    moments = random.Random(seed)
    source.fill(database, orders=ORDERS, stock=STOCK)
    folder = Folder(tmp_path)
    login = source.Login(database.server.user, database.server.password)
    write_properties(folder, database, login, mode="initial")
    with folder.properties.open("a", encoding="utf-8") as file:
        file.write("tidemark.window.max.chunks=2\nincremental.snapshot.chunk.size=2000\n")
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())

    with postgres_users(database, orders=ORDERS, stock=STOCK, per_s=50) as writers:
        read = 0
        for kill in range(1, KILLS + 1):
            with Tidemark(folder) as job:
                upto = moments.randrange(read, max(read + 1, ORDERS * kill // (KILLS + 1)))
                job.until(partial(has_read, job, upto), TIMEOUT_S)
                time.sleep(moments.random())
                job.kill()
                assert rows_read(job) >= read
                read = rows_read(job)
        with Tidemark(folder) as job:
            job.until(lambda: (state := job.state()) and not state.snapshot.tables, TIMEOUT_S)
            writers.stop()
            end = database.value("SELECT pg_current_wal_insert_lsn()::text FROM pg_current_xact_id()")
            job.until(lambda: drained(database, end), TIMEOUT_S)
            job.stop()
    assert job.said("what is left of the initial snapshot")
    assert_equal(folder, database)


def assert_equal(folder: Folder, database: Database) -> None:
    tables = (source.ORDERS, source.STOCK)
    reads = Counter(
        (event["topic"], str(event["key"]))
        for event in read_events(folder.events)
        if event["value"] and event["value"]["op"] == "r"
    )
    assert {topic for topic, _key in reads} == {f"{PREFIX}.{'.'.join(table)}" for table in tables}
    assert max(reads.values()) == 1
    with database.connect(options="-c timezone=UTC") as connection:
        shapes = {f"{PREFIX}.{'.'.join(table)}": replay.shape_of(connection, table) for table in tables}
        replay.replay(connection, folder.events, shapes)
        for table in tables:
            assert replay.compare(connection, table).equal, replay.differences(connection, table)

"""The command `tidemark run`, stopped and killed in the middle of a snapshot, and started again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests import replay
from tests.demo import source
from tests.demo.tidemark import PREFIX, Folder, Tidemark, write_properties
from tests.driven import read_events

if TYPE_CHECKING:
    from pathlib import Path

    from engine.snapshot.extent import Progress
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 60_000
TOPIC = f"{PREFIX}.public.orders"


def progress(job: Tidemark) -> Progress | None:
    """How far the first table of the queue is, by the saved state."""
    state = job.state()
    return state.snapshot.tables[0].progress if state and state.snapshot.tables else None


def rows_read(job: Tidemark) -> int:
    now = progress(job)
    return now.rows if now else 0


def streaming(database: Database) -> bool:
    return (
        database.value(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{source.SLOT}'") is True
    )


@pytest.fixture
def folder(database: Database, tmp_path: Path) -> Folder:
    """A configured job on a filled database, with one small chunk in a window."""
    source.fill(database, orders=ROWS, stock=10)
    folder = Folder(tmp_path)
    login = source.Login(database.server.user, database.server.password)
    write_properties(folder, database, login)
    with folder.properties.open("a", encoding="utf-8") as file:
        file.write("tidemark.window.max.chunks=1\nincremental.snapshot.chunk.size=2000\n")
    with database.connect() as connection:
        connection.execute(f"CREATE PUBLICATION {source.PUBLICATION} FOR ALL TABLES".encode())
    return folder


def ask_for_orders(database: Database) -> None:
    data = '{"data-collections": ["public.orders"]}'
    with database.connect() as connection:
        connection.execute(
            f"INSERT INTO {source.SIGNALS} VALUES ('s', 'execute-snapshot', '{data}')".encode()
        )


@pytest.mark.thorough
def test_a_snapshot_goes_on_where_it_was_stopped_and_where_it_was_killed(folder: Folder, database: Database):
    with Tidemark(folder) as job:
        job.until(lambda: streaming(database))
        ask_for_orders(database)
        job.until(lambda: rows_read(job) >= 4_000)

        assert job.stop() < 15
        stopped = progress(job)
    assert stopped is not None
    assert 4_000 <= stopped.rows < ROWS

    with Tidemark(folder) as job:
        job.until(lambda: rows_read(job) > stopped.rows + 4_000)
        job.kill()
        killed = progress(job)
    assert killed is not None
    assert killed.since_ms == stopped.since_ms
    assert stopped.rows < killed.rows < ROWS

    database.execute(
        "UPDATE public.orders SET note = 'while nobody was looking' WHERE id % 400 = 0",
        "DELETE FROM public.orders WHERE id % 1000 = 1",
    )
    with Tidemark(folder) as job:
        job.until(lambda: job.said("completed: "))
        end = database.value("SELECT pg_current_wal_insert_lsn()::text FROM pg_current_xact_id()")
        job.until(
            lambda: database.value(
                f"SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots"
                f" WHERE slot_name = '{source.SLOT}'",
            ),
        )
        job.stop()

        assert len(job.said("accepted: ")) == 1
        # those that were deleted before their window came are not counted
        rows = int(job.said("completed: ")[0].partition("completed: ")[2].split()[0])
        assert ROWS * 0.999 <= rows <= ROWS
    assert_read_once_and_equal(folder, database)


def assert_read_once_and_equal(folder: Folder, database: Database) -> None:
    events = [event["value"] for event in read_events(folder.events) if event["topic"] == TOPIC]
    reads = Counter(event["after"]["id"] for event in events if event and event["op"] == "r")
    assert max(reads.values()) == 1
    with database.connect() as connection:
        replay.replay(connection, folder.events, {TOPIC: replay.shape_of(connection, source.ORDERS)})

        assert replay.compare(connection, source.ORDERS).equal, replay.differences(connection, source.ORDERS)


def test_a_signal_to_the_whole_group_ends_the_job_cleanly(folder: Folder, database: Database):
    """Service managers and `timeout` signal every process: Spark's JVM may be the first to go."""
    with Tidemark(folder) as job:
        job.until(lambda: streaming(database))
        ask_for_orders(database)
        job.until(lambda: rows_read(job) >= 4_000)

        assert job.stop(group=True) < 15
        assert job.said("Spark ended before the job") or job.said("stopped after turn")
        assert not job.said("Traceback")
        assert not job.said("py4j")
        assert job.said("reading the log from")

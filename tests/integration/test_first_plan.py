"""Planning a very large table: by the catalog's statistics and the ends of its key, never by its rows."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from adapters.postgres.conditions.selection import Selections
from adapters.postgres.server.publication import Publication
from adapters.postgres.server.questions.questions import Questions
from adapters.postgres.snapshot.eligibility import Eligibility
from adapters.postgres.snapshot.tables import PostgresTables
from adapters.system import system_clock
from engine.config.settings import Conditions
from engine.model import CollectionId, Range
from engine.snapshot.changes.commands import begin_initial
from engine.snapshot.extent import Advance, Extent
from engine.snapshot.plan import Budget, plan_window
from engine.snapshot.queue import Snapshot

if TYPE_CHECKING:
    import psycopg

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

ROWS = 100_000_000
T = CollectionId(("public", "t"))


class OfOneRun:
    """No snapshot is held, and tables are read as they are."""

    snapshot_id = ""
    session = None

    def covers(self, _collection: CollectionId) -> bool:
        return True

    def statement(self, _collection: CollectionId) -> None:
        return None


def extents(connection: psycopg.Connection) -> PostgresTables:
    questions, publication = Questions(connection), Publication("p", lambda _schema, _table: True)
    readable = Eligibility(
        questions, publication, Selections(questions, Conditions.EXPRESSIONS), first=OfOneRun()
    )
    return PostgresTables(questions, publication, readable, system_clock(), whole_bytes=0)


def test_a_hundred_million_rows_are_planned_in_moments_and_little_memory(database: Database):
    with database.connect() as connection:
        connection.execute("CREATE TABLE t (id bigint PRIMARY KEY, v int) WITH (autovacuum_enabled = off)")
        connection.execute(f"INSERT INTO t VALUES (1, 1), ({ROWS}, 1)".encode())
        connection.execute(
            f"UPDATE pg_class SET reltuples = {ROWS}, relpages = 540541 WHERE relname = 't'".encode()
        )
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        tables = extents(connection)
        snapshot = begin_initial(Snapshot(), [T], "test")
        tracemalloc.start()
        since = time.perf_counter()

        (extent,) = tables.measure([table.target for table in snapshot.tables])
        assert isinstance(extent, Extent)
        snapshot = snapshot.with_extent(1, extent, 0)
        budget = Budget(rows=400_000, bytes=256 << 20, tasks=8, chunk_rows=1024)
        ends = []
        while not snapshot.done:
            runs = plan_window(snapshot, budget, tables.boundaries)
            ends += [(run.after, run.upto) for run in runs[:1] + runs[-1:]]
            snapshot = snapshot.advanced(Advance(1, runs, rows=400_000, emitted=400_000))

        seconds, peak = time.perf_counter() - since, tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert extent.rows == ROWS
    assert extent.ranges == (Range(None, (str(ROWS),)),)
    assert ends[0][0] is None
    assert ends[-1][1] == (str(ROWS),)
    assert 200 <= len(ends) / 2 <= 300
    assert seconds < 5
    assert peak < 5 << 20

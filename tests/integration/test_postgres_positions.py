"""Positions inside large transactions, transaction ids around a wrap, and texts under odd settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from adapters.postgres.log import assembler
from adapters.postgres.server.visibility import Visibility
from tests.driven import SIGNAL_TABLE, driven
from tests.servers.postgres import Database, PostgresServer
from tests.servers.postgres_states import near_wraparound

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""


@pytest.fixture
def table(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, "CREATE TABLE t (id int PRIMARY KEY, v text)")
    return database


class TestInsideTransactions:
    """A span may end anywhere, and the next run goes on there."""

    def ids(self, table: Database, tmp_path: Any, spark: Any) -> list[int]:
        """Stream one transaction over three runs; the first two are stopped inside of it."""
        small = {"tidemark__span__max__rows": "40"}
        with driven(table, tmp_path, spark, **small) as job:
            with table.connect() as connection:
                connection.execute("CREATE TABLE other (id int PRIMARY KEY)")
                connection.execute(
                    "WITH a AS (INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g RETURNING id)"
                    " INSERT INTO other SELECT id FROM a"
                )
            job.until(lambda: job.job.state.position and job.job.state.position.order[1])
            assert job.job.state.position is not None
            assert 0 < int(job.job.state.position.order[1]) < 1000
        with driven(table, tmp_path, spark, **small) as job:
            before = job.job.state.position
            job.until(lambda: job.job.state.position != before)
        with driven(table, tmp_path, spark, **small) as job:
            job.until_drained(table)
            return [event["key"]["id"] for event in job.events("t") + job.events("other")]

    def test_a_transaction_is_streamed_once_over_several_runs(self, table, tmp_path, spark):
        assert self.ids(table, tmp_path, spark) == [*range(1, 501), *range(1, 501)]

    def test_counting_relation_messages_would_skip_rows(self, table, tmp_path, spark, monkeypatch):
        monkeypatch.setattr(assembler, "_ENTRIES", frozenset(b"IUDTMR"))

        assert self.ids(table, tmp_path, spark) != [*range(1, 501), *range(1, 501)]


@pytest.fixture
def near_wrap() -> Iterator[PostgresServer]:
    """A server a few hundred transactions before its 32-bit ids begin again."""
    with PostgresServer(18, settings={"autovacuum": "off"}) as server:
        near_wraparound(server, 4_294_967_000)
        server.start()
        yield server


class TestWrap:
    """pgoutput's transaction ids have 32 bits, a snapshot's 64."""

    def run(self, near_wrap: PostgresServer, tmp_path: Any, spark: Any) -> list[tuple[str, str]]:
        """Snapshots before, over and after the wrap, beside open transactions; the ops of one key."""
        database = near_wrap.create_database("wrap")
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
            connection.execute("INSERT INTO t SELECT g, 'old' FROM generate_series(1, 5) g")
            with driven(database, tmp_path, spark) as job, database.connect(autocommit=False) as writer:
                for round_ in range(4):
                    writer.execute("UPDATE t SET v = %s WHERE id = 3", [f"new {round_}"])
                    connection.execute(SNAPSHOT)
                    job.until(lambda: job.job.window is not None)
                    writer.commit()
                    job.until_answered("finished", round_ + 1)
                    for _ in range(100):
                        connection.execute("SELECT pg_current_xact_id()")
                job.until_drained(database)
                row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
                assert row is not None
                assert row[0] > 8 << 32
                return [
                    (event["value"]["op"], event["value"]["after"]["v"])
                    for event in job.events("t")
                    if event["key"]["id"] == 3
                ]

    def test_no_window_reads_over_a_newer_change(self, near_wrap, tmp_path, spark):
        seen = self.run(near_wrap, tmp_path, spark)

        values = ["old", *(f"new {round_}" for round_ in range(4))]
        places = [values.index(value) for _op, value in seen]
        assert places == sorted(places)
        assert [value for op, value in seen if op == "u"] == values[1:]

    def test_widening_with_the_snapshots_own_epoch_would_hide_changes(self):
        # Seen just after a wrap: the snapshot is in epoch 8, the transaction ended in epoch 7.
        snapshot = Visibility((8 << 32) + 10, (8 << 32) + 10)
        ended = np.array([4_294_967_290], np.int64)

        assert snapshot.shows(ended).all()
        assert not (((8 << 32) | ended) < snapshot.xmax).any()


KEYS = {
    "real": "(g / 10.0)::real",
    "uuid": "md5(g::text)::uuid",
    "bytea": "decode(md5(g::text), 'hex')",
    "timestamptz": "timestamptz '2024-01-01 00:00:00.1+02' + g * interval '1.7 s'",
    "date": "date '1999-12-31' + g",
    "numeric": "g / 7.0",
    "interval": "g * interval '1 hour 1 second'",
    "char(8)": "'k' || g",
    'text COLLATE "C"': "chr(64 + g) || CASE g % 2 WHEN 0 THEN '-a' ELSE 'B' END",
    "varbit": "g::bit(9)::varbit",
    "int4range": "int4range(g, g + 3)",
}


class TestTexts:
    """Bounds and values are the type's own output, whatever a database or role has set."""

    @pytest.mark.parametrize("type_", KEYS)
    def test_every_key_is_read_once_and_looks_as_it_does_when_streamed(
        self, database, tmp_path, spark, type_
    ):
        with database.connect() as connection:
            for name, value in (
                ("DateStyle", "SQL, DMY"),
                ("IntervalStyle", "sql_standard"),
                ("TimeZone", "America/New_York"),
                ("bytea_output", "escape"),
                ("extra_float_digits", "-3"),
            ):
                connection.execute(f"ALTER DATABASE {database.name} SET {name} = '{value}'")
        with database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute(f"CREATE TABLE t (k {type_} PRIMARY KEY, n int)")
            connection.execute(f"INSERT INTO t SELECT {KEYS[type_]}, 0 FROM generate_series(1, 40) g")
            more = {"incremental__snapshot__chunk__size": "7", "tidemark__window__max__chunks": "3"}
            with driven(database, tmp_path, spark, **more) as job:
                connection.execute(SNAPSHOT)
                job.until_answered("finished")
                connection.execute("UPDATE t SET n = 0")
                job.until_drained(database)

                after = {"r": list[str](), "u": list[str]()}
                for event in job.events("t"):
                    after[event["value"]["op"]].append(str(event["value"]["after"]))
                assert len(after["r"]) == 40
                assert sorted(after["r"]) == sorted(after["u"])

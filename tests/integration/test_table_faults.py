"""A table that can't be read, now or at all, stops neither the stream nor the other tables."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.driven import SIGNAL_TABLE, Driven, driven
from tests.servers.postgres_states import in_background

if TYPE_CHECKING:
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.[tu]"]}')"""


@pytest.fixture
def tables(database: Database) -> Database:
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        for name in "tu":
            connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, b int NOT NULL)")
            connection.execute(f"INSERT INTO {name} SELECT g, 30000 - g FROM generate_series(1, 20000) g")
    return database


def reads(job: Driven, table: str) -> int:
    return sum(event["value"]["op"] == "r" for event in job.events(table))


def small_windows(**more: str) -> dict[str, str]:
    return {"tidemark__window__max__chunks": "4", **more}


class TestGone:
    def test_a_table_dropped_while_it_is_read_is_answered_and_the_other_finishes(
        self, tables, tmp_path, spark
    ):
        with driven(tables, tmp_path, spark, **small_windows()) as job, tables.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: reads(job, "t"))
            in_background(tables, "DROP TABLE t")
            job.until_answered("finished")

            (refused,) = job.answered("rejected")
            assert "public.t" in refused.text
            assert reads(job, "u") == 20_000

    def test_a_table_that_may_not_be_read_is_answered(self, tables, tmp_path, spark):
        with tables.connect() as connection:
            connection.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'reader'")
            try:
                connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
                connection.execute("GRANT SELECT ON u, signals TO reader")
                role = {"database__user": "reader", "database__password": "reader"}
                with driven(tables, tmp_path, spark, **role) as job:
                    connection.execute(SNAPSHOT)
                    job.until_answered("finished")

                    (refused,) = job.answered("rejected")
                    assert "permission denied" in refused.text
                    assert reads(job, "u") == 20_000
            finally:
                connection.execute("DROP OWNED BY reader")
                connection.execute("DROP ROLE reader")


class TestLocked:
    def longest_turn_s(self, job: Driven, rows: int) -> float:
        """Turn until so many rows of `u` have been read; a turn that waits for the lock never ends."""
        longest, end = 0.0, time.monotonic() + 60.0
        while reads(job, "u") < rows and time.monotonic() < end:
            begun = time.monotonic()
            job.job.turn()
            longest = max(longest, time.monotonic() - begun)
        return longest

    def test_the_stream_does_not_wait_for_a_locked_table(self, tables, tmp_path, spark):
        with driven(tables, tmp_path, spark) as job, tables.connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            with tables.connect() as connection:
                connection.execute(SNAPSHOT)
                connection.execute("INSERT INTO u VALUES (-1, 0)")
            longest_s = self.longest_turn_s(job, 20_001)
            streamed = [event["key"]["id"] for event in job.events("u") if event["value"]["op"] == "c"]
            meanwhile = reads(job, "u")
            holder.rollback()
            job.until_answered("finished", 2)

            assert streamed == [-1]
            assert meanwhile == 20_001
            assert reads(job, "t") == 20_000
            assert longest_s < 10.0

    def test_the_log_is_opened_again_beside_a_locked_table(self, tables, tmp_path, spark):
        with driven(tables, tmp_path, spark) as job:
            job.job.turn()
        with tables.connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            with driven(tables, tmp_path, spark) as job, tables.connect() as connection:
                connection.execute("INSERT INTO u VALUES (-1, 0)")
                job.until(lambda: job.events("u"), timeout_s=20.0)

    def test_rows_of_a_table_that_is_locked_by_now_are_streamed(self, tables, tmp_path, spark):
        with driven(tables, tmp_path, spark) as job:
            with tables.connect() as connection:
                connection.execute("INSERT INTO t VALUES (-1, 0)")
            with tables.connect(autocommit=False) as holder:
                holder.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
                job.until(lambda: job.events("t"), timeout_s=20.0)

    def test_ddl_that_waits_for_a_window_goes_through(self, tables, tmp_path, spark):
        with driven(tables, tmp_path, spark, **small_windows()) as job, tables.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: reads(job, "t"))
            changing = in_background(tables, "ALTER TABLE t ALTER COLUMN b TYPE bigint")
            begun = time.monotonic()
            job.until(lambda: not changing.is_alive(), timeout_s=20.0)
            waited_s = time.monotonic() - begun
            job.until_answered("finished", 2)

            assert waited_s < 15.0
            assert {event["key"]["id"] for event in job.events("t")} == set(range(1, 20_001))


class TestChangedKey:
    def test_a_table_whose_key_moves_to_another_column_is_read_anew(self, tables, tmp_path, spark):
        with driven(tables, tmp_path, spark, **small_windows()) as job, tables.connect() as connection:
            connection.execute(SNAPSHOT)
            job.until(lambda: reads(job, "t"))
            in_background(tables, "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (b)")
            job.until_answered("finished", 2)

            found = {event["value"]["after"]["id"] for event in job.events("t") if event["key"].get("b")}
            assert found == set(range(1, 20_001))


class TestHidden:
    def test_row_level_security_is_refused(self, tables, tmp_path, spark):
        with tables.connect() as connection:
            connection.execute("CREATE ROLE hidden LOGIN REPLICATION PASSWORD 'hidden'")
            try:
                connection.execute("CREATE PUBLICATION dbz_publication FOR ALL TABLES")
                connection.execute("GRANT SELECT ON t, u, signals TO hidden")
                connection.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
                role = {"database__user": "hidden", "database__password": "hidden"}
                with driven(tables, tmp_path, spark, **role) as job:
                    connection.execute(SNAPSHOT)
                    job.until_answered("finished")

                    (refused,) = job.answered("rejected")
                    assert "row-level security" in refused.text
            finally:
                connection.execute("DROP OWNED BY hidden")
                connection.execute("DROP ROLE hidden")

"""What the server does not log, between two windows: found and mended, or found and told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.isolation.incomplete import Cause
from tests.driven import SIGNAL_TABLE, driven, replayed_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""
SMALL = {"tidemark__window__max__chunks": "2", "incremental__snapshot__chunk__size": "100"}
ROWS = 1000


def half_read(job: Driven) -> None:
    job.until(lambda: 0 < len(job.events("t")) < ROWS)
    job.job.close()


class TestLabels:
    """A label of an enum is renamed that is the value of a column, in whatever form."""

    @pytest.mark.parametrize("type_", ["level", "level[]", "high_level", "pair"])
    def test_the_table_is_read_anew(self, each_database, tmp_path, spark, caplog, type_):
        with each_database.connect() as connection:
            connection.execute(SIGNAL_TABLE)
            connection.execute("CREATE TYPE level AS ENUM ('low', 'high')")
            connection.execute("CREATE DOMAIN high_level AS level")
            connection.execute("CREATE TYPE pair AS (n int, l level)")
            connection.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {type_}, other int)".encode())
            made = {"level[]": "'{low}'", "pair": "'(1,low)'"}.get(type_, "'low'")
            connection.execute(
                f"INSERT INTO t SELECT g, {made}::{type_} FROM generate_series(1, {ROWS}) g".encode()
            )
            with driven(each_database, tmp_path, spark, **SMALL, include__unknown__datatypes="true") as job:
                connection.execute(SNAPSHOT)
                half_read(job)
                connection.execute("ALTER TYPE level RENAME VALUE 'low' TO 'least'")
                job.until_answered("finished")
                rows = replayed_rows(job.events("t"))

        assert "labels of its values' types were renamed" in caplog.text
        assert len(rows) == ROWS
        # A composite value is bytes in the events.
        assert {str(row["v"]).count("least") for row in rows.values()} == {0 if type_ == "pair" else 1}


@pytest.fixture
def parted(each_database: Database) -> Database:
    with each_database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
        for number in range(2):
            bounds = f"FROM ({number * 500 + 1}) TO ({number * 500 + 501})"
            connection.execute(f"CREATE TABLE t{number} PARTITION OF t FOR VALUES {bounds}".encode())
        connection.execute(f"INSERT INTO t SELECT g, 'v' FROM generate_series(1, {ROWS}) g".encode())
        connection.execute(
            "CREATE PUBLICATION dbz_publication FOR TABLE t, signals WITH (publish_via_partition_root = true)"
        )
    return each_database


def changed(
    database: Database, directory: Path, spark: Any, statements: Sequence[str], *, restart: bool
) -> Driven:
    """A job whose table was changed while half of it was read; with `restart` by a job that was down."""
    with driven(database, directory, spark, **SMALL) as job, database.connect() as connection:
        connection.execute(SNAPSHOT)
        half_read(job)
        for statement in statements:
            connection.execute(statement.encode())
        if not restart:
            job.until(lambda: job.job.state.incomplete or job.answered("finished"))
            job.until_answered("finished")
            job.until_drained(database)
            return job
    with driven(database, directory, spark, **SMALL) as job:
        job.until_answered("finished")
        job.until_drained(database)
        return job


class TestTruncatedPartition:
    """TRUNCATE of a partition is not published under its root."""

    def test_the_log_does_not_have_it(self, parted, tmp_path, spark):
        every = {"skipped__operations": "none"}
        with driven(parted, tmp_path, spark, **every) as job, parted.connect() as connection:
            connection.execute("TRUNCATE t0")
            connection.execute("TRUNCATE t")
            job.until_drained(parted)

            assert [event["value"]["op"] for event in job.events("t") if event["value"]] == ["t"]

    @pytest.mark.parametrize("restart", [False, True])
    def test_it_is_told_and_said_with_the_answer(self, parted, tmp_path, spark, caplog, restart):
        job = changed(parted, tmp_path, spark, ["TRUNCATE t0"], restart=restart)

        assert "truncated" in caplog.text
        assert "rows deleted in the gap were not reported" in job.answered("finished")[0].text
        assert not job.job.state.incomplete
        assert set(range(501, ROWS + 1)) <= set(replayed_rows(job.events("t")))

    def test_until_then_the_table_is_known_to_lack_it(self, parted, tmp_path, spark):
        with driven(parted, tmp_path, spark, **SMALL) as job, parted.connect() as connection:
            connection.execute(SNAPSHOT)
            half_read(job)
            connection.execute("TRUNCATE t0")
            job.until(lambda: job.job.state.incomplete)
            (found,) = job.job.state.incomplete
            reads = len(job.events("t"))
            job.until_answered("finished")

            assert (found.cause, str(found.collection)) == (Cause.DELETIONS, "public.t")
            assert "were truncated" in found.why
            assert reads + 500 <= len(job.events("t")) + 1 <= ROWS + 1

    @pytest.mark.parametrize(
        "statement", ["ANALYZE t0", "VACUUM t0", "DELETE FROM t0", "CREATE INDEX ON t0 (v)"]
    )
    def test_nothing_else_is_taken_for_it(self, parted, tmp_path, spark, statement):
        job = changed(parted, tmp_path, spark, [statement], restart=False)

        assert "rows deleted in the gap were not reported" not in job.answered("finished")[0].text

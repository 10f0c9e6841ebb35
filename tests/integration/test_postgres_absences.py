"""Tables that the log leaves out for a while although their publication stays as it is: on a real server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from adapters.postgres.server.watches import membership
from engine.isolation.incomplete import Cause
from tests.driven import SIGNAL_TABLE, Driven, driven, replayed_rows, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ONLY = {"snapshot__mode": "initial", "publication__autocreate__mode": "disabled", "publication__name": "pub"}
LISTED = {**ONLY, "table__include__list": r"public\.(a|b|signals)"}
ROWS = "SELECT g, 'bulk' FROM generate_series(100, 149) g"
PARTITIONED = (
    "CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE a PARTITION OF t FOR VALUES FROM (0) TO (200)",
    "INSERT INTO t VALUES (1, 'x')",
)
PLAIN = ("CREATE TABLE a (id int PRIMARY KEY, v text)", "INSERT INTO a VALUES (1, 'x')")
CREATED_AGAIN = ("DROP TABLE a", PLAIN[0], "INSERT INTO a VALUES (7, 'y')")


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_EVERY_S", 0.1)


def at_once(database: Database, *statements: str) -> None:
    """Run statements in one transaction."""
    with database.connect(autocommit=False) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def lacking(one: Driven) -> dict[str, Cause]:
    return {str(fault.collection): fault.cause for fault in one.job.state.incomplete}


@pytest.mark.parametrize(
    ("publication", "statements"),
    [
        pytest.param(
            "FOR ALL TABLES",
            (
                "CREATE TABLE made (id int PRIMARY KEY, v text)",
                f"INSERT INTO made {ROWS}",
                "ALTER TABLE made RENAME TO b",
            ),
            id="renamed into the lists",
        ),
        pytest.param(
            "FOR ALL TABLES",
            (
                "CREATE UNLOGGED TABLE b (id int PRIMARY KEY, v text)",
                f"INSERT INTO b {ROWS}",
                "ALTER TABLE b SET LOGGED",
            ),
            id="logged only later",
        ),
        pytest.param(
            "FOR TABLE t, signals",
            (
                "CREATE TABLE b (LIKE t INCLUDING ALL)",
                f"INSERT INTO b {ROWS.replace('100, 149', '300, 349')}",
                "ALTER TABLE t ATTACH PARTITION b FOR VALUES FROM (300) TO (400)",
            ),
            id="attached",
        ),
    ],
)
def test_a_table_that_was_filled_before_it_is_captured_is_read(
    database: Database, tmp_path: Path, spark: SparkSession, publication: str, statements: tuple[str, ...]
):
    database.execute(SIGNAL_TABLE, *PARTITIONED, f"CREATE PUBLICATION pub {publication}")
    with driven(database, tmp_path, spark, **LISTED) as one:
        one.until(lambda: not one.job.state.snapshot.tables)
        at_once(database, *statements)
        one.until(lambda: "tidemark-new-public.b" in {answer.id for answer in one.answered("finished")})
        one.until_drained(database)

        assert replayed_rows(one.events("b")) == rows_of(database, "b")


@pytest.mark.parametrize(
    ("tables", "publication", "statements", "cause"),
    [
        pytest.param(
            PARTITIONED,
            "FOR TABLE t, signals",
            (
                "ALTER TABLE t DETACH PARTITION a",
                f"INSERT INTO a {ROWS}",
                "ALTER TABLE t ATTACH PARTITION a FOR VALUES FROM (0) TO (200)",
            ),
            Cause.GAP,
            id="detached for a while",
        ),
        pytest.param(
            PLAIN,
            "FOR ALL TABLES",
            (
                "ALTER TABLE a RENAME TO work",
                "UPDATE work SET v = 'changed'",
                "ALTER TABLE work RENAME TO a",
            ),
            Cause.GAP,
            id="renamed for a while",
        ),
        pytest.param(
            PLAIN,
            "FOR TABLE a, signals",
            CREATED_AGAIN,
            Cause.GAP,
            id="created again, unpublished",
        ),
        pytest.param(
            PLAIN,
            "FOR ALL TABLES",
            CREATED_AGAIN,
            Cause.DELETIONS,
            id="created again",
        ),
    ],
)
def test_a_table_that_the_log_left_out_is_told(
    database: Database,
    tmp_path: Path,
    spark: SparkSession,
    tables: tuple[str, ...],
    publication: str,
    statements: tuple[str, ...],
    cause: Cause,
):
    database.execute(SIGNAL_TABLE, *tables, f"CREATE PUBLICATION pub {publication}")
    with driven(database, tmp_path, spark, **LISTED) as one:
        one.until(lambda: not one.job.state.snapshot.tables)
        at_once(database, *statements)
        one.until(lambda: bool(lacking(one)))

        assert lacking(one) == {"public.a": cause}


def test_a_table_that_was_created_again_while_no_job_ran_is_told(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE, *PLAIN, "CREATE PUBLICATION pub FOR TABLE a, signals")
    with driven(database, tmp_path, spark, **LISTED) as one:
        one.until(lambda: not one.job.state.snapshot.tables)
    database.execute(*CREATED_AGAIN)
    with driven(database, tmp_path, spark, **LISTED) as one:
        one.until(lambda: bool(lacking(one)))

        assert lacking(one) == {"public.a": Cause.GAP}


def test_partitions_of_a_captured_root(database: Database, tmp_path: Path, spark: SparkSession):
    database.execute(
        SIGNAL_TABLE,
        *PARTITIONED,
        "CREATE PUBLICATION pub FOR TABLE t, signals WITH (publish_via_partition_root)",
    )
    with driven(database, tmp_path, spark, **ONLY) as one:
        one.until(lambda: not one.job.state.snapshot.tables)
        database.execute(
            "CREATE TABLE b PARTITION OF t FOR VALUES FROM (200) TO (300)",
            "INSERT INTO t VALUES (200, 'x')",
            "CREATE TABLE c (LIKE t INCLUDING ALL)",
            "ALTER TABLE t ATTACH PARTITION c FOR VALUES FROM (300) TO (400)",
        )
        one.until_drained(database)
        looked_s = time.monotonic() + 1
        one.until(lambda: time.monotonic() > looked_s)
        assert not lacking(one)

        at_once(
            database,
            "CREATE TABLE d (LIKE t INCLUDING ALL)",
            "INSERT INTO d VALUES (400, 'x')",
            "ALTER TABLE t ATTACH PARTITION d FOR VALUES FROM (400) TO (500)",
        )
        one.until(lambda: bool(lacking(one)))

        assert lacking(one) == {"public.t": Cause.GAP}
        assert "public.d" in one.job.state.incomplete[0].why

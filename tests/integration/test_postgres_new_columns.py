"""Columns that are added with a default while the job runs, or between two runs, on real servers.

The log has no values of such a column for rows that nobody changes.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.server.watches import column_watch, membership
from tests.driven import SIGNAL_TABLE, Driven, driven, replayed_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SETTINGS = {"snapshot__mode": "initial", "tidemark__snapshot__new": "columns"}


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_watch, "_EVERY_S", 0.2)
    monkeypatch.setattr(membership, "_EVERY_S", 0.1)


def make(database: Database, name: str) -> None:
    database.execute(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
        f"INSERT INTO {name} SELECT g, 'old' FROM generate_series(1, 50) g",
    )


@contextmanager
def job(database: Database, directory: Path, spark: SparkSession, **more: str) -> Iterator[Driven]:
    with driven(database, directory, spark, **{**SETTINGS, **more}) as one:
        one.until(lambda: not one.job.state.snapshot.tables)
        one.until(settled(one))
        yield one


def settled(one: Driven) -> Any:
    """Whether the columns that are there now have been noted."""

    def noted() -> bool:
        columns = one.job._parts.source._opened().session.columns  # type: ignore[attr-defined]
        return columns is None or bool(columns._settled)

    return noted


def new(one: Driven, outcome: str) -> list[str | None]:
    return [answer.id for answer in one.answered(outcome) if (answer.id or "").startswith("tidemark-new-")]


def reads(one: Driven, table: str) -> int:
    return [event["value"]["op"] for event in one.events(table) if event["value"]].count("r")


def test_a_column_with_a_default_has_its_table_read(each_database, tmp_path, spark):
    kinds = {
        "fast": "int DEFAULT 7",
        "rewritten": "text DEFAULT md5(random()::text)",
        "identity": "int GENERATED ALWAYS AS IDENTITY",
        "domain": "worth",
    }
    each_database.execute(SIGNAL_TABLE, "CREATE DOMAIN worth AS int DEFAULT 9")
    for name in (*kinds, "other"):
        make(each_database, name)
    with job(each_database, tmp_path, spark) as one:
        for name, added in kinds.items():
            each_database.execute(f"ALTER TABLE {name} ADD COLUMN c {added}")
            each_database.execute(f"UPDATE {name} SET v = 'new' WHERE id % 3 = 0")
        one.until(lambda: len(new(one, "finished")) == len(kinds))
        one.until_drained(each_database)

        assert sorted(map(str, new(one, "accepted"))) == sorted(
            f"tidemark-new-public.{name}-c" for name in kinds
        )
        for name in kinds:
            assert replayed_rows(one.events(name)) == rows_of(each_database, name)
        assert reads(one, "other") == 50


def test_neither_a_restart_before_it_is_found_nor_one_before_it_is_read_loses_it(database, tmp_path, spark):
    database.execute(SIGNAL_TABLE)
    make(database, "a")
    with job(database, tmp_path, spark):
        pass
    database.execute("ALTER TABLE a ADD COLUMN c int DEFAULT 7")
    with driven(database, tmp_path, spark, **SETTINGS) as one:
        one.until(lambda: bool(one.job.state.snapshot.tables))
        assert not new(one, "finished")
    with driven(database, tmp_path, spark, **SETTINGS) as one:
        one.until(lambda: new(one, "finished") == ["tidemark-new-public.a-c"])
        database.execute("INSERT INTO a VALUES (100, 'last')")
        one.until(settled(one))
        one.until_drained(database)

        assert not one.job.state.snapshot.tables
        assert reads(one, "a") == 2 * 50
        assert replayed_rows(one.events("a")) == rows_of(database, "a")


def test_what_leaves_older_rows_as_they_are_reads_nothing(database, tmp_path, spark):
    database.execute(SIGNAL_TABLE)
    make(database, "a")
    excluded = {"column__exclude__list": r"public\.a\.hidden"}
    with job(database, tmp_path, spark, **excluded) as one:
        database.execute(
            "ALTER TABLE a ADD COLUMN bare int",
            "ALTER TABLE a ADD COLUMN hidden int DEFAULT 7",
            "ALTER TABLE a ADD COLUMN twice int GENERATED ALWAYS AS (id * 2) STORED",
            "ALTER TABLE a ALTER COLUMN v SET DEFAULT 'x'",
            "ALTER TABLE a DROP COLUMN bare",
        )
        columns = one.job._parts.source._opened().session.columns  # type: ignore[attr-defined]
        before = columns._settled
        one.until(lambda: columns._settled != before)
        one.until_drained(database)

        assert not new(one, "accepted")
        assert reads(one, "a") == 50


def test_a_table_created_while_captured_is_read_if_a_default_came_after_its_rows(database, tmp_path, spark):
    database.execute(SIGNAL_TABLE)
    with job(database, tmp_path, spark) as one:
        make(database, "late")
        database.execute("ALTER TABLE late ADD COLUMN c int DEFAULT 7")
        one.until(lambda: bool(new(one, "finished")))
        one.until_drained(database)

        assert replayed_rows(one.events("late")) == rows_of(database, "late")

"""Tables that are captured only since the job runs: each way to become captured, on a real server."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from adapters.postgres.server.watches import membership
from tests.driven import SIGNAL_TABLE, Driven, driven, replayed_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ONLY = {"snapshot__mode": "initial", "publication__autocreate__mode": "disabled", "publication__name": "pub"}
NEW = "tidemark-new-public.b"


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "_EVERY_S", 0.1)


def make(database: Database, name: str, rows: int = 50) -> None:
    database.execute(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v text)",
        f"INSERT INTO {name} SELECT g, 'old' FROM generate_series(1, {rows}) g",
    )


@contextmanager
def job(database: Database, directory: Path, spark: SparkSession, **more: str) -> Iterator[Driven]:
    with driven(database, directory, spark, **{**ONLY, **more}) as one:
        one.until(lambda: not one.job.state.snapshot.tables)
        yield one


@pytest.fixture
def published(database: Database) -> Database:
    """Table a is published alone, beside the signal table; b exists."""
    database.execute(SIGNAL_TABLE)
    make(database, "a")
    make(database, "b")
    database.execute("CREATE PUBLICATION pub FOR TABLE a, signals")
    return database


def new(one: Driven, outcome: str) -> list[str | None]:
    return [answer.id for answer in one.answered(outcome) if (answer.id or "").startswith("tidemark-new-")]


def until_read(one: Driven) -> None:
    one.until(lambda: new(one, "finished"))


def test_a_table_that_is_published_is_read_by_a_snapshot_of_its_own(published, tmp_path, spark):
    with job(published, tmp_path, spark) as one:
        published.execute("ALTER PUBLICATION pub ADD TABLE b", "UPDATE b SET v = 'new' WHERE id % 3 = 0")
        until_read(one)
        one.until_drained(published)

        assert new(one, "accepted") == new(one, "finished") == [NEW]
        assert replayed_rows(one.events("b")) == rows_of(published, "b")
        ops = [event["value"]["op"] for event in one.events("b")]
        assert ops.count("r") >= 33


def test_one_published_while_no_job_ran_is_read_once(published, tmp_path, spark):
    with job(published, tmp_path, spark):
        pass
    published.execute("ALTER PUBLICATION pub ADD TABLE b")
    with job(published, tmp_path, spark) as one:
        until_read(one)
    with job(published, tmp_path, spark) as one:
        published.execute("INSERT INTO b VALUES (100, 'last')")
        one.until_drained(published)

        assert not new(one, "accepted")
        # The initial snapshot had read it, and the log had nothing of it until it was published.
        assert len([event for event in one.events("b") if event["value"]["op"] == "r"]) == 2 * 50
        assert replayed_rows(one.events("b")) == rows_of(published, "b")


def test_a_crash_before_it_is_queued_finds_it_again(published, tmp_path, spark):
    with job(published, tmp_path, spark) as one:
        published.execute("ALTER PUBLICATION pub ADD TABLE b")
        one.job._parts.source._opened().session.membership._due = 0.0  # type: ignore[attr-defined]
        one.job._parts.source.tick(one.job.state)
    with job(published, tmp_path, spark) as one:
        until_read(one)

        assert replayed_rows(one.events("b")) == rows_of(published, "b")


def test_one_created_while_captured_is_only_announced(database, tmp_path, spark, caplog):
    database.execute(SIGNAL_TABLE, "CREATE PUBLICATION pub FOR ALL TABLES")
    make(database, "a")
    with caplog.at_level(logging.INFO), job(database, tmp_path, spark) as one:
        make(database, "b")
        one.until(lambda: "public.b was created while it is captured" in caplog.text)
        one.until_drained(database)

        assert not new(one, "accepted")
        assert [event["value"]["op"] for event in one.events("b")] == ["c"] * 50


def test_one_renamed_into_the_lists_is_read(database, tmp_path, spark):
    """Its rows are older than its name, so the log has none of them under it."""
    database.execute(SIGNAL_TABLE, "CREATE PUBLICATION pub FOR ALL TABLES")
    make(database, "a")
    make(database, "other")
    lists = {"table__include__list": r"public\.(a|b|signals)"}
    with job(database, tmp_path, spark, **lists) as one:
        database.execute("ALTER TABLE other RENAME TO b")
        until_read(one)

        assert replayed_rows(one.events("b")) == rows_of(database, "b")


@pytest.mark.parametrize("more", [{"tidemark__snapshot__new": "off"}, {"snapshot__mode": "never"}])
def test_nothing_is_read_where_nobody_wants_it(published, tmp_path, spark, more):
    with job(published, tmp_path, spark, **more) as one:
        before = len(one.events("b"))
        published.execute("ALTER PUBLICATION pub ADD TABLE b", "INSERT INTO b VALUES (100, 'new')")
        one.until(lambda: len(one.events("b")) > before)
        for _turn in range(20):
            one.job.turn()

        assert not new(one, "accepted")
        assert [event["value"]["op"] for event in one.events("b")][before:] == ["c"]

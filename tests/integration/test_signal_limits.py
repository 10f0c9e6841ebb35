"""What somebody who may only insert signals might try to make the job or its server swell or stand still."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


def create(database: Database, *statements: str) -> None:
    with database.connect() as connection:
        for statement in (SIGNAL_TABLE, *statements, "CREATE PUBLICATION dbz_publication FOR ALL TABLES"):
            connection.execute(statement.encode())


def ask(database: Database, table: str, **data: Any) -> None:
    text = json.dumps({"data-collections": [f"public.{table}"], **data})
    with database.connect() as connection:
        connection.execute("INSERT INTO signals VALUES ('s', 'execute-snapshot', %s)", [text])


@pytest.mark.parametrize("least", [1_000, 131_000])
def test_short_keys_that_the_server_writes_at_length_are_refused(
    database: Database, tmp_path: Path, spark: SparkSession, least: int
):
    """Ten thousand keys of eight characters each came to a gigabyte, in the driver and in its state."""
    create(
        database,
        "CREATE TABLE amounts (id numeric PRIMARY KEY)",
        "INSERT INTO amounts SELECT generate_series(1, 50)",
    )
    exponents = [least + number / 100 for number in range(5_000)] if least < 2_000 else [least]
    keys = [[f"{number % 1 + 1:.2f}e{int(number)}"] for number in exponents]
    with driven(database, tmp_path, spark) as job:
        ask(database, "amounts", keys=keys)
        ask(database, "amounts", keys=[[7], ["8.0"], ["1e1"]])
        job.until_answered("finished")

        assert "too long as the server writes them" in job.answered("rejected")[0].text
        assert "3 rows read, 3 of 3 keys found" in job.answered("finished")[0].text


@pytest.mark.thorough
def test_dry_runs_with_conditions_that_are_planned_for_long_do_not_add_up(
    database: Database, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    """Each may take six seconds, and the stream waits meanwhile: five hundred held it for fifty minutes."""
    monkeypatch.setattr("adapters.postgres.conditions.planning._PLAN_ANSWER_S", 0.5)
    monkeypatch.setattr("adapters.source.conditions.checking_time._AT_ONCE_S", 1.0)
    monkeypatch.setattr(
        "engine.job.snapshots.dry_runs.LONGEST_S", 600.0
    )  # the other limit, which comes first
    create(database, "CREATE TABLE tagged (id int PRIMARY KEY)")
    slow = " OR ".join(["exp(5999.5) = id"] * 400)
    with driven(database, tmp_path, spark) as job:
        for number in range(20):
            ask(database, "tagged", **{"dry-run": True, "additional-condition": f"id = {number} OR {slow}"})
        job.until(lambda: len(job.answered("rejected")) + len(job.answered("failed")) == 20)

        said = [answer.text for answer in (*job.answered("rejected"), *job.answered("failed"))]
        assert 1 <= sum("takes too long to plan" in text for text in said) < 10
        assert sum("has taken its time" in text for text in said) > 10


@pytest.mark.parametrize("road", [{}, {"tidemark__window__local__rows": "0"}], ids=["near", "far"])
def test_a_blocking_snapshots_select_writes_nothing(
    database: Database,
    tmp_path: Path,
    spark: SparkSession,
    road: dict[str, str],
    caplog: pytest.LogCaptureFixture,
):
    """Also where signals may have any SQL: the sessions that read are read-only."""
    create(
        database,
        "CREATE TABLE tagged AS SELECT generate_series(1, 5) AS id",
        "ALTER TABLE tagged ADD PRIMARY KEY (id)",
        "CREATE SEQUENCE counted",
    )
    select = "SELECT id FROM tagged WHERE nextval('counted') > 0"
    entry = {"data-collection": "public.tagged", "filter": select}
    with driven(database, tmp_path, spark, tidemark__snapshot__conditions="sql", **road) as job:
        ask(database, "tagged", type="blocking", **{"additional-conditions": [entry]})
        job.until(lambda: "in a read-only transaction" in caplog.text)

    with database.connect() as connection:
        row = connection.execute("SELECT is_called FROM counted").fetchone()
    assert row == (False,)


@pytest.mark.parametrize(
    ("mode", "said"),
    [("off", "conditions are not taken"), ("expressions", "the condition is refused")],
)
def test_a_blocking_snapshots_select_is_ruled_by_the_same_setting(
    database: Database, tmp_path: Path, spark: SparkSession, mode: str, said: str
):
    create(
        database,
        "CREATE TABLE tagged (id int PRIMARY KEY, name text)",
        "CREATE TABLE hidden (id int PRIMARY KEY, name text)",
        "INSERT INTO tagged VALUES (1, 'a')",
        "INSERT INTO hidden VALUES (2, 'b')",
    )
    selects = (
        "SELECT * FROM hidden",
        "SELECT * FROM tagged WHERE id IN (SELECT id FROM hidden)",
        "SELECT * FROM tagged UNION SELECT * FROM hidden",
        "SELECT id, (SELECT max(name) FROM hidden) AS name FROM tagged",
        "SELECT * FROM tagged, hidden",
        "WITH x AS (DELETE FROM tagged RETURNING *) SELECT * FROM x",
        "SELECT * FROM tagged; DROP TABLE tagged",
        "SELECT * FROM tagged WHERE pg_sleep(60) IS NOT NULL",
        "SELECT * FROM tagged FOR UPDATE",
    )
    with driven(database, tmp_path, spark, tidemark__snapshot__conditions=mode) as job:
        for select in selects:
            entry = {"data-collection": "public.tagged", "filter": select}
            ask(database, "tagged", type="blocking", **{"additional-conditions": [entry]})
        job.until_answered("rejected", len(selects))

        assert all(said in answer.text for answer in job.answered("rejected"))
        assert not [event for event in job.events("tagged") if event["value"]["op"] == "r"]

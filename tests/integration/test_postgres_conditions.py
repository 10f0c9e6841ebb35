"""Conditions of signals on a real server: they choose what their author meant, and do nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from adapters.postgres.conditions.grammar import GRAMMAR, named_column
from adapters.source.conditions.rendering import render_condition
from adapters.source.conditions.writer import Reference, ResolvedColumn
from engine.errors import SignalError
from engine.model import CollectionId
from tests.drawn_conditions import CREATE, TYPES, drawn
from tests.driven import SIGNAL_TABLE, Driven, driven

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
COND = CollectionId(("public", "cond"))
FAR = {"tidemark__window__local__rows": "0"}
SQL = {"tidemark__snapshot__conditions": "sql"}
DRAWN = 1_500


def find(reference: Reference) -> ResolvedColumn | None:
    name = named_column(reference, COND)
    return ResolvedColumn(f'"{name}"', f"pg_catalog.{TYPES[name]}") if name in TYPES else None


def chosen(connection: psycopg.Connection[Any], condition: str) -> list[int] | None:
    """The rows that the server chooses; None where it does not take the condition."""
    try:
        rows = connection.execute(f"SELECT id FROM cond WHERE ({condition}\n) ORDER BY id".encode())
        return [row[0] for row in rows.fetchall()]
    except psycopg.Error:
        return None


def test_what_is_written_chooses_the_rows_that_were_meant(each_database: Database):
    same = 0
    with each_database.connect() as connection:
        for statement in CREATE:
            connection.execute(statement.encode())
        for condition in drawn(31, DRAWN):
            meant = chosen(connection, condition)
            try:
                text = render_condition(condition, GRAMMAR, find, "public.cond")
            except SignalError:
                continue
            if meant is not None:
                same += 1
                assert chosen(connection, text) == meant, condition

    assert same > DRAWN / 3


@pytest.fixture
def tagged(database: Database) -> Database:
    with database.connect() as connection:
        for statement in (
            SIGNAL_TABLE,
            "CREATE TABLE tagged (id int PRIMARY KEY, name varchar(40), tags jsonb, hidden text)",
            """INSERT INTO tagged SELECT i, CASE WHEN i % 2 = 0 THEN 'it''s ?' ELSE 'why?' END,
                jsonb_build_object('n', i), 'h' || i FROM generate_series(1, 60) i""",
            "CREATE TABLE secrets AS SELECT 'secret' AS s",
            "CREATE TABLE evidence (what text)",
            "CREATE SEQUENCE counted",
            "CREATE PUBLICATION dbz_publication FOR TABLE signals, tagged (id, name, tags)",
        ):
            connection.execute(statement.encode())
    return database


def ask(database: Database, condition: str) -> None:
    data = json.dumps({"data-collections": ["public.tagged"], "additional-condition": condition})
    with database.connect() as connection:
        connection.execute("INSERT INTO signals VALUES ('x', 'execute-snapshot', %s)", [data])


def stop(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("""INSERT INTO signals VALUES ('y', 'stop-snapshot', '{"type": "incremental"}')""")


def ids(job: Driven) -> list[int]:
    return sorted(event["key"]["id"] for event in job.events("tagged"))


def untouched(database: Database) -> bool:
    """Whether nothing has been written by a condition."""
    with database.connect() as connection:
        evidence = connection.execute("SELECT count(*) FROM evidence").fetchone()
        return (evidence, connection.execute("SELECT is_called FROM counted").fetchone()) == ((0,), (False,))


ATTACKS = (
    *("pg_drop_replication_slot('slot') IS NULL", "1 = 1 {oj secrets}", "nextval('counted') > 0"),
    *("id IN (SELECT length(s) FROM secrets)", "EXISTS (SELECT 1 FROM secrets)", "hidden LIKE 'h1%'"),
    *(
        "true\v); INSERT INTO evidence VALUES ('x'); SELECT (true",
        "true) UNION ALL SELECT 1, 0, s FROM secrets --",
    ),
    *("(" * 60_000, "(" * 48 + "true" + ")" * 48, "NOT " * 5_000 + "true", "a" + "+a" * 20_000, "id = \x7f"),
    *(r"name = E'\u0000'", r"name = E'\x000\x00'"),
    *("id = 99999999999999999999 AND name = 1", "set_config('a.b', 'c', false) = 'c'", "id = $1", "id ="),
)


def test_attacks_are_rejected_one_by_one_and_others_go_on(
    tagged: Database, tmp_path: Path, spark: SparkSession
):
    with driven(tagged, tmp_path, spark) as job:
        for attack in ATTACKS:
            ask(tagged, attack)
        job.until_answered("rejected", len(ATTACKS))
        ask(tagged, "id <= 3")
        job.until_answered("finished")

        assert ids(job) == [1, 2, 3]
        assert not job.answered("failed")
    assert untouched(tagged)


def test_a_condition_of_an_older_state_is_looked_at_again(
    tagged: Database, tmp_path: Path, spark: SparkSession
):
    """It was taken before conditions were checked so, and its table has been measured."""
    attack = "nextval('counted') > 0"
    with driven(tagged, tmp_path, spark) as job:
        ask(tagged, "id > 0")
        job.until(lambda: job.job.state.snapshot.tables and job.job.state.snapshot.tables[0].progress)
        (table,) = job.job.state.snapshot.tables
        job.job._windows.in_progress.close()
        older = replace(table, target=replace(table.target, condition=attack))
        job.job._turns.state = replace(
            job.job.state, snapshot=replace(job.job.state.snapshot, tables=(older,))
        )
        job.until_answered("rejected")

        assert not ids(job)
    assert untouched(tagged)


def test_a_refused_condition_is_not_quoted(
    tagged: Database, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
):
    """What somebody looks for may be the value of a row, and answers are for everybody who reads the log."""
    asked = (
        "id = 'sought'",
        "'x' ~ '(sought'",
        "name = 'sought' LIMIT 1",
        "name = 'sought",
        "name = 1 + 'sought'",
    )
    with driven(tagged, tmp_path, spark) as job:
        for condition in asked:
            ask(tagged, condition)
        job.until_answered("rejected", len(asked))
        answers = [answer.text for answer in job.answered("rejected")]

    assert not [text for text in answers if "sought" in text]
    assert any("error 22P02" in text for text in answers)
    assert "sought" not in caplog.text


def test_a_condition_that_is_planned_for_long_holds_nobody_up(
    tagged: Database, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    """The server works out constants before it reads a row, and looks at no timeout meanwhile."""
    monkeypatch.setattr("adapters.postgres.conditions.planning._PLAN_ANSWER_S", 0.5)
    slow = " OR ".join(["exp(5999.5) = id"] * 400)
    with driven(tagged, tmp_path, spark) as job:
        for condition in (slow, slow, "id <= 3"):
            ask(tagged, condition)
        job.until_answered("finished")

        assert ids(job) == [1, 2, 3]
        assert ["takes too long to plan" in answer.text for answer in job.answered("rejected")] == [
            True,
            True,
        ]
        with tagged.connect() as connection:
            left = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'EXPLAIN%' AND pid <> pg_backend_pid()"
            job.until(lambda: not connection.execute(left).fetchall())


CHOOSING = {
    r"name = E'it\'s ?' AND tags ? 'n'": range(2, 61, 2),
    "name = $$why?$$": range(1, 60, 2),
    "name = 'why?' -- { ? ; '": range(1, 60, 2),
    "id = 1\vOR id = 2": (1, 2),
}


@pytest.mark.parametrize("road", [{}, FAR], ids=["near", "far"])
@pytest.mark.parametrize("mode", [{}, SQL], ids=["expressions", "sql"])
def test_both_roads_read_what_the_server_would(
    tagged: Database, tmp_path: Path, spark: SparkSession, road: dict[str, str], mode: dict[str, str]
):
    with driven(tagged, tmp_path, spark, **road, **mode) as job:
        expected: list[int] = []
        for number, (condition, rows) in enumerate(CHOOSING.items(), 1):
            ask(tagged, condition)
            job.until_answered("finished", number)
            expected = sorted([*expected, *rows])

            assert ids(job) == expected, condition


@pytest.mark.parametrize("road", [{}, FAR], ids=["near", "far"])
def test_readers_sessions_write_nothing_and_end(
    tagged: Database,
    tmp_path: Path,
    spark: SparkSession,
    road: dict[str, str],
    caplog: pytest.LogCaptureFixture,
):
    """By their start-up options: also where somebody with every right says what is read."""
    settings = "current_setting('default_transaction_read_only') || current_setting('statement_timeout')"
    more = {"database__query__timeout__ms": "700", "tidemark__snapshot__conditions": "sql", **road}
    with driven(tagged, tmp_path, spark, **more) as job:
        ask(tagged, f"{settings} = 'on700ms'")
        job.until_answered("finished")
        assert ids(job) == list(range(1, 61))

        ask(tagged, "id < 2 AND nextval('counted') > 0")
        job.until(lambda: "in a read-only transaction" in caplog.text)
        stop(tagged)
        ask(tagged, "id < 2 AND pg_sleep(30) IS NOT NULL")
        job.until(lambda: "due to statement timeout" in caplog.text)
    assert untouched(tagged)


def test_nobodys_own_operators_and_functions_are_called(
    tagged: Database, tmp_path: Path, spark: SparkSession
):
    with tagged.connect() as connection:
        for statement in (
            "CREATE FUNCTION taken(varchar, varchar) RETURNS bool LANGUAGE plpgsql AS 'BEGIN END'",
            "CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'taken'; END $$",
            "CREATE OPERATOR = (leftarg = varchar, rightarg = varchar, function = taken)",
        ):
            connection.execute(statement.encode())
    asked = ("name = 'why?'", "lower(name) = 'why?'", "name IN ('why?', 'x')", "nullif(name, 'x') = name")
    with driven(tagged, tmp_path, spark) as job:
        ask(tagged, " AND ".join(asked))
        job.until_answered("finished")

        assert ids(job) == list(range(1, 60, 2))


def test_conditions_can_be_switched_off(tagged: Database, tmp_path: Path, spark: SparkSession):
    with driven(tagged, tmp_path, spark, tidemark__snapshot__conditions="off") as job:
        ask(tagged, "id = 1")
        job.until_answered("rejected")

        assert "conditions are not taken" in job.answered("rejected")[0].text


def test_operators_of_extensions_are_their_types_own(database: Database, tmp_path: Path, spark: SparkSession):
    with database.connect() as connection:
        for statement in (
            SIGNAL_TABLE,
            "CREATE SCHEMA extensions",
            "CREATE EXTENSION citext SCHEMA extensions",
            "CREATE TYPE state AS ENUM ('open', 'closed')",
            "CREATE TABLE tagged (id int PRIMARY KEY, name extensions.citext, state state)",
            "INSERT INTO tagged VALUES (1, 'Abc', 'open'), (2, 'ABC', 'closed'), (3, 'x', 'open')",
            "CREATE PUBLICATION dbz_publication FOR TABLE signals, tagged",
        ):
            connection.execute(statement.encode())
    asked = (
        "name = 'abc'",
        "name IN ('abc')",
        "name LIKE 'a%'",
        "state IN ('open', 'closed')",
        "state = 'open'",
    )
    with driven(database, tmp_path, spark) as job:
        ask(database, " AND ".join(asked))
        job.until_answered("finished")

        assert ids(job) == [1]

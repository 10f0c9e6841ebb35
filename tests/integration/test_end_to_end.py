"""Signal to replay on a real server: whatever is asked and written, the events give the source's rows."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests import replay
from tests.demo import source
from tests.demo.postgres_users import postgres_users
from tests.driven import SIGNAL_TABLE, Driven, driven

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SMALL_WINDOWS = {"incremental__snapshot__chunk__size": "500", "tidemark__window__max__chunks": "2"}


def signal(database: Database, type_: str | None, data: Any, *, label: str = "ours") -> None:
    text = data if isinstance(data, str) or data is None else json.dumps(data)
    with database.connect() as connection:
        connection.execute("INSERT INTO signals VALUES (%s, %s, %s)", [label, type_, text])


def snapshot(database: Database, *names: str, label: str = "ours", **more: Any) -> None:
    data = {"type": "incremental", "data-collections": names, **more}
    signal(database, "execute-snapshot", data, label=label)


def assert_replayed(
    database: Database, driven_job: Driven, *tables: str, where: str = "true", key: str | None = None
) -> replay.Figures:
    """Replay the events of the job and compare each table of schema public."""
    with database.connect() as connection:
        shapes = {
            f"tm.public.{table}": replay.shape_of(connection, ("public", table), key=(key,) if key else None)
            for table in tables
        }
        figures = replay.replay(connection, driven_job.directory / "events", shapes)
        for table in tables:
            compared = replay.compare(connection, ("public", table), where=where)

            assert compared.equal, (compared, replay.differences(connection, ("public", table)))
            assert compared.source.rows > 0
    return figures


def reads(driven_job: Driven, table: str) -> list[dict[str, Any]]:
    """The rows of a table's READ events."""
    values = (event["value"] for event in driven_job.events(table))
    return [value["after"] for value in values if value and value["op"] == "r"]


def assert_history_runs_forwards(events: list[dict[str, Any]]) -> None:
    """Every write of an order sets `placed_at` to a later time, so no event may show an earlier one."""
    newest: dict[int, datetime] = {}
    for value in (event["value"] for event in events):
        if value and value["after"]:
            order, moment = value["after"]["id"], datetime.fromisoformat(value["after"]["placed_at"])

            assert newest.get(order, moment) <= moment, value
            newest[order] = moment


def numbered(table: str, rows: int) -> tuple[str, str]:
    """Statements that make a table with an integer key."""
    return (
        f"CREATE TABLE {table} (id int PRIMARY KEY, name text)",
        f"INSERT INTO {table} SELECT i, 'row ' || i FROM generate_series(1, {rows}) i",
    )


@pytest.mark.parametrize("strategy", ["visibility", "insert_insert", "insert_delete"])
def test_replaying_a_snapshot_under_load_gives_the_source(
    strategy: str, database: Database, tmp_path: Path, spark: SparkSession
):
    source.fill(database, orders=20_000, stock=2_000)
    more = {
        "signal__data__collection": source.SIGNALS,
        "incremental__snapshot__watermarking__strategy": strategy,
        "incremental__snapshot__chunk__size": "1500",
        "tidemark__window__max__chunks": "4",
    }
    with driven(database, tmp_path, spark, **more) as job:
        writers = postgres_users(database, orders=20_000, stock=2_000, per_s=400)
        with writers:
            data = '{"data-collections": ["public.orders", "inventory.stock"]}'
            database.execute(f"INSERT INTO {source.SIGNALS} VALUES ('x', 'execute-snapshot', '{data}')")
            job.until_answered("finished", 2)
            written = writers.stop()
        job.until_drained(database)

    assert written > 0
    with database.connect() as connection:
        shapes = {f"tm.{'.'.join(table)}": replay.shape_of(connection, table) for table in source.TABLES}
        figures = replay.replay(connection, tmp_path / "events", shapes)
        for table in source.TABLES:
            assert replay.compare(connection, table).equal, replay.differences(connection, table)
        marks = connection.execute(
            f"SELECT data FROM {source.SIGNALS} WHERE type LIKE 'snapshot-window-%'".encode()
        ).fetchall()
    assert bool(marks) == (strategy == "insert_insert")
    for fields in (json.loads(data) for (data,) in marks):
        assert fields["correlationId"] == "x"
        assert set(fields["dataCollectionId"].split(",")) <= {"public.orders", "inventory.stock"}
    assert figures.operations["r"] > 15_000
    assert_history_runs_forwards(job.events("public.orders"))


def test_stop_without_names_stops_everything_and_streaming_goes_on(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE, *numbered("one", 5_000), *numbered("two", 5_000))
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(database, "public.one", "public.two")
        job.until(lambda: reads(job, "one"))
        signal(database, "stop-snapshot", {"type": "incremental"})
        job.until_answered("stopped", 2)
        database.execute("INSERT INTO one VALUES (9999, 'later')")
        job.until_drained(database)

        assert not job.job.state.snapshot.tables
        assert not job.answered("finished")
        assert 0 < len(reads(job, "one")) < 5_000
        assert not reads(job, "two")
        assert job.events("one")[-1]["value"]["op"] == "c"


def test_stop_with_names_leaves_the_others(database: Database, tmp_path: Path, spark: SparkSession):
    database.execute(SIGNAL_TABLE, *numbered("one", 3_000), *numbered("two", 3_000))
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(database, "public.one", "public.two")
        job.until(lambda: reads(job, "one"))
        signal(database, "stop-snapshot", {"type": "incremental", "data-collections": ["public.one"]})
        job.until_answered("finished")

        assert ["public.one" in answer.text for answer in job.answered("stopped")] == [True]
        assert 0 < len(reads(job, "one")) < 3_000
        assert len(reads(job, "two")) == 3_000


def test_a_table_that_is_asked_for_twice_is_read_once_and_each_signal_is_answered(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE, *numbered("one", 2_000), *numbered("two", 500))
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        # In one transaction: nothing has been read of the table when it is asked for again.
        asked = [{"data-collections": names} for names in (["public.one"], ["public.two", "public.one"])]
        rows = ", ".join(f"('ours', 'execute-snapshot', '{json.dumps(data)}')" for data in asked)
        database.execute(f"INSERT INTO signals VALUES {rows}")
        job.until_answered("finished", 3)

        assert Counter(row["id"] for row in reads(job, "one")) == dict.fromkeys(range(1, 2_001), 1)
        assert len(reads(job, "two")) == 500
        assert_replayed(database, job, "one", "two")


BAD_SIGNALS: dict[str, tuple[str | None, Any]] = {
    "unknown type": ("execute-snapsht", {"data-collections": ["public.one"]}),
    "no type": ("", {"data-collections": ["public.one"]}),
    "no data": ("execute-snapshot", None),
    "broken data": ("execute-snapshot", '{"data-collections": ['),
    "an array": ("execute-snapshot", '["public.one"]'),
    "no collections": ("execute-snapshot", {"type": "incremental"}),
    "a paused blocking snapshot": ("pause-snapshot", {"type": "blocking"}),
    "no such table": ("execute-snapshot", {"data-collections": ["public.onn"]}),
    "not the whole name": ("execute-snapshot", {"data-collections": ["public.o"]}),
    "a broken pattern": ("execute-snapshot", {"data-collections": ["public.(one"]}),
    "a stop of an unknown type": ("stop-snapshot", {"type": "nonsense", "data-collections": ["public.one"]}),
    "a broken condition": (
        "execute-snapshot",
        {"data-collections": ["public.one"], "additional-condition": "nonsense = 1"},
    ),
    "a second statement": (
        "execute-snapshot",
        {"data-collections": ["public.one"], "additional-condition": "true); DELETE FROM one; --"},
    ),
    "no such surrogate key": (
        "execute-snapshot",
        {"data-collections": ["public.one"], "surrogate-key": "nonsense"},
    ),
}


def test_bad_signals_are_answered_one_by_one_and_stop_nothing(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE, *numbered("one", 100))
    with driven(database, tmp_path, spark) as job:
        for label, (type_, data) in BAD_SIGNALS.items():
            before = len(job.answered("rejected"))
            signal(database, type_, data, label=label)
            job.until_answered("rejected", before + 1)
        snapshot(database, "public.one")
        job.until_answered("finished")

        assert len(job.answered("rejected")) == len(BAD_SIGNALS)
        assert not job.answered("failed")
        assert len(reads(job, "one")) == 100


def test_an_empty_list_and_an_empty_table_are_answered(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE, "CREATE TABLE empty (id int PRIMARY KEY)")
    with driven(database, tmp_path, spark) as job:
        snapshot(database)
        snapshot(database, "public.empty")
        job.until_answered("finished")

        assert len(job.answered("accepted")) == 2
        assert not job.answered("rejected")


def test_a_table_without_a_key_needs_a_surrogate(database: Database, tmp_path: Path, spark: SparkSession):
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE keyless (number bigint NOT NULL, name text)",
        "INSERT INTO keyless SELECT i, 'row ' || i FROM generate_series(1, 3000) i",
    )
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(database, "public.keyless")
        job.until_answered("rejected")
        snapshot(database, "public.keyless", **{"surrogate-key": "number"})
        database.execute("INSERT INTO keyless SELECT i, NULL FROM generate_series(3001, 3050) i")
        job.until_answered("finished")
        job.until_drained(database)

        assert "surrogate-key" in job.answered("rejected")[0].text
        assert_replayed(database, job, "keyless", key="number")


def test_a_quoted_name_is_taken_literally(database: Database, tmp_path: Path, spark: SparkSession):
    database.execute(
        SIGNAL_TABLE,
        'CREATE TABLE "My.Table" ("the key" int PRIMARY KEY, "a ""name""" text)',
        """INSERT INTO "My.Table" SELECT i, 'row ' || i FROM generate_series(1, 1500) i""",
        *numbered("mytable", 10),
    )
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(database, '"public"."My.Table"')
        job.until_answered("finished")
        events = [event for event in job.events() if event["value"] and event["value"]["op"] == "r"]

        assert [event["value"]["source"]["table"] for event in events] == ["My.Table"] * 1500
        assert not reads(job, "mytable")


@pytest.mark.parametrize(
    "condition",
    [
        "id % 3 = 0",
        "tags ? 'odd'",
        "tags ?| array['odd', 'even'] AND name <> 'is it?' -- no more",
        "name = 'it''s /* row' OR id < 700 -- or 'so",
    ],
)
def test_only_rows_of_the_condition_are_read(
    condition: str, database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(
        SIGNAL_TABLE,
        "CREATE TABLE tagged (id int PRIMARY KEY, name text, tags jsonb)",
        "INSERT INTO tagged SELECT i, 'row ' || i, CASE i % 3 WHEN 0 THEN '{\"even\": 1}' WHEN 1 THEN"
        " '{\"odd\": null}' ELSE '{}' END::jsonb FROM generate_series(1, 2000) i",
    )
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(database, "public.tagged", **{"additional-condition": condition})
        job.until_answered("finished")

        assert_replayed(database, job, "tagged", where=f"{condition}\n")


KEYED_TABLES = {
    "by_text": ('region text COLLATE "C", name text', "region, name", "'r' || i % 7, 'né ' || md5(i::text)"),
    "by_uuid": ("id uuid", "id", "md5(i::text)::uuid"),
    "by_moment": ("at timestamp, place text", "at", "timestamp '2020-02-28' + i * interval '7.001 s', 'x'"),
    "by_number": ("n numeric(12, 3)", "n", "(i * 7919 % 100003 - 50000) / 8.0"),
    "by_mixture": ("a int, b text, c date", "c, a, b", "i % 5, 'b' || i, date '2024-01-01' + i % 400"),
    "by_bytes": ("b bytea", "b", "decode(md5(i::text), 'hex')"),
    "by_sparse_int": ("id bigint", "id", "i::bigint * i * 1000003"),
}


def test_keys_of_many_types_are_read_to_the_last_row_under_load(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE)
    for table, (columns, key, row) in KEYED_TABLES.items():
        database.execute(
            f"CREATE TABLE {table} ({columns}, v int DEFAULT 0, PRIMARY KEY ({key}))",
            f"INSERT INTO {table} SELECT {row} FROM generate_series(1, 1700) i",
        )
    database.execute("ANALYZE")
    with driven(database, tmp_path, spark, **SMALL_WINDOWS) as job:
        snapshot(database, "public.by_.*")
        job.until(between_windows(database, job))
        job.until_drained(database)

        figures = assert_replayed(database, job, *KEYED_TABLES)
    assert figures.operations["u"] > 0
    assert figures.operations["d"] > 0


def between_windows(database: Database, job: Driven) -> Callable[[], bool]:
    """Writes a little to every table each time it is asked whether all have been read."""
    some = "WHERE ctid IN (SELECT ctid FROM {table} TABLESAMPLE SYSTEM (5) LIMIT {limit})"

    def finished() -> bool:
        for table in KEYED_TABLES:
            database.execute(
                f"UPDATE {table} SET v = v + 1 {some.format(table=table, limit=5)}",
                f"DELETE FROM {table} {some.format(table=table, limit=1)}",
            )
        return len(job.answered("finished")) == len(KEYED_TABLES)

    return finished


def test_changes_of_keys_between_read_and_emission_supersede_both(
    database: Database, tmp_path: Path, spark: SparkSession
):
    database.execute(SIGNAL_TABLE, *numbered("one", 200))
    with driven(database, tmp_path, spark) as job:
        snapshot(database, "public.one")
        job.until(lambda: job.job.window is not None)
        database.execute(
            "UPDATE one SET id = id + 1000 WHERE id <= 50",
            "DELETE FROM one WHERE id BETWEEN 51 AND 60",
            "UPDATE one SET name = '' WHERE id BETWEEN 61 AND 70",
        )
        job.until_drained(database)
        job.until_answered("finished")

        assert_replayed(database, job, "one")
        by_key: dict[int, list[str]] = defaultdict(list)
        for value in (event["value"] for event in job.events("one")):
            if value:
                by_key[(value["after"] or value["before"])["id"]].append(value["op"])
        assert all(operations[-1] != "r" for key, operations in by_key.items() if key <= 70)
        assert {tuple(by_key[key]) for key in range(71, 201)} == {("r",)}

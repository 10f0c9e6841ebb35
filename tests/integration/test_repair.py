"""Repairing the files of a real job on a real server, while it writes: just what differs is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import SIGNAL_TABLE, driven, replayed_rows
from tests.integration.test_verification import (
    ROWS,
    SMALL,
    TABLES,
    answered,
    ask,
    falsify,
    fault,
    verified,
    writing,
)
from tests.servers.postgres_states import in_background, no_standby

if TYPE_CHECKING:
    from pathlib import Path

    from signals.answers import Answer
    from tests.driven import Driven
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EXTRA = 100_000
BACK = 200_000
"""Keys of rows that only the copy has; those from BACK on come and go while it is repaired."""


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


def repaired(job: Driven, database: Database, id_: str) -> Answer:
    """The answer to a repair."""
    return answered(job, database, "repair", id_)


def add_extra(directory: Path, *keys: int) -> None:
    """Put rows that only the copy has into its first file, as if a snapshot had read them."""
    parts = sorted((directory / "events").glob("turn-*/part-*.jsonl"))
    part = next(part for part in parts if '"topic":"tm.public.orders"' in part.read_text())
    lines = part.read_text().splitlines()
    event = json.loads(lines[-1])
    for key in keys:
        event["key"]["id"] = event["value"]["after"]["id"] = key
        lines.append(json.dumps(event, separators=(",", ":"), ensure_ascii=False))
    part.write_text("".join(f"{line}\n" for line in lines))


def repairs(job: Driven, since: int) -> list[tuple[str, int]]:
    """The operations and keys of what windows and repairs have sent after so many events of the table."""
    return [
        (event["value"]["op"], event["key"]["id"])
        for event in job.events("orders")[since:]
        if event["value"] is not None and event["value"]["source"]["snapshot"] == "incremental"
    ]


def test_just_what_differs_is_sent(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        falsify(tmp_path, fault)
        add_extra(tmp_path, EXTRA, EXTRA + 1)
        since = len(job.events("orders"))

        answer = repaired(job, orders, "mend")
        accepted = verified(job, orders, "after")

        assert answer.outcome == "finished", answer.text
        assert (answer.facts["reads"], answer.facts["deletes"]) == (2 * ROWS // 100, 2)
        wrong = {("r", key) for key in range(1, ROWS + 1) if key % 100 in {1, 2}}
        sent = repairs(job, since)
        assert len(sent) == len(set(sent))
        assert set(sent) == wrong | {("d", EXTRA), ("d", EXTRA + 1)}
        assert accepted.outcome == "finished", accepted.text
        assert accepted.facts["equal"] == ROWS
        events = job.events("orders")
        (at,) = [
            number
            for number, event in enumerate(events)
            if event["key"]["id"] == EXTRA and event["value"] and event["value"]["op"] == "d"
        ]
        deleted, tombstone = events[at : at + 2]
        read = next(event for event in events[since:] if event["value"] and event["value"]["op"] == "r")
        assert (tombstone["key"], tombstone["value"]) == ({"id": EXTRA}, None)
        assert deleted["value"]["before"].keys() == read["value"]["after"].keys()
        assert deleted["value"]["source"].keys() == read["value"]["source"].keys()
        assert deleted["value"].keys() == read["value"].keys()
        assert deleted["value"]["after"] is None


def test_what_is_written_meanwhile_is_neither_undone_nor_deleted(orders, tmp_path, spark):
    """Rows change, come, go and move while faults on their keys are repaired, and some writes heal them."""

    def step(connection: Any, number: int) -> None:
        key = number * 37 % 400 + 1
        connection.execute("UPDATE orders SET note = %s WHERE id = %s", [f"n{number}", key])
        if not number % 20:
            connection.execute("UPDATE orders SET price = %s WHERE id = 500", [number])
        connection.execute("DELETE FROM orders WHERE id = %s", [number % 25 + BACK])
        connection.execute("INSERT INTO orders (id) VALUES (%s)", [(number + 7) % 50 + BACK])
        connection.execute("DELETE FROM orders WHERE id = %s", [(number + 7) % 50 + BACK])
        connection.execute("UPDATE orders SET id = -id WHERE id IN (701, -701)")

    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        falsify(tmp_path, fault)
        add_extra(tmp_path, EXTRA, *range(BACK, BACK + 50, 5))
        since = len(job.events("orders"))
        with writing(orders, step):
            answer = repaired(job, orders, "mend")
        job.until_drained(orders)
        accepted = verified(job, orders, "after")
        events, sent = job.events("orders"), repairs(job, since)

    assert answer.outcome == "finished", answer.text
    assert ("d", EXTRA) in sent
    assert {("r", key) for key in range(1001, ROWS, 100)} <= set(sent)
    assert len(sent) <= 1.1 * (2 * ROWS // 100 + 11)
    assert accepted.outcome == "finished", accepted.text
    with orders.connect() as connection:
        rows = dict(connection.execute("SELECT id, note FROM orders").fetchall())
    assert {key: row["note"] for key, row in replayed_rows(events).items()} == rows


def test_a_repair_begins_anew_after_a_restart(orders, tmp_path, spark):
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        falsify(tmp_path, fault)
        add_extra(tmp_path, EXTRA)
        ask(orders, "repair", "broken off")
        job.until(lambda: any(event["key"]["id"] == EXTRA for event in job.events("orders")[-2:]))
    with driven(orders, tmp_path, spark, **SMALL) as job:
        job.until_answered("finished")
        accepted = verified(job, orders, "after")

    assert job.answered("finished")[0].facts["deletes"] == 0
    assert job.answered("finished")[0].facts["reads"] > 0
    assert accepted.outcome == "finished", accepted.text


def test_a_row_that_no_snapshot_shows_yet_is_not_deleted(orders, tmp_path, spark):
    """Its insert was sent, and its transaction waits for a standby that is missing."""
    with driven(orders, tmp_path, spark, **SMALL) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        with no_standby(orders.server), orders.connect() as local:
            local.execute("SET synchronous_commit = local")
            waiting = in_background(orders, f"INSERT INTO orders (id) VALUES ({EXTRA})")
            job.until(lambda: any(event["key"]["id"] == EXTRA for event in job.events("orders")))
            data = json.dumps({"data-collections": ["public.orders"], "type": "repair"})
            local.execute("INSERT INTO signals VALUES ('early', 'execute-snapshot', %s)", [data])
            job.until_answered("failed")
        waiting.join(10)
        since = len(job.events("orders"))
        answer = repaired(job, orders, "late")

        assert repairs(job, since) == []
        assert replayed_rows(job.events("orders"))[EXTRA]["id"] == EXTRA
    (early,) = job.answered("failed")
    assert "1 rows were sent by transactions that no snapshot of the server shows" in early.text
    assert (answer.outcome, answer.facts["deletes"]) == ("finished", 0)

"""A running Debezium gives way to us: DEBEZIUM.md's recipe, with the real one."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.driven import Driven, driven
from tests.java.debezium import postgres_properties, running

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 5
SHARED = {
    "topic__prefix": "shop",
    "slot__name": "debezium",
    "publication__name": "dbz_publication",
    "key__converter__schemas__enable": "false",
    "value__converter__schemas__enable": "false",
}
"""What both have in common: Debezium's own configuration."""


def changes(first: int) -> list[str]:
    """An insert, an update, a change of the key and a delete, a transaction each."""
    return [
        f"INSERT INTO orders SELECT g, 'new 😀' FROM generate_series({first}, {first + ROWS - 1}) g",
        f"UPDATE orders SET v = 'changed' WHERE id = {first}",
        f"UPDATE orders SET id = id + 10000 WHERE id = {first + 1}",
        f"DELETE FROM orders WHERE id = {first + 2}",
    ]


CHANGES, EVENTS = ROWS + 3, ROWS + 1 + 3 + 2
"""Rows changed by `changes`, and events of them with tombstones."""


RecordTexts = tuple[str | None, str | None, str | None, str]
"""A record as both must send it: its key, its place in the log, its row and its headers; not its time."""
_HELD = re.compile(r"slot debezium held (\d+) changes from \S+ to \S+ when it was taken over")


def told(key: str | None, value: str | None, headers: Any) -> RecordTexts:
    event = json.loads(value) if value else None
    place = str(event["source"]["lsn"]) if event else None
    row = json.dumps([event["op"], event["before"], event["after"]]) if event else None
    return key, place, row, json.dumps(headers)


def ours(job: Driven) -> list[RecordTexts]:
    return [
        told(
            json.dumps(event["key"], separators=(",", ":")),
            event["value"] and json.dumps(event["value"]),
            [[header["key"], header["value"]] for header in event["headers"]],
        )
        for event in job.events("orders")
    ]


@pytest.mark.parametrize("killed", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_we_go_on_from_its_slot_and_what_is_repeated_is_counted(
    database: Database,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
    killed: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, v text)",
        "INSERT INTO orders SELECT g, 'old' FROM generate_series(1, 3) g",
    )
    flush = {"offset.flush.interval.ms": "600000" if killed else "0"}
    properties = postgres_properties(database, snapshot__mode="initial", **SHARED)
    with running({**properties, **flush}, tmp_path) as engine:
        engine.until(lambda sent: len(sent) == 3)
        database.execute(*changes(100), *changes(200))
        engine.until(lambda sent: len(sent) == 3 + 2 * EVENTS)
        if killed:
            engine.kill()
    database.execute(*changes(300))

    with caplog.at_level(logging.INFO, "adapters"):
        more = {**SHARED, "signal__data__collection": "", "snapshot__mode": "never"}
        with driven(database, tmp_path, spark, **more) as job:
            job.until_drained(database)
            database.execute(*changes(400))
            job.until_drained(database)
            job.job.turn()

    theirs, mine = [told(event.key, event.value, event.headers) for event in engine.sent[3:]], ours(job)
    repeated = (Counter(theirs) & Counter(mine)).total()
    # Nothing is lost or out of order, and what comes twice is the end of what it had sent.
    assert theirs[len(theirs) - repeated :] == mine[:repeated]
    assert len(theirs) + len(mine) - repeated == 4 * EVENTS
    # A stop in good order leaves the last transactions unacknowledged, a crash all since the last flush.
    assert repeated == 2 * EVENTS if killed else 0 < repeated < EVENTS
    counted = [int(found[1]) for line in caplog.messages if (found := _HELD.search(line))]
    assert counted == [len({place for _key, place, *_rest in mine[:repeated] if place}) + CHANGES]

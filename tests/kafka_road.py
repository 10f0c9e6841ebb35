"""From a signal's record to events in topics, replayed: the whole road through Kafka, on any servers.

For embedded servers and containers alike; where these come from is the suites' affair.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests import replay
from tests.driven import SIGNAL_TABLE, driven

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

_ROWS = 3000
_SETUP = (
    SIGNAL_TABLE,
    "CREATE TABLE one (id int PRIMARY KEY, t text, n numeric(9, 2), at timestamptz)",
    f"INSERT INTO one SELECT i, 'row ' || i, i / 7.0, now() FROM generate_series(1, {_ROWS}) i",
)
_BEFORE = ("UPDATE one SET t = 'changed' WHERE id % 10 = 0", "DELETE FROM one WHERE id % 11 = 0")
_AFTER = (
    "INSERT INTO one VALUES (0, NULL, NULL, NULL)",
    "UPDATE one SET id = id + 100000 WHERE id BETWEEN 20 AND 40",
    "DELETE FROM one WHERE id % 13 = 0",
)


def assert_signal_to_topics(
    database: Database, broker: KafkaBroker, prefix: str, directory: Path, spark: SparkSession
) -> None:
    """Ask for a snapshot by a record, write meanwhile, consume the topic and compare."""
    database.execute(*_SETUP)
    signals, events = f"{prefix}-signal", f"{prefix}.public.one"
    broker.create_topic(signals)
    properties = {
        "topic__prefix": prefix,
        "tidemark__sink": "kafka",
        "producer__bootstrap__servers": broker.bootstrap,
        "topic__creation__default__partitions": "3",
        "topic__creation__default__replication__factor": "1",
        "signal__kafka__topic": signals,
        "signal__kafka__bootstrap__servers": broker.bootstrap,
    }
    with driven(database, directory, spark, **properties) as job:
        database.execute(*_BEFORE)
        data = {"data-collections": ["public.one"], "type": "INCREMENTAL"}
        broker.send(signals, json.dumps({"type": "execute-snapshot", "data": data}), prefix)
        job.until_answered("finished")
        database.execute(*_AFTER)
        job.until_drained(database)
    broker.save(events, directory / "events")

    with database.connect() as connection:
        shapes = {events: replay.shape_of(connection, ("public", "one"))}
        figures = replay.replay(connection, directory / "events", shapes)
        compared = replay.compare(connection, ("public", "one"))

        assert compared.equal, (compared, replay.differences(connection, ("public", "one")))
        assert figures.operations["r"] > _ROWS / 2

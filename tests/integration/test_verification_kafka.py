"""Verifying and repairing a topic of a real broker, into which others have written, under writes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Producer

from tests.driven import SIGNAL_TABLE, driven, replayed_rows
from tests.integration.test_verification import SMALL, TABLES, answered, ask, begun, verified, writing

if TYPE_CHECKING:
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

_numbers = itertools.count(1)


@pytest.fixture
def orders(database: Database) -> Database:
    database.execute(SIGNAL_TABLE, *TABLES)
    return database


def rows_in(broker: KafkaBroker, topic: str) -> dict[Any, Any]:
    """What a consumer of all partitions has."""
    return replayed_rows(
        [
            {"key": orjson.loads(record.key() or b""), "value": value and orjson.loads(value)}
            for record in broker.records(topic)
            for value in [record.value()]
        ]
    )


def spoil(broker: KafkaBroker, topic: str, faults: dict[str, range]) -> None:
    """Put faults on keys: events that no job has sent, where its own would be."""
    producer = Producer({**broker.plain, "partitioner": "murmur2_random"})
    for kind, keys in faults.items():
        for key in keys:
            after = {"id": key, "note": "wrong", "price": None, "at": None, "done": None, "large": None}
            value: dict[str, Any] = {"before": None, "after": after, "source": {"ts_ms": 0}, "op": "u"}
            if kind == "missing":
                value |= {"op": "d", "after": None}
            producer.produce(topic, orjson.dumps(value), orjson.dumps({"id": key}))
    producer.flush()


def test_faults_in_a_topic_are_found_under_writes_and_repaired(kafka, orders, tmp_path, spark, caplog):
    """The verification is broken off and goes on in another session of the job."""
    caplog.set_level("INFO", "engine")
    prefix = f"verified{next(_numbers)}"
    topic = f"{prefix}.public.orders"
    kafka.create_topic(topic, 3)
    given = {
        "topic__prefix": prefix,
        "tidemark__sink": "kafka",
        "producer__bootstrap__servers": kafka.bootstrap,
    }
    faults = {
        "missing": range(2001, 2031),
        "different": range(2101, 2141),
        "extra": range(100_001, 100_011),
    }
    wrong = {kind: len(keys) for kind, keys in faults.items()}

    def step(connection: Any, number: int) -> None:
        key = number * 37 % 1000 + 1
        connection.execute("UPDATE orders SET note = %s WHERE id = %s", [f"n{number}", key])
        connection.execute("UPDATE orders SET price = %s WHERE id = 500", [number])
        connection.execute("DELETE FROM orders WHERE id = %s", [number % 50 + 5000])
        connection.execute("INSERT INTO orders (id) VALUES (%s)", [number % 50 + 5000])
        connection.execute("UPDATE orders SET id = -id WHERE id IN (7, -7)")

    with driven(orders, tmp_path, spark, **SMALL, **given) as job:
        ask(orders, "incremental", "copy")
        job.until_answered("finished")
        spoil(kafka, topic, faults)
        with writing(orders, step):
            ask(orders, "verify", "wrong")
            read = begun(job)
    with driven(orders, tmp_path, spark, **SMALL, **given) as job:
        with writing(orders, step):
            job.until_answered("failed")
            (rejected,) = job.answered("failed")
            repaired = answered(job, orders, "repair", "mend")
        last = verified(job, orders, "after")
        job.until_drained(orders)

    assert f"public.orders: {read} rows were read to be compared, and it goes on" in caplog.text
    assert {kind: rejected.facts.get(kind) for kind in wrong} == wrong, rejected.text
    assert repaired.outcome == "finished", repaired.text
    assert repaired.facts["reads"] == wrong["missing"] + wrong["different"]
    assert repaired.facts["deletes"] == wrong["extra"]
    assert last.outcome == "finished", last.text
    with orders.connect() as connection:
        expected = dict(connection.execute("SELECT id, note FROM orders").fetchall())
    assert {key: row["note"] for key, row in rows_in(kafka, topic).items()} == expected

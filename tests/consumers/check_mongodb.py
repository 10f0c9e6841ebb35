"""MongoDB's events as Java consumers read them: `make consumers`.

Their rows are JSON text, which Flink's format, Spark's reader and a JDBC sink take as one column.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from adapters.mongodb.job import building
from adapters.source.assembly.supplied import Onlookers
from engine.config import parse
from tests.consumers import libraries
from tests.consumers.mongodb_documents import documents, shown
from tests.consumers.records import CONSUMER, Record, answers, consumed
from tests.consumers.rows import REWRITE, faults

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job.loop import Job
    from tests.servers.kafka import KafkaBroker
    from tests.servers.mongodb import MongoServer

_TIMEOUT_S = 120.0
_LATER = 1000
"""Numbers of ids from here on are written while the change stream is read."""


@dataclass(frozen=True, slots=True)
class Produced:
    """Records as consumers have them, and what the collection held when they had been sent."""

    records: list[Record]
    documents: list[dict[str, Any]]


@pytest.fixture(scope="module")
def produced(
    mongo_server: MongoServer,
    kafka: KafkaBroker,
    tmp_path_factory: pytest.TempPathFactory,
    spark: SparkSession,
) -> Produced:
    mongo_server.clear()
    directory = tmp_path_factory.mktemp("mongodb")
    settings = parse(_properties(mongo_server, kafka, directory))
    onlookers = Onlookers(observe=lambda _seen: None, answer=lambda _answer: None)
    with mongo_server.connect() as client:
        types = client["inventory"]["types"]
        types.insert_many(documents())
        with building(settings, spark, onlookers) as job:
            job.settle()
            job.start()
            _until(job, lambda: not job.state.snapshot.tables)
            later = [
                {**document, "_id": document["_id"] + _LATER}
                for document in documents()
                if isinstance(document["_id"], int)
            ]
            types.insert_many(later)
            types.replace_one({"_id": 100}, {"double": 1e23, "text": "😀"})
            types.update_one({"_id": 101}, {"$set": {"whole": 9999999.0}, "$unset": {"text": ""}})
            types.delete_one({"_id": 102})
            types.insert_one({"_id": "last"})
            _until(
                job, lambda: any(b"last" in (record.key or b"") for record in consumed(kafka, _topics(kafka)))
            )
            job.close()
        found = list(types.find())
    return Produced(consumed(kafka, _topics(kafka)), found)


def _properties(server: MongoServer, kafka: KafkaBroker, directory: Path) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": server.uri,
        "topic.prefix": "mg",
        "snapshot.mode": "initial",
        "collection.include.list": "inventory.types",
        "tidemark.sink": "kafka",
        "producer.bootstrap.servers": kafka.bootstrap,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "tidemark.checkpoint": str(directory / "state"),
        "tidemark.staging.dir": str(directory / "staging"),
    }


def _topics(kafka: KafkaBroker) -> list[str]:
    return [topic for topic in kafka.topics() if topic.startswith("mg.")]


def _until(job: Job, condition: Any) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {_TIMEOUT_S:g} s; state: {job.state}"
        job.turn()


@pytest.mark.parametrize("version", libraries.CONVERTERS)
def test_the_converter_reads_what_it_would_have_written(produced: Produced, version: str) -> None:
    read = answers(CONSUMER, [libraries.converters(version)], produced.records)

    assert faults(read) == []
    assert {event["value"]["op"] for event in read if event["value"]} == {"r", "c", "u", "d"}


@pytest.mark.parametrize("version", libraries.TRANSFORMS)
def test_documents_are_extracted(produced: Produced, version: str) -> None:
    name = "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
    read = answers(CONSUMER, [libraries.transforms(version)], produced.records, name, *REWRITE[version])

    rows: dict[str, dict[str, Any]] = {}
    for event in filter(None, read):
        key = str(event["key"])
        rows[key] = {name: value for name, value in event["value"].items() if name != "__deleted"}
        if event["value"].get("__deleted") == "true":
            del rows[key]
    expected = [shown(document) for document in produced.documents]
    assert sorted(rows.values(), key=str) == sorted(expected, key=str)

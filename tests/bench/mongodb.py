"""MongoDB's throughput: a snapshot beside a plain scan, a change stream beside a plain loop.

The plain ones are PyMongo's: raw batches of the same collection, events of the same stream. Of the scans
before and after ours the faster counts; only ratios within a run say anything.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64
from bson.objectid import ObjectId

from adapters.mongodb.job import building
from adapters.source.assembly.supplied import Onlookers
from engine.config import parse
from tests.driven import started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from engine.job.loop import Job
    from tests.servers.mongodb import MongoServer

_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_AT_ONCE = 20_000
_END = "the end"


@dataclass(frozen=True, slots=True)
class MongoBench:
    """A server, a Spark session and a directory."""

    server: MongoServer
    spark: SparkSession
    directory: Path

    def snapshot(self, rows: int) -> dict[str, Any]:
        """Documents/s of an incremental snapshot into the null sink, beside a scan of raw batches."""
        self._fill(rows)
        scans = [self._scan()]
        answers: list[Any] = []
        with self._job(answers) as job, self.server.connect() as client:
            data = {"data-collections": ["bench.t"], "type": "incremental"}
            client["bench"]["signals"].insert_one({"type": "execute-snapshot", "data": data})
            begun = time.monotonic()
            while not any(answer.outcome == "finished" for answer in answers):
                job.turn()
            ours = rows / (time.monotonic() - begun)
        scans.append(self._scan())
        return _line("mongodb-snapshot", rows, ours, max(scans))

    def stream(self, rows: int) -> dict[str, Any]:
        """Events/s of the change stream into the null sink, beside PyMongo's loop over the same events."""
        events: list[int] = []
        with self.server.connect() as client, client.watch(full_document="updateLookup") as plain:
            with self._job([], events) as job:
                self._fill(rows)
                client["bench"]["marks"].insert_one({"_id": _END})
                begun = time.monotonic()
                while sum(events) < rows:
                    job.turn()
                ours = rows / (time.monotonic() - begun)
            begun = time.monotonic()
            for event in plain:
                if event["documentKey"]["_id"] == _END:
                    break
            loop = rows / (time.monotonic() - begun)
        return _line("mongodb-stream", rows, ours, loop)

    @contextmanager
    def _job(self, answers: list[Any], events: list[int] | None = None) -> Iterator[Job]:
        seen: list[int] = [] if events is None else events
        settings = parse(
            {
                "connector.class": "mongodb",
                "mongodb.connection.string": self.server.uri,
                "topic.prefix": "bench",
                "snapshot.mode": "never",
                "signal.data.collection": "bench.signals",
                "tidemark.sink": "null",
                "tidemark.checkpoint": str(self.directory / f"state-{time.monotonic_ns()}"),
                "key.converter.schemas.enable": "false",
                "value.converter.schemas.enable": "false",
            }
        )
        onlookers = Onlookers(observe=lambda turn: seen.append(turn.events), answer=answers.append)
        with started(building(settings, self.spark, onlookers)) as job:
            yield job

    def _fill(self, rows: int) -> None:
        self.server.clear()
        with self.server.connect() as client:
            for first in range(0, rows, _AT_ONCE):
                some = range(first, min(rows, first + _AT_ONCE))
                client["bench"]["t"].insert_many([_document(number) for number in some], ordered=False)

    def _scan(self) -> float:
        with self.server.connect() as client:
            begun, size = time.monotonic(), 0
            for batch in client["bench"]["t"].find_raw_batches():
                size += len(batch)
            assert size
            return client["bench"]["t"].estimated_document_count() / (time.monotonic() - begun)


def _document(number: int) -> dict[str, Any]:
    """Twelve fields, as the tables of the other benchmarks have."""
    return {
        "_id": number,
        "first_name": f"Anne{number}",
        "last_name": "Kretchmar",
        "email": f"annek{number}@noanswer.org",
        "visits": number % 100,
        "price": number / 100,
        "created": _BEGIN + timedelta(seconds=number),
        "active": number % 2 == 0,
        "big": Int64(number * 1000),
        "ref": ObjectId(),
        "address": {"street": f"Main {number}", "zip": f"1{number % 9999:04d}"},
        "tags": ["a", "b", f"c{number % 7}"],
    }


def _line(bench: str, rows: int, ours: float, plain: float) -> dict[str, Any]:
    return {
        "bench": bench,
        "table": "documents",
        "rows": rows,
        "sink": "null",
        "per_s": round(ours),
        "limit_per_s": round(plain),
        "ratio": round(ours / plain, 3),
    }

"""Renames and drops beside windows: what a rename moves is in no log, and no snapshot may end without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from engine.errors import SchemaChanged
from tests.integration.test_mongodb_job import Driven, driven, fill, replayed, signal, stands
from tests.servers.mongodb import MongoServer

pytestmark = pytest.mark.integration

CHUNKS = {"tidemark.window.max.chunks": "1", "incremental.snapshot.chunk.size": "300"}


def swap(database: Any) -> None:
    """Put another collection in its place."""
    database["other"].insert_many([{"_id": n, "other": True} for n in range(600, 900)])
    database["other"].rename("t", dropTarget=True)


def write_out(database: Any) -> None:
    """Replace it by what an aggregation gives."""
    database["from"].insert_many([{"_id": n, "out": True} for n in range(400)])
    database["from"].aggregate([{"$match": {}}, {"$out": "t"}])


def away_and_back(database: Any) -> None:
    """Change it while it has another name, which nobody captures."""
    database["t"].rename("away")
    database["away"].update_many({}, {"$set": {"changed": True}})
    database["away"].insert_many([{"_id": -n, "new": True} for n in range(1, 200)])
    database["away"].rename("t")


CHANGES = [swap, write_out, away_and_back]
CAPTURED = {"collection.include.list": r"inventory\.(t|u|signals|marks)"}


def ended(job: Driven, client: Any) -> dict[str, str]:
    """What consumers hold of t once all has come."""
    job.until(lambda: not job.job.state.snapshot.tables)
    client["inventory"]["marks"].insert_one({"_id": "end"})
    job.until_seen("end")
    return replayed(job.events("t"))


@pytest.mark.parametrize("change", CHANGES)
def test_a_collection_that_is_renamed_onto_in_its_window_is_read_anew(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, change: Callable[[Any], None]
):
    with mongodb.connect() as client:
        fill(client, 500)
        with driven(mongodb, tmp_path, spark, **CAPTURED) as job:
            signal(client, "inventory.t")
            job.until(lambda: bool(job.job.state.snapshot.tables))
            with job.log_held():
                job.read_window()
                change(client["inventory"])
            held = ended(job, client)

        assert held.items() >= stands(client, "t").items()
        assert [answer.outcome for answer in job.answers] == ["accepted", "finished"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_collection_that_is_renamed_onto_between_its_windows_is_read_anew(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, change: Callable[[Any], None]
):
    with mongodb.connect() as client:
        fill(client, 900)
        with driven(mongodb, tmp_path, spark, **CAPTURED, **CHUNKS) as job:
            signal(client, "inventory.t")
            job.until(lambda: bool(job.events("t")))
            change(client["inventory"])
            held = ended(job, client)

        assert held.items() >= stands(client, "t").items()


def test_a_rename_between_the_times_of_two_windows_leaves_nothing_out(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    with mongodb.connect() as client:
        fill(client, 500)
        with driven(mongodb, tmp_path, spark, **CAPTURED, **CHUNKS) as job:
            signal(client, "inventory.t")
            job.until(lambda: bool(job.job.state.snapshot.tables))
            with job.log_held():
                job.read_window()
                away_and_back(client["inventory"])
                job.read_window(2)
            held = ended(job, client)

        assert held.items() >= stands(client, "t").items()


def test_a_rename_counts_for_windows_whose_time_is_earlier_alone(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession
):
    # The second window reads what was renamed before it was so much as measured.
    with mongodb.connect() as client:
        fill(client, 50)
        client["inventory"]["u"].insert_one({"_id": 0})
        signals = tmp_path / "signals"
        signals.touch()
        more = {"signal.enabled.channels": "source,file", "signal.file": str(signals)}
        with driven(mongodb, tmp_path, spark, **CAPTURED, **more) as job:
            signal(client, "inventory.t")
            job.until(lambda: bool(job.job.state.snapshot.tables))
            with job.log_held():
                job.read_window()
                client["inventory"]["from"].insert_many([{"_id": n} for n in range(500)])
                client["inventory"]["from"].rename("u", dropTarget=True)
                data = '{"type": "incremental", "data-collections": ["inventory.u"]}'
                signals.write_text(f'{{"id": "u", "type": "execute-snapshot", "data": {data}}}\n')
                job.read_window(2)
                windows = job.job._windows.in_progress.opened
                ids = [window.window.id for window in windows]
            held = ended(job, client)

        assert len(set(ids)) == 2
        assert replayed(job.events("u")) == stands(client, "u")
        assert held == stands(client, "t")
        reads = [event["key"]["id"] for event in job.events("u") if event["value"]["op"] == "r"]
        assert len(reads) == 500


def test_a_window_s_time_is_chosen_before_its_collections_are_looked_at(
    mongodb: MongoServer, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    # A collection that is looked at first may be another one when the time is chosen.
    refused: list[str] = []
    with mongodb.connect() as client:
        fill(client, 1000)
        with driven(mongodb, tmp_path, spark, **CAPTURED) as job:
            source: Any = job.job._parts.source
            open_window, now = source.open_window, source._questions.now

            def swapped_now() -> Any:
                swap(client["inventory"])
                return now()

            def opening(window: Any) -> Any:
                monkeypatch.setattr(source, "open_window", open_window)
                with monkeypatch.context() as once:
                    once.setattr(source._questions, "now", swapped_now)
                    try:
                        return open_window(window)
                    except SchemaChanged as error:
                        refused.append(error.message)
                        raise

            monkeypatch.setattr(source, "open_window", opening)
            signal(client, "inventory.t")
            job.until_answered("accepted")
            held = ended(job, client)

        assert refused == ["it was dropped and made again"]
        assert held.items() >= stands(client, "t").items()

"""The port of a real job on a real server: its metrics beside what it did, and a signal from its page."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client.parser import text_string_to_metric_families

from adapters.http.monitor import Monitor
from adapters.http.page.control import send
from adapters.http.routes import Routes
from adapters.http.server import JobServer
from adapters.postgres.job import building
from adapters.source.assembly.supplied import Onlookers
from adapters.system import system_clock
from engine.config import parse
from signals.answers import Outcome
from tests.driven import SIGNAL_TABLE, Driven, properties
from tests.unit.adapters.http.watched_job import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


@contextmanager
def watched(
    database: Database, directory: Path, spark: SparkSession
) -> Iterator[tuple[Driven, Monitor, Client]]:
    on = {"tidemark__http__port": "0", "tidemark__http__control": "true"}
    settings = parse(properties(database, directory, **on))
    monitor = Monitor(settings, system_clock())
    server = JobServer(settings.http, Routes(monitor))
    onlookers = Onlookers(observe=lambda _seen: None, answer=lambda _answer: None, monitor=monitor)
    try:
        with building(settings, spark, onlookers) as job:
            job.settle()
            job.start()
            yield Driven(job, directory), monitor, Client(server.port)
            job.close()
    finally:
        server.close()


def values(client: Client) -> dict[str, float]:
    """Samples without labels, and Debezium's of the stream."""
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
        if not sample.labels or sample.labels.get("context") == "streaming"
    }


def finished(monitor: Monitor) -> list[str]:
    """The labels of signals that have done what they were to do."""
    return [told.answer.label for told in monitor.answers if told.answer.outcome is Outcome.FINISHED]


def test_metrics_are_what_the_job_did_and_the_page_steers_it(
    database: Database, tmp_path: Path, spark: SparkSession
):
    with database.connect() as connection:
        for statement in (SIGNAL_TABLE, "CREATE TABLE a (id int PRIMARY KEY, body text)"):
            connection.execute(statement)
    with watched(database, tmp_path, spark) as (driven, monitor, client):
        driven.until_drained(database)
        with database.connect() as connection:
            connection.execute("INSERT INTO a SELECT i, 'secret' || i FROM generate_series(1, 500) i")
            connection.execute("UPDATE a SET body = 'x' WHERE id <= 20")
            connection.execute("DELETE FROM a WHERE id > 490")
        driven.until_drained(database)
        streamed = values(client)
        assert streamed["debezium_metrics_total_number_of_create_events_seen"] == 500
        assert streamed["debezium_metrics_total_number_of_update_events_seen"] == 20
        assert streamed["debezium_metrics_total_number_of_delete_events_seen"] == 10
        assert streamed["debezium_metrics_number_of_committed_transactions"] >= 3
        assert streamed["debezium_metrics_last_transaction_id"] > 0
        assert streamed["debezium_metrics_source_event_position"] >= 0
        assert streamed["debezium_metrics_connected"] == 1
        assert streamed["tidemark_events_total"] == 540  # each delete has its tombstone
        assert client.get("/readyz").status == 200

        assert monitor.channel is not None
        label = monitor.channel.send(
            b'{"type": "execute-snapshot", "data": {"data-collections": ["public.a"]}}'
        )
        driven.until(lambda: label in finished(monitor))
        read = values(client)
        assert (read["tidemark_rows_read_total"], read["tidemark_rows_emitted_total"]) == (490, 490)
        assert "secret" not in client.get("/").text
        assert "public.a" in client.get("/metrics").text


def test_a_signal_of_the_page_that_was_taken_is_not_taken_again(
    database: Database, tmp_path: Path, spark: SparkSession
):
    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE)
    with watched(database, tmp_path, spark) as (driven, monitor, _client):
        assert monitor.channel is not None
        assert monitor.channel.send(b'{"type": "pause-snapshot", "data": {}}') == "in-process@1"
        driven.until(lambda: monitor.answers_to("in-process@1"))
    with watched(database, tmp_path, spark) as (driven, monitor, _client):
        assert driven.job.state.channels["in-process"] == {"taken": 1}
        assert driven.job.state.snapshot.paused
        assert monitor.answers_to("in-process@1")  # recalled from the journal
        assert not send(monitor, {"type": "drop"}).taken
        assert monitor.channel is not None
        assert monitor.channel.send(b"{}") == "in-process@2"
        driven.until(lambda: monitor.answers_to("in-process@2"))

"""OpenLineage events: what a run tells, and that nobody waits for its receiver."""

from __future__ import annotations

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest

from adapters.http.lineage import Lineage
from adapters.http.watching import watching
from adapters.system import system_clock
from engine.errors import SourceError
from engine.model import CollectionId
from tests.unit.adapters.http.watched_job import WatchedJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.ports.log import LogReader

SERVER = [("db", 5432)]
KAFKA = {"tidemark_sink": "kafka", "producer_bootstrap_servers": "broker:9092,other:9092"}


def told_by(job: WatchedJob) -> tuple[Lineage, list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    job.monitor.clock = system_clock()
    lineage = Lineage(job.monitor, SERVER, lambda texts: told.extend(map(json.loads, texts)))
    return lineage, told


@pytest.fixture
def job(tmp_path: Path) -> WatchedJob:
    job = WatchedJob(
        tmp_path, tidemark_openlineage_namespace="prod", tidemark_openlineage_url="http://x/", **KAFKA
    )
    job.monitor.database = "inventory"
    return job


def test_a_run_starts_runs_with_its_collections_and_completes(job: WatchedJob):
    lineage, told = told_by(job)
    lineage.look()
    job.begin().turns(1)
    job.monitor.database = "inventory"
    lineage.look()
    lineage.look()
    lineage.ended(None)

    assert [event["eventType"] for event in told] == ["START", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in told}) == 1
    UUID(told[0]["run"]["runId"])
    for event in told:
        assert event["job"]["namespace"] == "prod"
        assert event["job"]["name"] == "fulfillment"
        assert event["producer"].startswith("https://")
        assert event["schemaURL"].endswith("RunEvent")
        assert event["eventTime"].endswith("+00:00")
    assert told[0]["inputs"] == []
    running = told[1]
    assert {"namespace": "postgres://db:5432", "name": "inventory.public.t"} in running["inputs"]
    assert {"namespace": "kafka://broker:9092", "name": "fulfillment.public.t"} in running["outputs"]
    assert told[2]["inputs"] == running["inputs"]


def test_a_run_that_fails_says_why_and_no_value(job: WatchedJob):
    lineage, told = told_by(job)
    lineage.ended(SourceError("the log did not open", where="replication connection"))
    lineage.ended(ValueError("secret-value"))

    assert [event["eventType"] for event in told] == ["START", "FAIL", "FAIL"]
    facet = told[1]["run"]["facets"]["errorMessage"]
    assert "the log did not open" in facet["message"]
    assert facet["_schemaURL"].endswith("/ErrorMessageRunFacet")
    assert told[2]["run"]["facets"]["errorMessage"]["message"] == "ValueError"


class Receiver(HTTPServer):
    """Takes events."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taking)
        self.events: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []


class _Taking(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.tokens.append(self.headers["Authorization"])
        self.server.events.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(201)
        self.end_headers()

    def log_message(self, *_given: object) -> None:
        """Be quiet."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_events_are_posted_with_the_token(tmp_path: Path, receiver: Receiver):
    settings = WatchedJob(
        tmp_path,
        tidemark_openlineage_url=f"http://127.0.0.1:{receiver.server_port}/api/v1/lineage",
        tidemark_openlineage_token="a-token-of-lineage",
    ).settings
    with watching(settings, lambda _settings: SERVER, system_clock()) as monitor:
        assert monitor is not None
    with pytest.raises(SourceError), watching(settings, lambda _settings: SERVER, system_clock()):
        raise SourceError("gone")

    assert [event["eventType"] for event in receiver.events] == ["START", "COMPLETE", "START", "FAIL"]
    assert receiver.events[0]["outputs"] == [{"namespace": "file", "name": "/e"}]
    assert set(receiver.tokens) == {"Bearer a-token-of-lineage"}


def test_a_receiver_that_hangs_delays_nothing_and_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}/secret-path"
        job = WatchedJob(tmp_path, tidemark_openlineage_url=url)
        with watching(job.settings, lambda _settings: SERVER, system_clock()) as monitor:
            assert monitor is not None
            tally = monitor.tally
            tally.note_opened(cast("LogReader", None), [CollectionId(("public", "t"))])
            monitor.history.also()
            # Nothing has come back, and nobody has waited for it.
            assert tally.sessions == 1
    assert "did not take 3 OpenLineage events" in caplog.text
    assert "secret-path" not in caplog.text


def test_the_sink_jdbc_s_output_is_its_database(tmp_path: Path):
    job = WatchedJob(
        tmp_path,
        tidemark_openlineage_url="http://x/",
        tidemark_sink="jdbc",
        tidemark_sink_jdbc_connection_url="jdbc:postgresql://reports/copies",
    )
    lineage, told = told_by(job)
    lineage.look()

    assert told[0]["outputs"] == [{"namespace": "postgres://reports:5432", "name": "copies"}]

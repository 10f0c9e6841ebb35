"""Notifications of a real job on a real server, and a webhook that takes them, refuses them or hangs."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from adapters.http.webhook import Webhook
from tests.driven import SIGNAL_TABLE, Driven, driven

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TABLES = (
    "CREATE TABLE many AS SELECT i AS id FROM generate_series(1, 1000) i",
    "ALTER TABLE many ADD PRIMARY KEY (id)",
    "CREATE TABLE large (id int PRIMARY KEY, body text STORAGE PLAIN)",
    "INSERT INTO large SELECT i, repeat('x', 2000) FROM generate_series(1, 1000) i",
    "CREATE TABLE none (id int PRIMARY KEY)",
    "CREATE TABLE keyless (id int)",
)
SINK = {"notification__enabled__channels": "sink", "notification__sink__topic__name": "notices"}


@pytest.fixture
def tables(database: Database) -> Database:
    with database.connect() as connection:
        for statement in (SIGNAL_TABLE, *TABLES):
            connection.execute(statement.encode())
    return database


def signal(database: Database, *names: str) -> None:
    data = {"type": "incremental", "data-collections": [f"public.{name}" for name in names]}
    with database.connect() as connection:
        connection.execute("INSERT INTO signals VALUES ('ours', 'execute-snapshot', %s)", [json.dumps(data)])


def notices(job: Driven) -> list[dict[str, Any]]:
    return [event["value"] for event in job.events() if event["topic"] == "notices"]


def told(job: Driven) -> list[tuple[str, str, dict[str, Any]]]:
    """What each says; of a certificate only how many rows it has."""
    return [
        (notice["aggregate_type"], notice["type"], _short(notice["additional_data"]))
        for notice in notices(job)
    ]


def _short(data: dict[str, str]) -> dict[str, Any]:
    if "certificate" not in data:
        return data
    return {**data, "certificate": json.loads(data["certificate"])["rows"]["emitted"]}


def test_the_notifications_of_an_incremental_snapshot_come_in_this_order(
    tables: Database, tmp_path: Path, spark: SparkSession
):
    since_ms = int(time.time() * 1000)
    small = {"incremental__snapshot__chunk__size": "500", "tidemark__window__max__chunks": "1"}
    with driven(tables, tmp_path, spark, **SINK, **small) as job:
        signal(tables, "large")
        job.until(lambda: "COMPLETED" in [type_ for _aggregate, type_, _data in told(job)])
        job.until_drained(tables)

        named = {"connector_name": "tm"}
        listed = {**named, "data_collections": "public.large"}
        keys = {"maximum_key": "1000", "last_processed_key": "500"}
        scanned = {"scanned_collection": "public.large", "total_rows_scanned": "1000", "status": "SUCCEEDED"}
        aggregate = "Incremental Snapshot"
        assert told(job) == [
            ("Initial Snapshot", "SKIPPED", named),
            (aggregate, "STARTED", listed),
            (aggregate, "IN_PROGRESS", {**listed, "current_collection_in_progress": "public.large", **keys}),
            (aggregate, "CERTIFIED", {**named, "scanned_collection": "public.large", "certificate": 1000}),
            (aggregate, "TABLE_SCAN_COMPLETED", {**listed, **scanned}),
            (aggregate, "COMPLETED", named),
        ]
        assert all(since_ms <= notice["timestamp"] <= time.time() * 1000 for notice in notices(job))
        sent = [event["key"]["id"] for event in job.events() if event["topic"] == "notices"]
        assert sent[1:] == ["ours"] * 5


def test_the_status_says_what_became_of_each_table(tables: Database, tmp_path: Path, spark: SparkSession):
    with driven(tables, tmp_path, spark, **SINK) as job:
        signal(tables, "none", "many", "keyless")
        job.until(lambda: "COMPLETED" in [type_ for _aggregate, type_, _data in told(job)])

        scans = [data for _aggregate, type_, data in told(job) if type_ == "TABLE_SCAN_COMPLETED"]
        found = {data["scanned_collection"]: (data["status"], data["total_rows_scanned"]) for data in scans}
        assert len(scans) == 3
        assert found == {
            "public.none": ("EMPTY", "0"),
            "public.many": ("SUCCEEDED", "1000"),
            "public.keyless": ("NO_PRIMARY_KEY", "0"),
        }


def test_the_notifications_of_an_initial_snapshot_come_in_this_order(
    tables: Database, tmp_path: Path, spark: SparkSession
):
    only = {"snapshot__mode": "initial", "table__include__list": "public.many"}
    with driven(tables, tmp_path, spark, **SINK, **only) as job:
        job.until(lambda: "COMPLETED" in [type_ for _aggregate, type_, _data in told(job)])
        job.until_drained(tables)

        named = {"connector_name": "tm"}
        listed = {**named, "data_collections": "public.many"}
        scanned = {"scanned_collection": "public.many", "total_rows_scanned": "1000", "status": "SUCCEEDED"}
        assert told(job) == [
            ("Initial Snapshot", "STARTED", named),
            ("Initial Snapshot", "IN_PROGRESS", {**listed, "current_collection_in_progress": "public.many"}),
            (
                "Initial Snapshot",
                "CERTIFIED",
                {**named, "scanned_collection": "public.many", "certificate": 1000},
            ),
            ("Initial Snapshot", "TABLE_SCAN_COMPLETED", {**listed, **scanned}),
            ("Initial Snapshot", "COMPLETED", named),
        ]
        last_row = max(at for at, event in enumerate(job.events()) if event["topic"].endswith(".many"))
        assert last_row < [event["topic"] for event in job.events()].index("notices", last_row)


class Taker(BaseHTTPRequestHandler):
    """Takes what is posted."""

    status = 200
    location = ""
    taken: list[tuple[str, dict[str, str], Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.taken.append((self.path, dict(self.headers), json.loads(body)))
        self.send_response(self.status)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(status: int = 200) -> Iterator[tuple[str, list[tuple[str, dict[str, str], Any]]]]:
    """A web server on this machine: its address, and what it takes."""
    taken: list[tuple[str, dict[str, str], Any]] = []
    server = HTTPServer(("127.0.0.1", 0), type("Its", (Taker,), {"taken": taken, "status": status}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def silent() -> Iterator[str]:
    """A server that lets one connect and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_webhook_gets_each_text_once_in_order():
    with serving() as (address, taken):
        webhook = Webhook(f"http://me:p%40ss@{address}/hook?a=b")
        webhook.post(f'{{"n":{number}}}' for number in range(50))
        webhook.close()

    assert [body["n"] for _path, _headers, body in taken] == list(range(50))
    path, headers, _body = taken[0]
    assert path == "/hook?a=b"
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Basic bWU6cEBzcw=="
    assert webhook.dropped == 0


def test_what_is_not_taken_is_counted_and_told_once_without_the_address(caplog: pytest.LogCaptureFixture):
    with serving(503) as (address, taken), caplog.at_level(logging.WARNING, "adapters"):
        webhook = Webhook(f"http://{address}/s3cret")
        webhook.post(["{}", "{}", "{}"])
        until(lambda: len(taken) == 3)
        webhook.close()

    first, last = caplog.messages
    assert "at 127.0.0.1 does not take notifications: it answers with status 503" in first
    assert last == "the webhook at 127.0.0.1 did not take 3 notifications"
    assert "s3cret" not in caplog.text


def test_a_server_that_hangs_holds_up_nobody_and_fills_no_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("adapters.http.webhook._CLOSED_WITHIN_S", 0.2)
    with silent() as address:
        webhook = Webhook(f"http://{address}/", timeout_s=60, most_waiting=10)
        webhook.post(["{}"])
        until(lambda: webhook._posting)
        begun = time.monotonic()
        webhook.post("{}" for _ in range(100))
        posted_s = time.monotonic() - begun
        assert webhook.dropped == 90
        webhook.close()
        closed_s = time.monotonic() - begun

    assert posted_s < 20  # the webhook itself waits for 60 s
    assert closed_s < 20
    webhook._thread.join(10)  # the server is gone: the thread learns that its text is lost, too
    assert webhook.dropped == 101


def test_long_notifications_fill_no_memory(monkeypatch: pytest.MonkeyPatch):
    """Each names up to 1,000 tables, and anybody who may signal causes some."""
    monkeypatch.setattr("adapters.http.webhook.MOST_BYTES", 1_000)
    monkeypatch.setattr("adapters.http.webhook._CLOSED_WITHIN_S", 0.2)
    with silent() as address:
        webhook = Webhook(f"http://{address}/", timeout_s=60)
        webhook.post(["{}"])
        until(lambda: webhook._posting)
        webhook.post(["x" * 300] * 10)
        assert webhook.dropped == 7
        webhook.close()


def test_a_redirect_is_not_followed(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    with serving() as (other, taken_there), serving(307) as (address, taken):
        monkeypatch.setattr(Taker, "location", f"http://{other}/")
        webhook = Webhook(f"http://{address}/")
        webhook.post(["{}"])
        until(lambda: taken)
        webhook.close()

    assert taken_there == []
    assert "it answers with status 307" in caplog.text


def test_a_webhook_gets_the_notifications_of_a_job(tables: Database, tmp_path: Path, spark: SparkSession):
    with serving() as (address, taken):
        more = {
            "notification__enabled__channels": "webhook,log",
            "tidemark__notification__webhook__url": f"http://{address}/hook",
        }
        with driven(tables, tmp_path, spark, **more) as job:
            signal(tables, "many")
            job.until_answered("finished")
            until(lambda: taken and taken[-1][2]["type"] == "COMPLETED")

            assert notices(job) == []
        types = [body["type"] for _path, _headers, body in taken]
        assert types == [
            "SKIPPED",
            "STARTED",
            "IN_PROGRESS",
            "CERTIFIED",
            "TABLE_SCAN_COMPLETED",
            "COMPLETED",
        ]
        assert taken[-1][2]["id"] == "ours"
        assert taken[-1][2]["additional_data"] == {"connector_name": "tm"}


def test_a_webhook_that_hangs_delays_no_turn(tables: Database, tmp_path: Path, spark: SparkSession):
    with silent() as address:
        more = {
            "notification__enabled__channels": "webhook",
            "tidemark__notification__webhook__url": f"http://{address}/hook",
        }
        with driven(tables, tmp_path, spark, **more) as job:
            signal(tables, "many")
            job.until_answered("finished")
            waits_s = []
            for number in range(20):
                with tables.connect() as connection:
                    connection.execute("INSERT INTO many VALUES (%s)", [2000 + number])
                begun = time.monotonic()
                job.until_drained(tables)
                waits_s.append(time.monotonic() - begun)
            events = len(job.events("many"))

    # A webhook that is waited for costs five seconds a turn.
    assert sorted(waits_s)[10] < 4.0
    assert events == 1020

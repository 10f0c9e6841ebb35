"""The server over real connections: what it answers, whom it refuses, and what can't hold it up."""

from __future__ import annotations

import socket
import ssl
from http.client import HTTPSConnection
from typing import TYPE_CHECKING

import pytest

from adapters.http.exchange import as_text
from adapters.http.server import MOST_BODY, MOST_CONNECTIONS, JobServer
from adapters.http.watching import watching
from adapters.system import system_clock
from engine.config.web_settings import HttpSettings
from engine.errors import ConfigError, SourceError
from engine.job.reports.tally import JobPhase
from tests.servers.certificates import Authority
from tests.unit.adapters.http.watched_job import Client, WatchedJob

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-that-nobody-knows"


def asked(connection: HTTPSConnection) -> int:
    connection.request("GET", "/")
    return connection.getresponse().status


def test_metrics_and_checks_are_answered_with_headers_that_protect_a_browser(tmp_path: Path):
    job = WatchedJob(tmp_path, tidemark_http_port="0")
    job.begin().turns(1)
    with job.served() as client:
        metrics = client.get("/metrics")
        assert metrics.status == 200
        assert metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "tidemark_turns_total" in metrics.text
        assert "'unsafe" not in metrics.headers["Content-Security-Policy"]
        assert metrics.headers["X-Content-Type-Options"] == "nosniff"
        assert client.get("/nothing").status == 404
        assert client.ask("POST", "/metrics", "").status == 405
        assert client.ask("HEAD", "/metrics").text == ""
        assert client.get("/metrics", Host="evil.example").status == 421


def test_checks_say_why_and_need_no_token(tmp_path: Path):
    job = WatchedJob(tmp_path, tidemark_http_port="0", tidemark_http_token=TOKEN)
    with job.served() as client:
        refused = client.get("/metrics")
        assert (refused.status, "Basic" in refused.headers["WWW-Authenticate"]) == (401, True)
        assert client.get("/metrics", Authorization=f"Bearer {TOKEN}").status == 200
        assert client.get("/healthz").json == {"status": "ok", "reasons": []}
        starting = client.get("/readyz")
        assert (starting.status, starting.json["reasons"]) == (503, ["the job starts"])

        job.monitor.tally.standing = JobPhase.STANDING_BY
        assert "another one holds the lease" in client.get("/readyz").text
        bench = job.begin()
        bench.turns(1)
        assert (client.get("/readyz").status, client.get("/healthz").status) == (200, 200)

        bench.job.close()
        bench.source.openings = [SourceError("host db is gone")]
        bench.job.run(lambda: bool(job.monitor.tally.failures))
        failing = client.get("/readyz")
        assert failing.status == 503
        assert "SourceError" in failing.text
        assert "host db" not in failing.text
        assert client.get("/healthz").status == 200


def test_a_loop_that_stands_still_is_not_alive(tmp_path: Path):
    job = WatchedJob(tmp_path, tidemark_http_port="0")
    bench = job.begin()
    bench.turns(1)
    job.monitor.history.take()
    bench.now_s += 301
    with job.served() as client:
        assert "no step for 301 s" in client.get("/healthz").text
        assert (client.get("/healthz").status, client.get("/readyz").status) == (503, 503)
        bench.turns(1)
        assert client.get("/healthz").status == 200


def test_what_is_too_large_or_too_much_is_cut_off():
    server = JobServer(HttpSettings(port=0), lambda _request: as_text(200, "here"))
    try:
        client = Client(server.port)
        assert client.ask("POST", "/", None, {"Content-Length": str(MOST_BODY + 1)}).status == 413
        assert client.ask("POST", "/", None, {"Content-Length": "-1"}).status == 413
        held = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(MOST_CONNECTIONS)]
        late = socket.create_connection(("127.0.0.1", server.port), 30)
        assert late.recv(1) == b""
        for connection in held:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
            connection.close()
        late.close()
    finally:
        server.close()


def test_a_fault_of_an_answer_ends_its_connection_alone(caplog: pytest.LogCaptureFixture):
    def answer(request):
        if request.path == "/bad":
            raise ValueError("secret-value")
        return as_text(200, "here")

    server = JobServer(HttpSettings(port=0), answer)
    try:
        with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
            connection.sendall(b"GET /bad HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(100) == b""
        assert Client(server.port).get("/").status == 200
    finally:
        server.close()
    assert "ValueError" in caplog.text
    assert "secret-value" not in caplog.text


def test_a_port_that_is_taken_is_a_wrong_setting():
    first = JobServer(HttpSettings(port=0), lambda _request: as_text(200, ""))
    try:
        with pytest.raises(ConfigError, match="can't be opened"):
            JobServer(HttpSettings(port=first.port), lambda _request: as_text(200, ""))
    finally:
        first.close()


def test_tls_is_served_and_clients_can_be_asked_for_a_certificate(tmp_path: Path):
    authority = Authority(tmp_path)
    ours, client = authority.certificate("job", "DNS:localhost"), authority.certificate("prometheus")
    settings = HttpSettings(
        port=0, certificate=str(ours.certificate), key=str(ours.key), client_ca=str(authority.root)
    )
    server = JobServer(settings, lambda _request: as_text(200, "here"))
    try:
        assert server.address.startswith("https://")
        slow = socket.create_connection(("127.0.0.1", server.port), 30)  # never shakes hands
        trusting = ssl.create_default_context(cafile=str(authority.root))
        trusting.load_cert_chain(client.certificate, client.key)
        known = HTTPSConnection("localhost", server.port, timeout=30, context=trusting)
        assert asked(known) == 200
        known.close()
        stranger = ssl.create_default_context(cafile=str(authority.root))
        unknown = HTTPSConnection("localhost", server.port, timeout=30, context=stranger)
        with pytest.raises(OSError):  # noqa: PT011  a reset or an alert, as the moment is
            asked(unknown)
        unknown.close()
        slow.close()
    finally:
        server.close()


def test_a_certificate_that_is_missing_is_a_wrong_setting(tmp_path: Path):
    with pytest.raises(ConfigError, match="certificates"):
        JobServer(
            HttpSettings(port=0, certificate=str(tmp_path / "none.pem")), lambda _request: as_text(200, "")
        )


def test_nothing_is_opened_without_a_port_and_the_port_is_closed_at_the_end(tmp_path: Path):
    with watching(WatchedJob(tmp_path / "a").settings, lambda _settings: [], system_clock()) as monitor:
        assert monitor is None
    job = WatchedJob(tmp_path / "b", tidemark_http_port="0")
    with watching(job.settings, lambda _settings: [], system_clock()) as monitor:
        assert monitor is not None
    assert monitor.tally.standing is JobPhase.STOPPED

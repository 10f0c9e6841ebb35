"""A PostgreSQL job put together: what its connections are given, and in which order it starts."""

from __future__ import annotations

import threading

import pytest

from adapters.postgres.drivers import jdbc_properties, libpq_parameters
from adapters.postgres.job import run
from adapters.postgres.server.connection import Server
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.chunk_reader import Jdbc
from adapters.spark import shared_session
from engine.config import parse
from engine.errors import ConfigError, SourceError

LEAST = {
    "database.hostname": "db",
    "database.user": "reader",
    "database.password": "pa55word",
    "database.dbname": "app",
    "topic.prefix": "tm",
    "snapshot.mode": "never",
    "plugin.name": "pgoutput",
    "tidemark.sink": "null",
}


class SparkStarted(Exception):
    """Raised in the place of a start of Spark."""


@pytest.fixture
def told(monkeypatch):
    """What reaching the server raises; Spark must not start before."""
    errors: list[Exception] = []

    def identity(_server: Server, *, replicates: bool) -> dict[str, str]:  # noqa: ARG001  it is asked by name
        if errors:
            raise errors.pop()
        return {}

    def start(*_args: object) -> None:
        raise SparkStarted

    monkeypatch.setattr(Server, "identity", identity)
    monkeypatch.setattr(shared_session, "spark_session", start)
    return errors


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, "10"), ({"database.connectTimeout": "3"}, "3"), ({"database.connectTimeout": "0"}, "0")],
)
def test_a_connection_is_not_waited_for_without_end(more, expected):
    assert libpq_parameters(parse(LEAST | more).source_as(PostgresSettings))["connect_timeout"] == expected


def test_a_peer_that_acknowledges_nothing_is_given_up():
    settings = parse(LEAST).source_as(PostgresSettings)
    libpq, jdbc = libpq_parameters(settings), jdbc_properties(settings)

    idle, interval, count = (int(libpq[f"keepalives_{name}"]) for name in ("idle", "interval", "count"))
    assert libpq["keepalives"] == "1"
    assert idle + interval * count <= 30
    assert int(libpq["tcp_user_timeout"]) == 30_000
    assert jdbc["tcpKeepAlive"] == "true"
    assert int(jdbc["socketTimeout"]) > 0
    assert "statement_timeout=" in jdbc["options"]


def test_a_refused_login_is_told_before_spark_starts(told):
    told.append(ConfigError("password authentication failed for user 'reader'"))

    with pytest.raises(ConfigError, match="password authentication failed"):
        run(parse(LEAST), stop=threading.Event())


def test_a_server_that_is_not_up_yet_is_told_and_waited_for(told, caplog):
    told.append(SourceError("connection failed: connection refused", where="postgresql"))

    with caplog.at_level("WARNING", "adapters"), pytest.raises(SparkStarted):
        run(parse(LEAST), stop=threading.Event())

    assert caplog.messages == ["postgresql: connection failed: connection refused"]


def test_no_secret_shows_in_a_repr():
    postgres = parse(LEAST).source_as(PostgresSettings)
    jdbc = Jdbc("jdbc:postgresql://db/app", jdbc_properties(postgres), ("SET a.b = 'pa55word'",))

    assert "pa55word" not in repr(jdbc)

"""MONGODB-OIDC by the driver's own machinery: the provider is asked at every login, also in Spark's tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from adapters.mongodb.server.connection import Server, connection_of
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.settings import MongoSettings
from adapters.mongodb.snapshot.chunk_reader import Reach
from adapters.spark.executors import SparkExecutors
from engine.config import parse
from engine.config.text.references import resolve
from engine.errors import ConfigError, LoginRefused
from tests.servers.oidc import OidcServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from adapters.mongodb.server.connection import Connection

pytestmark = pytest.mark.integration


@pytest.fixture
def oidc() -> Iterator[OidcServer]:
    with OidcServer("token-1") as server:
        yield server


def connection(server: OidcServer, directory: Path) -> Connection:
    """As a job makes it, with a token from a file."""
    given = {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": server.uri,
        "mongodb.server.selection.timeout.ms": "2000",
        "topic.prefix": "tm",
        "tidemark.sink": "null",
        "tidemark.checkpoint": str(directory / "state"),
        "tidemark.mongodb.oidc.token": f"${{dir:{directory}:token}}",
    }
    found, unresolved = resolve(given, {})
    assert not unresolved
    return connection_of(parse(found).source_as(MongoSettings))


def renew(server: OidcServer, directory: Path, token: str) -> None:
    """Another token is there, and no other serves."""
    (directory / "token").write_text(token)
    server.valid = {token}


def test_a_token_that_has_expired_is_asked_for_again_while_a_connection_stands(
    oidc: OidcServer, tmp_path: Path
):
    (tmp_path / "token").write_text("token-1")
    found = connection(oidc, tmp_path)
    server = Questions(Server(found))
    try:
        assert server.hello()["setName"] == "rs0"
        renew(oidc, tmp_path, "token-2")
        assert server.hello()["setName"] == "rs0"
    finally:
        server.close()

    assert oidc.given == ["token-1", "token-2"]
    assert "token-" not in repr(found)


def test_tasks_ask_the_provider_themselves(oidc: OidcServer, tmp_path: Path, spark: SparkSession):
    (tmp_path / "token").write_text("token-1")
    found = connection(oidc, tmp_path)
    executors = SparkExecutors(spark)

    executors.map(Reach(found), [0])
    renew(oidc, tmp_path, "token-2")
    executors.map(Reach(found), [0])

    assert set(oidc.given) == {"token-1", "token-2"}


def test_a_token_that_is_refused_has_expired_if_one_served(
    oidc: OidcServer, tmp_path: Path, spark: SparkSession
):
    (tmp_path / "token").write_text("token-0")
    found = connection(oidc, tmp_path)
    server, executors = Questions(Server(found)), SparkExecutors(spark)
    try:
        with pytest.raises(ConfigError, match="Authentication failed"):
            server.hello()
        (tmp_path / "token").write_text("token-1")
        server.hello()
        oidc.valid = {"token-2"}
        with pytest.raises(LoginRefused, match="Authentication failed") as refused:
            server.hello()
        with pytest.raises(LoginRefused, match="Authentication failed"):
            executors.map(Reach(found), [0])
        (tmp_path / "token").write_text("token-2")
        assert server.hello()["setName"] == "rs0"
        executors.map(Reach(found), [0])
    finally:
        server.close()
    assert "token-" not in str(refused.value)

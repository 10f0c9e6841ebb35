"""TLS with a verified certificate, and users with passwords, on a real server; on the driver and in tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from adapters.mongodb.server.connection import Server, connection_of
from adapters.mongodb.server.questions import Questions
from adapters.mongodb.settings import MongoSettings
from engine.config import parse
from engine.errors import ConfigError, SourceError
from tests.integration.test_mongodb_job import driven, fill, properties, signal
from tests.servers.certificates import Authority
from tests.servers.mongodb import MongoServer, Security

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = "s3cr3t/with:signs@in%it"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[MongoServer]:
    """A server with a user that may read and no more; with the role that tells the replica set's id."""
    with MongoServer(security=Security(authority)) as server, server.connect() as client:
        roles = ["readAnyDatabase", "clusterMonitor"]
        client.admin.command("createUser", "reader", pwd=SECRET, roles=roles)
        yield server


def access(string: str, **more: str) -> dict[str, str]:
    """The properties of a Debezium connector with a user; only the string can name an authority."""
    return {
        "mongodb.connection.string": string,
        "mongodb.user": "reader",
        "mongodb.password": SECRET,
        "mongodb.ssl.enabled": "true",
        "mongodb.server.selection.timeout.ms": "1500",
        **more,
    }


def trusting(server: MongoServer, authority: Authority) -> str:
    return f"{server.uri}&tlsCAFile={authority.root}"


def test_a_snapshot_by_a_user_that_only_reads(
    secured: MongoServer, authority: Authority, tmp_path: Path, spark: SparkSession
):
    more = access(trusting(secured, authority))
    with secured.connect() as client:
        fill(client, 50)
        with driven(secured, tmp_path, spark, **more) as job:
            signal(client, "inventory.t")
            job.until_answered("finished")

        reads = [event for event in job.events("t") if event["value"]["op"] == "r"]
        assert len(reads) == 50
    told = (tmp_path / "state").rglob("*.json")
    assert not any(SECRET in path.read_text() for path in told)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mongodb.password": "wr0ng"}, "Authentication failed"),
        ({"mongodb.user": "nobody"}, "Authentication failed"),
        ({"mongodb.authsource": "inventory"}, "Authentication failed"),
    ],
    ids=["password", "user", "database of users"],
)
def test_a_user_that_is_not_known_is_told_without_the_password(
    secured: MongoServer, authority: Authority, tmp_path: Path, change: dict[str, str], said: str
):
    more = access(trusting(secured, authority), **change)
    told = refused(properties(secured, tmp_path, **more))

    assert said in told
    assert not any(word in told for word in (SECRET, "wr0ng"))


def test_a_certificate_of_an_unknown_authority_is_refused(secured: MongoServer, tmp_path: Path):
    other = Authority(tmp_path / "other", "another authority")
    more = access(trusting(secured, other))

    assert "certificate verify failed" in refused(properties(secured, tmp_path, **more))


def test_a_server_that_speaks_tls_alone_is_not_reached_without(secured: MongoServer, tmp_path: Path):
    more = access(secured.uri, **{"mongodb.ssl.enabled": "false"})

    assert "connecting failed" in refused(properties(secured, tmp_path, **more))


def refused(given: dict[str, Any]) -> str:
    """What a job says of a connection that can't be made, on its one line."""
    server = Questions(Server(connection_of(parse(given).source_as(MongoSettings))))
    try:
        with pytest.raises((ConfigError, SourceError)) as told:
            server.identity()
    finally:
        server.close()
    assert "\n" not in str(told.value)
    return str(told.value)

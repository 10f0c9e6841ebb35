"""TLS with verified certificates to a real server, on both roads: the log's and the readers'."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.drivers import jdbc_properties, jdbc_url, make_server
from adapters.postgres.server.tls import checked_key, readers_key
from adapters.postgres.settings import PostgresSettings
from adapters.postgres.snapshot.chunk_reader import ChunkReader, Jdbc
from engine.config import parse
from engine.errors import ConfigError, SourceError
from tests.driven import SIGNAL_TABLE, driven, properties
from tests.servers.certificates import Authority, Certificate, converted
from tests.servers.postgres import PostgresServer
from tests.staged import files_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

# the superuser comes without TLS, so that tests can look; others must prove who they are by certificate
RULES = """
host    all         postgres 127.0.0.1/32 scram-sha-256
hostssl all         reader   127.0.0.1/32 scram-sha-256 clientcert=verify-full
hostssl replication reader   127.0.0.1/32 scram-sha-256 clientcert=verify-full
"""
SECURED = """
SELECT usename, ssl, client_dn, backend_type FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
WHERE usename = 'reader'
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def client(authority: Authority) -> Certificate:
    return authority.certificate("reader")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[PostgresServer]:
    """PostgreSQL 15: the binaries of 18 are built without TLS."""
    with PostgresServer(15) as server:
        mine = authority.certificate("server", "DNS:localhost")
        for source, name in (
            (mine.certificate, "server.crt"),
            (mine.key, "server.key"),
            (authority.root, "ca.crt"),
        ):
            path = server.pgdata / name
            shutil.copy(source, path)
            path.chmod(0o600)
            server._account.give(path)
        (server.pgdata / "pg_hba.conf").write_text(RULES)
        server.settings = {**server.settings, "ssl": "on", "ssl_ca_file": "ca.crt"}
        server.restart()
        with server.connect() as connection:
            connection.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'pa55word'")
        yield server


@pytest.fixture
def secured(server: PostgresServer) -> Iterator[Database]:
    database = server.create_database("shop")
    with database.connect() as connection:
        for statement in (
            SIGNAL_TABLE,
            "CREATE TABLE one AS SELECT i AS id FROM generate_series(1, 100) i",
            "ALTER TABLE one ADD PRIMARY KEY (id)",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        ):
            connection.execute(statement.encode())
    yield database
    server.drop_database(database.name)


def told(authority: Authority, client: Certificate, **more: str) -> dict[str, str]:
    """The properties of a connection that verifies and is verified; `__` stands for a dot."""
    return {
        "database__hostname": "localhost",
        "database__user": "reader",
        "database__password": "pa55word",
        "database__sslmode": "verify-full",
        "database__sslrootcert": str(authority.root),
        "database__sslcert": str(client.certificate),
        "database__sslkey": str(client.key),
        **more,
    }


@pytest.mark.parametrize("form", ["PEM", "DER"])
def test_both_roads_are_encrypted_and_verified_with_a_key_of_either_form(
    secured: Database,
    tmp_path: Path,
    spark: SparkSession,
    authority: Authority,
    client: Certificate,
    form: str,
):
    key = str(converted(client.key, form))
    with driven(secured, tmp_path, spark, **told(authority, client, database__sslkey=key)) as job:
        with secured.connect() as connection:
            connection.execute("INSERT INTO one VALUES (0)")
            data = '{"data-collections": ["public.one"]}'
            connection.execute("INSERT INTO signals VALUES ('a', 'execute-snapshot', %s)", [data])
            job.until_answered("finished")
            sessions = connection.execute(SECURED.encode()).fetchall()

        values = [event["value"] for event in job.events("one")]
        assert sum(value["op"] == "r" for value in values) == 101
        assert {"walsender", "client backend"} <= {kind for *_rest, kind in sessions}
        assert {(role, ssl, dn) for role, ssl, dn, _kind in sessions} == {("reader", True, "/CN=reader")}


def refusal(database: Database, directory: Path, more: dict[str, str]) -> str:
    settings = parse(properties(database, directory, **more))
    with pytest.raises(ConfigError) as caught:
        make_server(settings.source_as(PostgresSettings)).identity()
    return str(caught.value)


def test_a_server_of_another_authority_is_refused(
    secured: Database, tmp_path: Path, authority: Authority, client: Certificate
):
    other = Authority(tmp_path / "other", "other")
    more = told(authority, client, database__sslrootcert=str(other.root))

    assert "certificate verify failed" in refusal(secured, tmp_path, more)


def readers_refusal(spark: SparkSession, database: Database, directory: Path, more: dict[str, str]) -> str:
    """What Spark's road says, which pgjdbc makes; empty where it lets rows through."""
    settings = parse(properties(database, directory, **more)).source_as(PostgresSettings)
    given = jdbc_properties(settings) | readers_key(settings.ssl_key, str(directory / "staging"))
    jdbc = Jdbc(jdbc_url(settings), given)
    area = files_in(directory / "staging")
    try:
        ChunkReader(spark, jdbc, area, slots=lambda: 1).reach()
    except SourceError as error:
        return str(error)
    return ""


def test_require_with_a_root_certificate_verifies_the_authority_on_both_roads_and_no_name(
    secured: Database, tmp_path: Path, spark: SparkSession, authority: Authority, client: Certificate
):
    other = Authority(tmp_path / "other", "other")
    more = told(authority, client, database__sslmode="require", database__hostname="127.0.0.1")
    wrong = {**more, "database__sslrootcert": str(other.root)}
    without = {name: value for name, value in wrong.items() if name != "database__sslrootcert"}

    make_server(parse(properties(secured, tmp_path, **more)).source_as(PostgresSettings)).identity()
    assert readers_refusal(spark, secured, tmp_path, more) == ""
    assert "certificate verify failed" in refusal(secured, tmp_path, wrong)
    assert "unable to find valid certification path" in readers_refusal(spark, secured, tmp_path, wrong)
    # without one nothing is verified, as `require` says
    make_server(parse(properties(secured, tmp_path, **without)).source_as(PostgresSettings)).identity()
    assert readers_refusal(spark, secured, tmp_path, without) == ""


def test_a_server_of_another_name_is_refused(
    secured: Database, tmp_path: Path, authority: Authority, client: Certificate
):
    more = told(authority, client, database__hostname="127.0.0.1")

    assert "does not match host name" in refusal(secured, tmp_path, more)


def test_a_root_certificate_that_is_missing_is_named(
    secured: Database, tmp_path: Path, authority: Authority, client: Certificate
):
    more = told(authority, client, database__sslrootcert=str(tmp_path / "none.crt"))

    said = refusal(secured, tmp_path, more)
    assert "none.crt" in said
    assert "database.sslrootcert" in said


def test_a_client_without_its_certificate_is_refused(
    secured: Database, tmp_path: Path, authority: Authority, client: Certificate
):
    more = told(authority, client)
    del more["database__sslcert"], more["database__sslkey"]

    assert "certificate" in refusal(secured, tmp_path, more)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"form": "PEM", "password": "secret"}, "holds 'ENCRYPTED PRIVATE KEY'"),
        ({"form": "DER", "password": "secret"}, "is encrypted"),
        ({"form": "PEM", "traditional": True}, "holds 'RSA PRIVATE KEY'"),
    ],
)
def test_a_key_that_the_readers_can_not_use_is_refused_with_the_command_that_mends_it(
    client: Certificate, how: dict[str, Any], said: str
):
    with pytest.raises(ConfigError) as caught:
        checked_key(str(converted(client.key, **how)))

    assert said in str(caught.value)
    assert "openssl pkcs8 -topk8 -nocrypt" in str(caught.value)


def test_the_readers_copy_of_a_key_is_for_its_owner_alone(client: Certificate, tmp_path: Path):
    told = readers_key(str(client.key), str(tmp_path / "staging"))
    copy = tmp_path / "staging" / "client.pk8"

    assert told == {"sslkey": str(copy)}
    assert copy.stat().st_mode & 0o777 == 0o600
    assert readers_key(str(copy), str(tmp_path / "staging")) == {}

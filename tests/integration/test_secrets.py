"""A secret is nowhere to be seen: not in logs, errors and reprs, Spark's plans and pages, nor in files."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import psycopg
import pytest
from psycopg import sql

from engine.config import explain, load, parse, read
from engine.errors import TidemarkError
from tests.driven import SIGNAL_TABLE, properties
from tests.servers.port import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECRET = "corr3ct-h0rse"  # of the database's role
TOKEN = "staple-batt3ry"  # of something else in the configuration
PAGES = ("environment", "executors", "jobs", "stages?details=true", "sql?details=true&planDescription=true")


@pytest.fixture
def directory(database: Database, tmp_path: Path, kafka: KafkaBroker, topic: str) -> Iterator[Path]:
    """A configuration that has its secrets from the environment and from a file."""
    with database.connect() as connection:
        connection.execute(
            sql.SQL("CREATE ROLE reader LOGIN REPLICATION PASSWORD {}").format(sql.Literal(SECRET))
        )
        for statement in (
            SIGNAL_TABLE,
            "CREATE TABLE one AS SELECT i AS id, 'x' AS t FROM generate_series(1, 5000) i",
            "ALTER TABLE one ADD PRIMARY KEY (id)",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        ):
            connection.execute(statement.encode())
    kafka.create_topic(topic)
    (tmp_path / "secrets.properties").write_text(f"token={TOKEN}\n")
    token = f"${{file:{tmp_path}/secrets.properties:token}}"
    (tmp_path / "tidemark.properties").write_text(
        "".join(
            f"{name}={value}\n"
            for name, value in {
                **properties(database, tmp_path),
                "database.user": "reader",
                "database.password": "${env:READERS_PASSWORD}",
                "database.initial.statements": f"SET my.token = '{token}'",
                "publication.autocreate.mode": "disabled",
                "signal.kafka.topic": topic,
                "signal.kafka.bootstrap.servers": kafka.bootstrap,
                "signal.consumer.ssl.key.password": token,
                "tidemark.spark.conf.spark.ui.enabled": "true",
                "tidemark.spark.conf.spark.ui.port": str(free_port()),
                "tidemark.spark.conf.spark.log.level": "INFO",
            }.items()
        )
    )
    yield tmp_path
    with database.connect() as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("READERS_PASSWORD", SECRET)
    return {**os.environ, "READERS_PASSWORD": SECRET}


def test_a_running_job_shows_no_secret(database: Database, directory: Path, environment: dict[str, str]):
    pages = ""
    log = directory / "tidemark.log"
    with log.open("wb") as output:
        command = [
            sys.executable,
            "-m",
            "engine.cli",
            "run",
            "--verbose",
            str(directory / "tidemark.properties"),
        ]
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, cwd=Path(__file__).parents[2]
        )
        try:
            wait(lambda: "reading the log from" in log.read_text(), process)
            ask(database)
            wait(lambda: "finished" in log.read_text(), process)
            pages = shown(load(directory / "tidemark.properties")["tidemark.spark.conf.spark.ui.port"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    assert process.returncode == 0, log.read_text()[-3000:]
    assert "dbtable" in pages or "JDBCRelation" in pages  # the readers' plans were looked at
    for place, text in {"log": log.read_text(), "pages": pages, "saved": saved(directory)}.items():
        assert SECRET not in text, place
        assert TOKEN not in text, place


def ask(database: Database) -> None:
    with database.connect() as connection:
        data = json.dumps({"data-collections": ["public.one"]})
        connection.execute("INSERT INTO signals VALUES ('a', 'execute-snapshot', %s)", [data])


def wait(condition: Callable[[], bool], process: subprocess.Popen[bytes], timeout_s: float = 180.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert process.poll() is None, "the job has ended"
        assert time.monotonic() < deadline
        time.sleep(0.1)


def shown(port: str) -> str:
    """Everything that Spark's pages tell over their API, and the pages themselves."""
    root = f"http://127.0.0.1:{port}"
    applications = json.loads(fetched(f"{root}/api/v1/applications"))
    api = f"{root}/api/v1/applications/{applications[0]['id']}"
    executions = json.loads(fetched(f"{api}/sql?length=1000"))
    pages = [f"{api}/{page}" for page in PAGES] + [f"{root}/environment/", f"{root}/SQL/", f"{root}/jobs/"]
    pages += [f"{root}/SQL/execution/?id={one['id']}" for one in executions]
    return "\n".join(fetched(page) for page in pages)


def fetched(address: str) -> str:
    try:
        with urlopen(address, timeout=30) as response:  # noqa: S310  (it is the job's own)
            return str(response.read().decode())
    except URLError as error:
        raise AssertionError(address) from error


def saved(directory: Path) -> str:
    """What the job left: state, events, staged files."""
    mine = {"tidemark.log", "tidemark.properties", "secrets.properties"}
    files = [path for path in directory.rglob("*") if path.is_file() and path.name not in mine]
    assert files
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def test_settings_and_their_explanation_show_no_secret(directory: Path, environment: dict[str, str]):
    path = directory / "tidemark.properties"
    settings = read(path)
    explained = repr(explain(load(path), defaults=True))

    assert settings.postgres.password == environment["READERS_PASSWORD"]
    assert TOKEN in settings.postgres.initial_statements[0]
    for text in (repr(settings), repr(load(path)), explained):
        assert SECRET not in text
        assert TOKEN not in text


@pytest.mark.parametrize(
    "name", ["database.port", "snapshot.mode", "signal.consumer.fetch.max.wait.ms", "producer.linger.ms"]
)
def test_a_value_from_a_reference_shows_in_no_problem(
    directory: Path, environment: dict[str, str], name: str
):
    given = {**load(directory / "tidemark.properties"), "tidemark.sink": "kafka"}
    given[name] = given["database.password"]
    with pytest.raises(TidemarkError) as caught:
        parse(given)

    assert environment["READERS_PASSWORD"] not in str(caught.value)
    assert name in str(caught.value)


def test_a_refused_login_shows_no_secret(
    directory: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    from adapters.postgres.job import make_server  # noqa: PLC0415  (with the environment set)

    wrong = environment["READERS_PASSWORD"] + "-wrong"
    monkeypatch.setenv("READERS_PASSWORD", wrong)
    settings = read(directory / "tidemark.properties")
    with caplog.at_level(logging.DEBUG), pytest.raises(TidemarkError) as caught:
        make_server(settings.postgres).identity()

    assert isinstance(caught.value.__cause__, psycopg.OperationalError)
    for text in (str(caught.value), repr(caught.value.__cause__), caplog.text):
        assert wrong not in text

"""Secrets and values of rows are nowhere to be seen but where they belong.

Not in logs, errors and reprs, Spark's plans, pages and event logs, the state, what Spark spills, nor in the
command lines and environments of processes.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from adapters.cli.app import app
from adapters.postgres.drivers import make_server
from adapters.postgres.settings import PostgresSettings
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
KEY = "s3-marker-k3y"  # of storage, as Hadoop has it
ROW = "a-marker-of-a-r0w"
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
            f"CREATE TABLE many AS SELECT i AS id, '{ROW}' AS t FROM generate_series(1, 5000) i",
            "ALTER TABLE many ADD PRIMARY KEY (id)",
            f"CREATE TABLE few AS SELECT i AS id, '{ROW}' AS t FROM generate_series(1, 10) i",
            "ALTER TABLE few ADD PRIMARY KEY (id)",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
            "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
        ):
            connection.execute(statement.encode())
    kafka.create_topic(topic)
    (tmp_path / "secrets.properties").write_text(f"token={TOKEN}\npassword={SECRET}\n")
    token = f"${{file:{tmp_path}/secrets.properties:token}}"
    (tmp_path / "tidemark.properties").write_text(
        "".join(
            f"{name}={value}\n"
            for name, value in {
                **properties(database, tmp_path),
                "database.user": "reader",
                "database.password": f"${{file:{tmp_path}/secrets.properties:password}}",
                "database.initial.statements": f"SET my.token = '{token}'",
                "publication.autocreate.mode": "disabled",
                "signal.kafka.topic": topic,
                "signal.kafka.bootstrap.servers": kafka.bootstrap,
                "signal.consumer.ssl.key.password": token,
                "tidemark.spark.conf.spark.ui.enabled": "true",
                "tidemark.spark.conf.spark.ui.port": str(free_port()),
                "tidemark.spark.conf.spark.log.level": "INFO",
                "tidemark.spark.conf.spark.hadoop.fs.s3a.secret.key": KEY,
                "tidemark.spark.conf.spark.local.dir": str(tmp_path / "spill"),
                "tidemark.spark.conf.spark.eventLog.enabled": "true",
                "tidemark.spark.conf.spark.eventLog.compress": "false",
                "tidemark.spark.conf.spark.broadcast.compress": "false",
                "tidemark.spark.conf.spark.eventLog.dir": f"file://{tmp_path}/history",
                "tidemark.window.local.rows": "2000",
                "notification.enabled.channels": "log,webhook",
                "tidemark.notification.webhook.url": f"http://u:{token}@127.0.0.1:{free_port()}/{token}?{token}",
            }.items()
        )
    )
    (tmp_path / "history").mkdir()
    yield tmp_path
    database.execute("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_running_job_shows_no_secret(database: Database, directory: Path):
    pages, seen_in_processes = "", ""
    log = directory / "tidemark.log"
    with log.open("wb") as output:
        command = [
            sys.executable,
            "-m",
            "adapters.cli.app",
            "run",
            "--verbose",
            str(directory / "tidemark.properties"),
        ]
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=Path(__file__).parents[2])
        try:
            wait(lambda: "reading the log from" in log.read_text(), process)
            ask(database, "one")
            wait(lambda: "one completed" in log.read_text(), process)
            # A cast that fails on a row: in the driver for the small table, in Spark for the other.
            for table, road in (("few", "postgresql: "), ("many", "spark jdbc: ")):
                ask(database, table, condition="t::int > 0")
                refused = f"{road}reading rows failed: error 22P02"
                wait(lambda said=refused: said in log.read_text(), process)  # type: ignore[misc]
            ask(database, "few", kind="blocking", condition="SELECT * FROM few WHERE id > 0 AND t::int > 0")
            wait(lambda: "snapshot of public.few" in log.read_text().split("blocking")[-1], process)
            with database.connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"
                )
            seen_in_processes = processes(process.pid)
            pages = shown(load(directory / "tidemark.properties")["tidemark.spark.conf.spark.ui.port"])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)

    assert process.returncode == 0, log.read_text()[-3000:]
    asked = looked_at(directory / "tidemark.properties")
    assert "the webhook at 127.0.0.1 does not take notifications" in log.read_text()
    assert '"outcome": "accepted"' in asked
    assert "dbtable" in pages or "JDBCRelation" in pages  # the readers' plans were looked at
    assert "pyspark.daemon" in seen_in_processes
    assert "SparkListenerJobStart" in saved(directory / "history")
    places = {
        "log": log.read_text(),
        "pages": pages,
        "saved": saved(directory),
        "processes": seen_in_processes,
        "status": asked,
    }
    for place, text in places.items():
        for secret in (SECRET, TOKEN, KEY):
            assert secret not in text, (place, secret)
    # Spark's own log, pages and event log, which are off unless asked for, quote what the server says.
    ours = [line for line in log.read_text().splitlines() if line.startswith("20")]
    assert any("22P02" in line for line in ours)
    kept = (saved(directory / "state"), saved(directory / "events"))
    for text in ("\n".join(ours), *kept, seen_in_processes, asked):
        assert ROW not in text


def looked_at(config: Path) -> str:
    """What the commands say that look at a checkpoint."""
    exported = config.with_suffix(".json")
    commands = (["status"], ["status", "--json"], ["state", "show"], ["state", "export"])
    shown = [
        CliRunner().invoke(app, [*words, str(config), *([str(exported)] if words[-1] == "export" else [])])
        for words in commands
    ]
    assert [result.exit_code for result in shown] == [0] * len(shown)
    return "\n".join([*(result.output for result in shown), exported.read_text()])


def ask(database: Database, table: str, **more: str) -> None:
    entry = {"data-collection": f"public.{table}", "filter": more["condition"]} if more else None
    kind = {"type": more.get("kind", "incremental"), "data-collections": [f"public.{table}"]}
    data = kind | ({"additional-conditions": [entry]} if entry else {})
    with database.connect() as connection:
        statement = "INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)"
        connection.execute(statement, [table, json.dumps(data)])


def processes(process: int) -> str:
    """The command lines and environments of a process and of all that it has started."""
    shown = ""
    with suppress(OSError):  # a worker may end while it is looked at
        root = Path(f"/proc/{process}")
        shown = (root / "cmdline").read_text() + (root / "environ").read_text()
        for children in root.glob("task/*/children"):
            shown += "".join(processes(int(child)) for child in children.read_text().split())
    return shown


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
    pages += [f"{root}/SQL/execution/?id={execution['id']}" for execution in executions]
    return "\n".join(fetched(page) for page in pages)


def fetched(address: str) -> str:
    try:
        with urlopen(address, timeout=30) as response:  # noqa: S310  (it is the job's own)
            return str(response.read().decode())
    except URLError as error:
        raise AssertionError(address) from error


def saved(directory: Path) -> str:
    """What the job left: state, events, staged files, what Spark spilled."""
    mine = {"tidemark.log", "tidemark.properties", "secrets.properties"}
    files = [path for path in directory.rglob("*") if path.is_file() and path.name not in mine]
    assert files
    return "\n".join(path.read_bytes().decode("utf-8", "replace") for path in files)


def test_settings_and_their_explanation_show_no_secret(directory: Path):
    path = directory / "tidemark.properties"
    settings = read(path)
    explained = repr(explain(load(path), defaults=True))

    assert settings.source_as(PostgresSettings).password == SECRET
    assert TOKEN in settings.source_as(PostgresSettings).initial_statements[0]
    for text in (repr(settings), repr(load(path)), explained):
        for secret in (SECRET, TOKEN):
            assert secret not in text
    assert KEY not in repr(settings) + explained


@pytest.mark.parametrize(
    "name", ["database.port", "snapshot.mode", "signal.consumer.fetch.max.wait.ms", "producer.linger.ms"]
)
def test_a_value_from_a_reference_shows_in_no_problem(directory: Path, name: str):
    given = {**load(directory / "tidemark.properties"), "tidemark.sink": "kafka"}
    given[name] = given["database.password"]
    with pytest.raises(TidemarkError) as caught:
        parse(given)

    assert SECRET not in str(caught.value)
    assert name in str(caught.value)


def test_a_refused_login_shows_no_secret(directory: Path, caplog: pytest.LogCaptureFixture):
    wrong = f"{SECRET}-wrong"
    (directory / "secrets.properties").write_text(f"token={TOKEN}\npassword={wrong}\n")
    settings = read(directory / "tidemark.properties")
    with caplog.at_level(logging.DEBUG), pytest.raises(TidemarkError) as caught:
        make_server(settings.source_as(PostgresSettings)).identity()

    refused, driver = caught.value.__cause__, getattr(caught.value.__cause__, "__cause__", None)
    assert isinstance(driver, psycopg.OperationalError)
    for text in (str(caught.value), repr(refused), repr(driver), caplog.text):
        assert wrong not in text

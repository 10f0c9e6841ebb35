"""`tidemark signal --wait` and a real job, by the signal table of each source and by a topic."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from typer.testing import CliRunner

from adapters.cli import app
from adapters.sqlserver.commands.signal_writer import write_signal
from engine.config import parse
from signals.request import SignalRequest, SignalType
from tests import driven_sqlserver
from tests.driven import SIGNAL_TABLE, driven, properties
from tests.integration import test_mongodb_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.driven import Driven
    from tests.servers.kafka import KafkaBroker
    from tests.servers.postgres import Database

pytestmark = [pytest.mark.integration, pytest.mark.slow]
TABLE = "CREATE TABLE one AS SELECT i AS id FROM generate_series(1, 100) i"
KEY = "ALTER TABLE one ADD PRIMARY KEY (id)"


@pytest.fixture
def tables(database: Database) -> Database:
    with database.connect() as connection:
        for statement in (SIGNAL_TABLE, TABLE, KEY):
            connection.execute(statement.encode())
    return database


def configured(said: dict[str, str], directory: Path) -> Path:
    path = directory / "job.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in said.items()))
    return path


def signalled(job: Any, config: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Run the command while the job turns; its exit code and its lines."""
    results: list[Any] = []
    command = ["signal", arguments[0], str(config), *arguments[1:], "--wait", "--timeout", "60", "--json"]
    thread = threading.Thread(target=lambda: results.append(CliRunner().invoke(app.app, command)))
    thread.start()
    job.until(lambda: results)
    thread.join()
    return results[0].exit_code, [orjson.loads(line) for line in results[0].stdout.splitlines()]


def reads(job: Driven) -> int:
    return sum(1 for event in job.events("one") if event["value"] and event["value"]["op"] == "r")


def test_a_snapshot_is_followed_to_its_end_and_a_refusal_is_a_failure(
    tables: Database, tmp_path: Path, spark: SparkSession
):
    config = configured(properties(tables, tmp_path), tmp_path)
    with driven(tables, tmp_path, spark) as job:
        code, lines = signalled(job, config, "execute", "-c", "public.one", "--condition", "id > 60")

        assert code == 0, lines
        assert lines[0]["sent"] == "as a row of public.signals"
        assert lines[-1]["outcome"] == "finished"
        assert reads(job) == 40

        code, lines = signalled(job, config, "execute", "-c", "public.none")

        assert code == 1
        assert "no collection matches" in lines[-1]["text"]


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    """A command sets logging up for its process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("logging_as_before")
def test_a_verification_runs_the_job_itself_where_it_does_not_run(
    tables: Database, tmp_path: Path, spark: SparkSession
):
    config = configured(properties(tables, tmp_path), tmp_path)
    with driven(tables, tmp_path, spark) as job:
        signalled(job, config, "execute", "-c", "public.one")
    with tables.connect() as connection:
        connection.execute("INSERT INTO one VALUES (101)")
    command = ["verify", str(config), "--run", "-c", "public.one", "--json"]

    accepted = CliRunner().invoke(app.app, command)
    (turn,) = (path for path in (tmp_path / "events").glob("turn-*/*") if b'"id":77}' in path.read_bytes())
    turn.write_bytes(turn.read_bytes().replace(b'"id":77}', b'"id":78}'))
    rejected = CliRunner().invoke(app.app, command)

    assert accepted.exit_code == 0, accepted.output
    facts = orjson.loads(accepted.stdout.splitlines()[-1])["facts"]
    assert (facts["verdict"], facts["equal"]) == ("accept", 101)
    assert rejected.exit_code == 1, rejected.output
    facts = orjson.loads(rejected.stdout.splitlines()[-1])["facts"]
    assert (facts["verdict"], facts["missing"]) == ("reject", 1)


def test_a_topic_takes_it(
    tables: Database, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker, topic: str
):
    kafka.create_topic(topic)
    more = {"signal__kafka__topic": topic, "signal__kafka__bootstrap__servers": kafka.bootstrap}
    config = configured(properties(tables, tmp_path, **more), tmp_path)
    with driven(tables, tmp_path, spark, **more) as job:
        code, lines = signalled(job, config, "log", "hello")

    assert (code, lines[0]["sent"]) == (0, f"as the record {topic}-0@0")


def test_a_signal_collection_of_mongodb_takes_it(mongodb, tmp_path: Path, spark: SparkSession):
    config = configured(test_mongodb_job.properties(mongodb, tmp_path), tmp_path)
    with mongodb.connect() as client:
        test_mongodb_job.fill(client, 5)
    with test_mongodb_job.driven(mongodb, tmp_path, spark) as job:
        code, lines = signalled(job, config, "execute", "-c", "inventory.t")

    assert code == 0, lines
    assert lines[-1]["facts"]["rows"] == 5


def test_a_signal_table_of_sql_server_takes_it(sqlserver, shop, tmp_path: Path, spark: SparkSession):
    shop.execute(driven_sqlserver.SIGNALS)
    shop.enable_cdc("signals")
    more = {"signal__data__collection": f"{shop.name}.dbo.signals"}
    settings = parse(driven_sqlserver.properties(sqlserver, tmp_path, **more))
    table = settings.signals.collection
    assert table is not None

    with driven_sqlserver.driven_sqlserver(sqlserver, tmp_path, spark, **more) as job:
        request = SignalRequest("mine", SignalType.LOG, {"message": "it's here"})
        write_signal(settings, table, request.row, lambda _settings: sqlserver.reach)
        shop.capture()
        job.until_answered("accepted")

        assert [answer.text for answer in job.answered("accepted")] == ["it's here"]

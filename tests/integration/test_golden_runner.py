"""The runner does a case's steps at their moments, whatever the engine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.golden.case import OWN_CASES, load_case
from tests.golden.event import Event
from tests.golden.runner import DATABASE, CaseFailed, Runner, _parts
from tests.servers.binaries import client_tool
from tests.servers.postgres import PostgresServer

pytestmark = pytest.mark.integration


class Receiver:
    """An engine that only receives: pg_recvlogical on the case's slot; its events are message types."""

    def __init__(self, server: PostgresServer, properties: Mapping[str, str], directory: Path) -> None:
        self._server, self._slot, self._path = server, properties["slot.name"], directory
        self._tool("--create-slot", "--if-not-exists", "--plugin", "test_decoding").wait()
        often = ("--fsync-interval", "1", "--status-interval", "1")
        self._process = self._tool("--start", "--file", str(directory), *often)

    def _tool(self, *arguments: str) -> subprocess.Popen[bytes]:
        target = self._server.dsn(DATABASE, password=None)
        return subprocess.Popen(
            [client_tool("pg_recvlogical"), "--dbname", target, "--slot", self._slot, *arguments],
            env=self._server.client_environment(),
        )

    def drained(self, position: int) -> bool:
        assert self._process.poll() is None
        with self._server.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
            ).fetchone()
        return row is not None and int(row[0]) >= position

    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def events(self) -> tuple[Event, ...]:
        lines = self._path.read_text().splitlines()
        return tuple(Event(line, None, None) for line in lines if line.startswith("table"))


@pytest.fixture
def runner(postgres18: PostgresServer) -> Iterator[Runner]:
    def start(properties: Mapping[str, str], events_dir: Path) -> Receiver:
        return Receiver(postgres18, properties, events_dir)

    yield Runner(postgres18, start, timeout_s=20)
    postgres18.drop_database(DATABASE)


def case_of(folder: Path, **scripts: str):
    folder.mkdir()
    shutil.copy(OWN_CASES / "postgres" / "a1_customers_default" / "connector.properties", folder)
    (folder / "events.jsonl").touch()
    for name, text in scripts.items():
        (folder / f"{name}.sql").write_text(text)
    return load_case(folder)


def test_changes_come_by_the_log_and_what_stood_there_before_does_not(runner: Runner, tmp_path: Path):
    case = case_of(
        tmp_path / "case",
        setup="CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1);",
        change="INSERT INTO t VALUES (2);\nSELECT fails;\nBEGIN; INSERT INTO t VALUES (3); COMMIT;",
    )
    told: list[str] = []

    events = Runner(runner.server, runner.start, 20, told.append).run(case)

    assert [event.topic for event in events] == [
        "table public.t: INSERT: id[integer]:2",
        "table public.t: INSERT: id[integer]:3",
    ]
    assert 'column "fails" does not exist' in "".join(told)


@pytest.mark.slow
def test_an_engine_that_starts_again_gets_what_happened_in_between(runner: Runner, tmp_path: Path):
    case = case_of(
        tmp_path / "case",
        setup="CREATE TABLE t (id int PRIMARY KEY);",
        change="INSERT INTO t VALUES (1);",
        between="INSERT INTO t VALUES (2);",
        change2="INSERT INTO t VALUES (3);",
    )

    assert [event.topic[-1] for event in runner.run(case)] == ["1", "2", "3"]


def test_a_case_whose_setup_fails_says_so(runner: Runner, tmp_path: Path):
    case = case_of(tmp_path / "case", setup="CREATE TABLE;", change="SELECT 1;")

    with pytest.raises(CaseFailed, match=r"setup\.sql: .*syntax error"):
        runner.run(case)


def test_a_long_pause_of_an_incremental_case_lasts_until_the_engine_has_caught_up(tmp_path: Path):
    script = "INSERT 1;\nSELECT pg_sleep(1);\nSELECT pg_sleep(0.3);\nINSERT 2;\n"
    other = case_of(tmp_path / "a9_case", change=script)
    incremental = case_of(tmp_path / "j9_case", change=script)

    assert _parts(other, "change.sql") == [script]
    assert _parts(incremental, "change.sql") == [
        "INSERT 1;\nSELECT pg_sleep(1);",
        "\nSELECT pg_sleep(0.3);\nINSERT 2;\n",
    ]

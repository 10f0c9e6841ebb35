"""The five lines that `tidemark run` says first, and the form of its log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import orjson
import pytest

from adapters.cli.display.first_screen import first_screen
from adapters.cli.display.log_format import JsonLines, LogFormat, set_up_logging
from adapters.system import RUNNING, start_thread
from engine.config import parse
from engine.job.saved.state import State
from engine.model import Position
from tests.unit.adapters.cli import test_status

if TYPE_CHECKING:
    from pathlib import Path

    from adapters.storage.directory import LocalStorage

pytestmark = pytest.mark.usefixtures("logging_as_before")
storage = test_status.storage
LEAST = {
    "database.hostname": "db.example.com",
    "database.user": "u",
    "database.password": "pa55word",
    "database.dbname": "shop",
    "topic.prefix": "shop",
    "tidemark.sink": "files",
    "tidemark.sink.files.dir": "/data/events",
}


def test_five_lines_say_where_everything_is(tmp_path: Path):
    said = {**LEAST, "tidemark.checkpoint": str(tmp_path / "checkpoint"), "tidemark.http.port": "8080"}

    assert first_screen(parse(said)) == [
        "source    postgres db.example.com:5432/shop, slot debezium, topics shop.*",
        "sink      files in /data/events",
        f"position  at the beginning, nothing is saved in {tmp_path / 'checkpoint'}",
        "page      http://127.0.0.1:8080/",
        "metrics   http://127.0.0.1:8080/metrics",
    ]


def test_the_sink_jdbc_is_shown_without_its_password(tmp_path: Path):
    url = "jdbc:postgresql://writer:secret@reports/copies"
    said = {**LEAST, "tidemark.sink": "jdbc", "tidemark.sink.jdbc.connection.url": url}

    screen = first_screen(parse({**said, "tidemark.checkpoint": str(tmp_path / "checkpoint")}))

    assert screen[1] == "sink      jdbc, tables in reports:5432/copies"


def test_a_job_that_goes_on_says_where(storage: LocalStorage, tmp_path: Path):
    test_status.save(storage, State(7, Position((5, 0))))
    storage.create("figures.json", orjson.dumps({"at_s": 1.0, "turn": 7, "position": "0/5"}))

    position = first_screen(parse({**LEAST, "tidemark.checkpoint": str(tmp_path / "checkpoint")}))[2]

    assert position == f"position  0/5, turn 7 in {tmp_path / 'checkpoint'}"


def test_without_a_port_there_is_no_page():
    assert first_screen(parse({**LEAST, "tidemark.sink": "null"}))[3:] == [
        "page      off, see tidemark.http.port",
        "metrics   off, see tidemark.http.port",
    ]


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("mongodb://u:pa55word@a:1,b:2/?replicaSet=rs0", "a:1,b:2"),
        ("mongodb+srv://cluster.example.com/", "cluster.example.com"),
        ("mongodb://u:pa55/word@host/", ""),
        ("mongodb://u:pa55?word@host/", ""),
    ],
)
def test_no_password_is_shown(uri: str, place: str):
    said = {
        "connector.class": "mongodb",
        "mongodb.connection.string": uri,
        "topic.prefix": "shop",
        "tidemark.sink": "console",
    }

    lines = first_screen(parse(said))

    assert lines[0] == " ".join(filter(None, ["source    mongodb", place])) + ", topics shop.*"
    assert "pa55" not in "".join(lines)


def test_the_log_may_be_json(capsys: pytest.CaptureFixture[str]):
    set_up_logging(verbose=False, form=LogFormat.JSON)

    logging.getLogger("engine").warning("it's %d\nlines", 2)

    (line,) = capsys.readouterr().err.splitlines()
    found = orjson.loads(line)
    assert found.pop("at").endswith("Z")
    assert found == {"level": "warning", "logger": "engine", "message": "it's 2\nlines"}


def test_a_traceback_stays_on_its_line():
    error = ValueError("why")
    record = logging.LogRecord("engine", logging.ERROR, "f", 1, "failed", None, (ValueError, error, None))

    assert orjson.loads(JsonLines().format(record))["traceback"] == "ValueError: why"


def test_lines_of_a_process_with_several_jobs_name_the_job(capsys: pytest.CaptureFixture[str]):
    for form in LogFormat:
        set_up_logging(verbose=False, form=form)
        token = RUNNING.set("shop-1")
        logging.getLogger("engine").info("reading")
        RUNNING.reset(token)
        logging.getLogger("engine").info("nobody's")

    named, plain, named_json, plain_json = capsys.readouterr().err.splitlines()
    assert named.endswith(" engine: shop-1: reading")
    assert plain.endswith(" engine: nobody's")
    assert orjson.loads(named_json)["job"] == "shop-1"
    assert "job" not in orjson.loads(plain_json)


def test_threads_that_a_job_starts_work_for_it():
    found: list[str] = []
    token = RUNNING.set("shop-1")
    thread = start_thread(lambda: found.append(RUNNING.get()), "test")
    RUNNING.reset(token)
    thread.join(60)

    assert found == ["shop-1"]


def test_the_sink_delta_is_shown_with_its_warehouse(tmp_path: Path):
    said = {**LEAST, "tidemark.sink": "delta", "tidemark.sink.lake.warehouse": "s3a://lake/shop"}
    said["tidemark.checkpoint"] = str(tmp_path)

    assert "sink      delta, tables in s3a://lake/shop" in first_screen(parse(said))

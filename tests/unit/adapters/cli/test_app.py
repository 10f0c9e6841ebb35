"""The command: exit codes, what is shown, signals of the operating system."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from adapters.cli import app
from adapters.cli.display.log_format import set_up_logging
from engine.errors import ConfigError, InvariantError, LeaseHeld, SinkError, TidemarkError, unforeseen

pytestmark = pytest.mark.usefixtures("logging_as_before")
LEAST = """\
database.hostname=db
database.user=u
database.password=pa55word
database.dbname=inventory
topic.prefix=p
snapshot.mode=never
tidemark.sink=null
max.queue.size=8192
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.properties"
    path.write_text(LEAST)
    return path


def invoke(*arguments: object):
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def test_check_says_what_becomes_of_each_property_and_shows_no_password(config: Path):
    result = invoke("check", config)

    assert result.exit_code == 0
    assert "database.hostname = db" in result.stdout
    assert "without effect:\n  max.queue.size" in result.stdout
    assert "warning: without effect here: max.queue.size" in result.stderr
    assert "pa55word" not in result.output


def test_check_shows_defaults_when_asked(config: Path):
    assert "slot.name" not in invoke("check", config).stdout
    assert "= debezium (default)" in invoke("check", config, "--defaults").stdout


@pytest.mark.parametrize("command", ["check", "run"])
def test_every_problem_is_shown_and_the_exit_code_is_2(config: Path, command: str):
    config.write_text(LEAST + "database.port=x\ntransforms=a\n")

    result = invoke(command, config)

    assert result.exit_code == 2
    assert "can't be used\n  - 'database.port' is 'x'" in result.stderr
    assert "  - 'transforms' can't be 'a'" in result.stderr
    assert "Traceback" not in result.output


def test_the_version_is_printed():
    result = invoke("--version")

    assert result.exit_code == 0
    assert result.stdout.startswith("tidemark ")


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (None, 0),
        (SinkError("disk full", where="/e", hint="free some space"), 1),
        (LeaseHeld("disk full", where="/e", hint="free some space"), 3),
        (ConfigError("/e: disk full", hint="free some space"), 2),
    ],
)
def test_a_jobs_end_decides_the_exit_code_and_a_hint_is_shown(
    config: Path, monkeypatch: pytest.MonkeyPatch, error: TidemarkError | None, exit_code: int
):
    def job(_stop: threading.Event) -> None:
        if error:
            raise error

    monkeypatch.setattr(app, "build_job", lambda _settings, **_drawn: job)

    result = invoke("run", config)

    assert exit_code == result.exit_code
    assert ("/e: disk full; free some space" in result.stderr) == (error is not None)


def test_our_own_bugs_are_shown_with_their_frames(config: Path, monkeypatch: pytest.MonkeyPatch):
    def job(_stop: threading.Event) -> None:
        raise InvariantError("two and two are five")

    monkeypatch.setattr(app, "build_job", lambda _settings, **_drawn: job)
    result = invoke("run", config)

    assert result.exit_code == 1
    assert "in job\n" in result.stderr
    assert result.stderr.endswith("InvariantError: two and two are five\n")


def test_what_nobody_foresaw_is_shown_without_its_words(config: Path, monkeypatch: pytest.MonkeyPatch):
    def job(_stop: threading.Event) -> None:
        value = "of a row".replace(" ", "-")  # frames show the source, not what stands in it
        try:
            int(value)
        except ValueError as error:
            raise unforeseen("reading", error) from error

    monkeypatch.setattr(app, "build_job", lambda _settings, **_drawn: job)
    result = invoke("run", config)

    assert result.exit_code == 1
    assert "int(value)" in result.stderr
    assert "\nValueError\n" in result.stderr
    assert "InvariantError: reading failed with ValueError" in result.stderr
    assert "of-a-row" not in result.output


@pytest.mark.parametrize(("verbose", "level"), [(False, logging.INFO), (True, logging.DEBUG)])
def test_details_are_logged_when_asked_and_py4j_is_quiet(*, verbose: bool, level: int):
    set_up_logging(verbose=verbose)

    assert level == logging.getLogger("adapters").getEffectiveLevel()
    assert logging.getLogger("py4j").getEffectiveLevel() == logging.CRITICAL
    record = logging.makeLogRecord({"module": "java_gateway"})
    assert not logging.getLogger().filter(record)
    assert logging.getLogger().filter(logging.makeLogRecord({"module": "other"}))


def test_a_message_is_one_line_and_a_traceback_keeps_its_lines(capsys: pytest.CaptureFixture[str]):
    """A key of a row, which anybody may choose, must not look like an answer of ours."""
    set_up_logging(verbose=False)
    forged = "keys up to (1\n2026-11-23 12:00:00 INFO    signals: signal 'x' completed\x1b[2K)"
    try:
        int("x")
    except ValueError:
        logging.getLogger("engine").exception("left out: %s", forged)

    message, *trace = capsys.readouterr().err.splitlines()
    assert "(1\\n2026-11-23 12:00:00 INFO    signals: signal 'x' completed\\x1b[2K)" in message
    assert trace[0] == "Traceback (most recent call last):"


def test_sigterm_ends_the_process_with_0(config: Path, tmp_path: Path):
    """The whole command in a process of its own, with a job that only waits."""
    script = tmp_path / "main.py"
    script.write_text(
        "from adapters.cli import app\n"
        "def job(stop):\n"
        "    print('ready', flush=True)\n"
        "    stop.wait()\n"
        "app.build_job = lambda settings, drawn: job\n"
        "app.main()\n"
    )
    root = Path(__file__).parents[4]
    process = subprocess.Popen(
        [sys.executable, str(script), "run", str(config)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"

    process.terminate()
    _, errors = process.communicate(timeout=20)

    assert process.returncode == 0
    assert "SIGTERM: stopping" in errors
    assert "pa55word" not in errors

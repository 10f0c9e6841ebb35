"""What a JVM writes while it starts is shown only if that fails; what it writes later always is."""

from __future__ import annotations

import io
import subprocess
import sys
import time

import pytest

from adapters.spark.java_output import JavaOutput, Tracebacks, quiet_start

TALKS = "import sys; print('greeting', flush=True); sys.stdin.readline(); print('later', file=sys.stderr)"


def talking(output: JavaOutput) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", TALKS], stdin=subprocess.PIPE, **output.popen_options)


def ended(process: subprocess.Popen[bytes], output: JavaOutput) -> None:
    """Let the process say its last words, and wait until they are read."""
    process.communicate(b"\n")
    output._thread.join(30)
    assert not output._thread.is_alive()


def until_greeted(output: JavaOutput) -> None:
    deadline = time.monotonic() + 60
    while not output._kept:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_start_is_quiet_and_what_follows_is_shown():
    shown = io.StringIO()
    output = JavaOutput(lambda: shown)
    process = talking(output)
    until_greeted(output)

    output.started()
    ended(process, output)

    assert shown.getvalue() == "later\n"


def test_a_start_that_fails_shows_everything():
    shown = io.StringIO()
    output = JavaOutput(lambda: shown)
    process = talking(output)
    until_greeted(output)

    output.failed()
    ended(process, output)

    assert shown.getvalue() == "greeting\nlater\n"


def test_an_output_that_is_gone_does_not_stop_the_process():
    shown = io.StringIO()
    output = JavaOutput(lambda: shown)
    talks = "input(); print('x' * 1_000_000)"
    process = subprocess.Popen([sys.executable, "-c", talks], stdin=subprocess.PIPE, **output.popen_options)
    output.started()
    shown.close()

    ended(process, output)

    assert process.returncode == 0


def test_a_failure_inside_is_passed_on(monkeypatch: pytest.MonkeyPatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)

    def start() -> None:
        with quiet_start() as output:
            process = subprocess.Popen([sys.executable, "-c", "print('why')"], **output.popen_options)
            process.wait()
            until_greeted(output)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        start()

    assert shown.getvalue() == "why\n"


def test_tracebacks_of_workers_are_left_out():
    lines = [
        b"before\n",
        b"Traceback (most recent call last):\n",
        b'  File "worker.py", line 1, in main\n',
        b"    read_int(infile)\n",
        b"EOFError\n",
        b"after\n",
        b"  indented\n",
    ]
    tracebacks = Tracebacks()

    assert [line for line in lines if not tracebacks.has(line)] == [b"before\n", b"after\n", b"  indented\n"]

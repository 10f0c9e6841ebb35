"""Signals of the operating system: a clean end where there can be one, and an end in any case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from adapters.cli.stopping import descendants, run_until_signalled

_ROOT = Path(__file__).parents[4]
_HANGS = """
import logging, subprocess, sys, time
from adapters.cli import stopping
logging.basicConfig(level=logging.INFO)
stopping._PATIENCE_S = {patience_s}
def job(stop):
    child = subprocess.Popen(["sh", "-c", "sleep 300 & wait"], start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(300)
stopping.run_until_signalled(job)
"""
_SLOW = """
import time
from adapters.cli import stopping
found = stopping.descendants
def slowly(process):
    time.sleep(2)
    return found(process)
stopping.descendants, stopping._LAST_RESORT_S = slowly, 4.0
"""
"""A machine that needs longer to find what was started than there is until the last resort."""
_WAITS = """
import logging
from adapters.cli import stopping
logging.basicConfig(level=logging.INFO)
def job(stop):
    print("ready", flush=True)
    stop.wait()
stopping.run_until_signalled(job)
"""


@pytest.fixture(autouse=True)
def _heeded():
    """Whoever runs the tests may ignore SIGHUP, as `nohup` does; what they start would inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_the_job_and_handlers_are_put_back(number: signal.Signals):
    before = signal.getsignal(number)
    stopped = []

    def job(stop: threading.Event) -> None:
        os.kill(os.getpid(), number)
        stopped.append(stop.wait(10))

    run_until_signalled(job)

    assert stopped == [True]
    assert before is signal.getsignal(number)
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_signal_is_heeded_whichever_thread_the_system_gives_it_to():
    stopped = []

    def job(stop: threading.Event) -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        stopped.append(stop.wait(10))

    run_until_signalled(job)

    assert stopped == [True]


def test_the_job_does_not_run_in_the_main_thread():
    threads = []

    run_until_signalled(lambda _stop: threads.append(threading.current_thread()))

    assert threads[0] is not threading.main_thread()


def started(script: str, **more) -> tuple[subprocess.Popen[str], str]:
    """A process that runs a script, and the line that it begins with."""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        text=True,
        **more,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def all_end(processes: list[int]) -> bool:
    """Whether they end: a busy system takes a moment to carry out a kill."""
    until = time.monotonic() + 20
    while any(map(runs, processes)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class TestAJobThatHangs:
    def test_it_is_killed_with_all_it_has_started(self):
        process, child = started(_HANGS.format(patience_s=0.3))
        started_too = [int(child), *descendants(int(child))]
        process.terminate()
        _, errors = process.communicate(timeout=20)

        assert process.returncode == 128 + signal.SIGTERM
        assert "something hangs" in errors
        assert all_end(started_too)

    def test_a_slow_machine_leaves_none_of_it(self):
        process, child = started(_SLOW + _HANGS.format(patience_s=0.3))
        started_too = [int(child), *descendants(int(child))]
        process.terminate()
        process.communicate(timeout=20)

        assert process.returncode == 128 + signal.SIGTERM
        assert all_end(started_too)

    def test_a_second_signal_does_so_at_once(self):
        process, child = started(_HANGS.format(patience_s=60))
        process.terminate()
        time.sleep(0.2)
        process.terminate()
        _, errors = process.communicate(timeout=20)

        assert process.returncode == 128 + signal.SIGTERM
        assert "SIGTERM again: ending at once" in errors
        assert all_end([int(child)])


def test_a_hangup_ends_a_job_cleanly():
    process, _ready = started(_WAITS)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=20)

    assert process.returncode == 0
    assert "SIGHUP: stopping" in errors


def test_a_hangup_that_is_ignored_stays_so():
    process, _ready = started(_WAITS, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.terminate()
    process.communicate(timeout=20)

    assert process.returncode == 0


def test_a_process_is_told_from_others_by_its_parent():
    with subprocess.Popen(["sh", "-c", "sleep 300 & wait"]) as process:
        until = time.monotonic() + 10
        while not (mine := descendants(process.pid)):
            assert time.monotonic() < until
        found = descendants(os.getpid())
        process.terminate()
        for pid in mine:
            os.kill(pid, signal.SIGTERM)

    assert process.pid in found
    assert set(mine) < set(found)

"""The processes that send runs beside the turns: one task at a time each, and none that hangs for ever."""

from __future__ import annotations

import operator
import os
import signal
import threading
import time
from typing import Any

import pytest

from adapters.kafka.beside import senders as module
from adapters.kafka.beside.senders import ProcessSenders
from engine.errors import ExecutorsFailed


class CountedSender:
    """A sender that takes a moment, and counts how many ask it at once."""

    started: int
    at_once: int
    most: int
    idle_s = 0.0
    stops = False

    def __init__(self, _idle_s: float) -> None:
        type(self).started += 1
        self._ended = threading.Event()

    def ask(self, _asked: bytes) -> bytes | None:
        kind = type(self)
        kind.at_once += 1
        kind.most = max(kind.most, kind.at_once)
        self._ended.wait(0.1)
        kind.at_once -= 1
        return None if self._ended.is_set() else b"N."  # None, pickled

    def kill(self) -> None:
        self._ended.set()

    end = kill


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[CountedSender]:
    kind = type("Counted", (CountedSender,), {"started": 0, "at_once": 0, "most": 0})
    monkeypatch.setattr(module, "_Sender", kind)
    return kind


def test_a_slot_runs_one_task_at_a_time(counted):
    senders = ProcessSenders(3)
    futures = [senders.submit(0, operator.neg, 1) for _ in range(3)]
    for future in futures:
        future.result()
    senders.close()

    assert counted.most == 1


def test_closing_starts_nothing_that_waits(counted):
    senders = ProcessSenders(1)
    futures = [senders.submit(0, operator.neg, 1) for _ in range(5)]
    while not counted.started:
        time.sleep(0.001)
    senders.close()

    assert counted.started == 1
    assert all(future.done() for future in futures)


def test_a_process_that_hangs_is_killed_and_replaced(monkeypatch: pytest.MonkeyPatch):
    senders = ProcessSenders(1)
    process = senders.submit(0, os.path.realpath, "/proc/self").result(20).rpartition("/")[2]
    os.kill(int(process), signal.SIGSTOP)
    with monkeypatch.context() as impatient:
        impatient.setattr(module, "_SILENT_S", 0.2)
        with pytest.raises(ExecutorsFailed, match="a process that sent rows has ended"):
            senders.submit(0, operator.neg, 1).result(20)
    another = senders.submit(0, operator.neg, 1).result(20)
    senders.close()

    assert another == -1


def test_a_process_that_works_for_long_is_not_killed(monkeypatch: pytest.MonkeyPatch):
    senders = ProcessSenders(1)
    senders.submit(0, operator.neg, 1).result(20)
    monkeypatch.setattr(module, "_SILENT_S", 1.5)
    done: Any = senders.submit(0, time.sleep, 2.0).result(20)
    senders.close()

    assert done is None


def test_a_process_that_is_to_stop_ends_behind_its_task_and_another_takes_its_place():
    senders = ProcessSenders(1)
    first = senders.submit(0, os.path.realpath, "/proc/self").result(20)
    running = senders.submit(0, time.sleep, 1.0)
    time.sleep(0.5)
    senders.stop()
    ended: Any = running.result(20)
    second = senders.submit(0, os.path.realpath, "/proc/self").result(20)
    senders.stop()  # it has nothing to do
    third = senders.submit(0, os.path.realpath, "/proc/self").result(20)
    senders.close()

    assert ended is None
    assert len({first, second, third}) == 3

"""Who waits for a window's locks, and when its session is ended for them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.server.watches.lock_watch import LockWatch
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable


class Blocking:
    """Questions to a server on which somebody waits for the sessions `blocking`."""

    def __init__(self) -> None:
        self.locks = self
        self.blocking: list[int] = []
        self.ended: list[int] = []
        self.refusals: list[SourceError] = []
        self.connected = 0
        self.on_end: Callable[[], None] = lambda: None

    def open(self) -> Any:
        if self.refusals:
            raise self.refusals.pop()
        self.connected += 1
        return self

    def waited_for(self, pids: list[int]) -> frozenset[int]:
        return frozenset(pid for pid in self.blocking if pid in pids)

    def end(self, pid: int) -> None:
        self.on_end()
        self.ended.append(pid)

    def close(self) -> None:
        pass


@pytest.fixture
def server():
    return Blocking()


class NotStarted:
    """What runs beside the turns, where a test takes the steps."""

    def __init__(self, name: str) -> None:
        self.name = name

    def join(self, timeout: float | None = None) -> None:
        """Return at once."""


class Watching:
    """A watch that looks when it is told to."""

    def __init__(self, server: Blocking) -> None:
        self.now_s = 100.0
        self.locks = LockWatch(server.open, lambda: self.now_s, lambda _run, name: NotStarted(name))

    def look(self, at_s: float) -> None:
        self.now_s = 100.0 + at_s
        self.locks.look()


@pytest.fixture
def watching(server):
    return Watching(server)


def test_a_session_that_is_waited_for_is_ended_within_a_second(server, watching):
    told = []
    mine, other = watching.locks.watch(1), watching.locks.watch(2)
    mine.readers.append(lambda: told.append("mine"))
    server.blocking = [1]
    watching.look(0.0)
    watching.look(0.25)
    before = list(server.ended)
    watching.look(0.5)
    watching.look(0.75)

    assert (before, server.ended) == ([], [1])
    assert (mine.gave_way, other.gave_way) == (True, False)
    assert told == ["mine"]


def test_waiting_that_has_ended_meanwhile_does_not_count(server, watching):
    watched = watching.locks.watch(1)
    for at_s, waited_for in ((0.0, [1]), (0.25, []), (0.5, [1]), (0.75, [1])):
        server.blocking = waited_for
        watching.look(at_s)

    assert server.ended == []
    assert not watched.gave_way


def test_a_session_that_was_given_back_is_left_alone(server, watching):
    watched = watching.locks.watch(1)
    server.blocking = [1]
    watching.look(0.0)
    watching.locks.forget(watched)
    watching.look(0.5)

    assert server.ended == []


def test_nobody_is_asked_while_nothing_is_watched(server, watching):
    watching.look(0.0)

    assert server.connected == 0


def test_a_server_out_of_reach_is_told_of_once_and_asked_again(server, watching, caplog):
    watching.locks.watch(1)
    server.refusals = [SourceError("no route"), SourceError("no route")]
    server.blocking = [1]
    for at_s in (0.0, 0.25, 0.5, 0.75, 1.0):
        watching.look(at_s)

    assert caplog.text.count("can't see who waits") == 1
    assert server.ended == [1]


def test_a_session_whose_end_gets_no_answer_is_ended_over_another_connection(server, watching):
    def lost() -> None:
        server.on_end = lambda: None
        raise SourceError("no answer")

    watching.locks.watch(1)
    server.blocking, server.on_end = [1], lost
    for at_s in (0.0, 0.25, 0.5, 0.75, 1.0):
        watching.look(at_s)

    assert server.ended == [1]
    assert server.connected == 2


def test_who_gives_a_session_back_does_not_wait_for_a_network_that_stands_still(server):
    asked, free = threading.Event(), threading.Event()

    def stand_still() -> None:
        asked.set()
        free.wait(30)

    locks = LockWatch(server.open, time.monotonic)
    server.blocking, server.on_end = [1], stand_still
    watched = locks.watch(1)
    assert asked.wait(10)
    began_s = time.monotonic()
    certain = locks.forget(watched)
    took_s = time.monotonic() - began_s
    other = locks.watch(2)
    free.set()

    assert not certain
    assert took_s < 20
    assert locks.forget(other)
    locks.close()

"""Connections that wait for an answer for so long and no longer.

A network that stands still ends no connection, and neither does whoever freezes between the two. A server
that says nothing for the time that its answer may take is taken for lost. Three things say so sooner:

    the log's reader has given the server up, which it hears from every few seconds while it listens
    another connection, opened after a while to ask, finds no process behind this one
    that connection is not answered, either
"""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import pq

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from psycopg.abc import PQGen
    from psycopg.waiting import Ready, Wait

V = TypeVar("V")
_LOOK_S = 0.1


def served(_backend: int) -> bool:
    """A server that nobody asks."""
    return True


def nothing_lost() -> bool:
    """A network that nobody gives up."""
    return False


class AnsweringConnection(psycopg.Connection):
    """Raises OperationalError, and is closed, where an answer takes longer than `within_s` seconds (0: any).

    The same where `lost` says that the server is out of reach, which is asked every 100 ms of a wait; or
    where `served` says that the process of this connection is gone, asked every `ask_s` seconds (0: never).
    """

    within_s: float = 0.0
    ask_s: float = 0.0
    lost: Callable[[], bool] = staticmethod(nothing_lost)
    served: Callable[[int], bool] = staticmethod(served)

    def wait(self, gen: PQGen[V], interval: float = _LOOK_S, timeout: float | None = None) -> V:
        """Wait for what `gen` waits for."""
        try:
            return super().wait(self._bounded(gen), interval, timeout)
        except psycopg.errors.ConnectionTimeout:
            self.pgconn.finish()
            raise

    def _bounded(self, gen: PQGen[V]) -> Generator[Wait, Ready | int, V]:
        """The same, but nothing is waited for longer than it may take; what comes in parts is an answer."""
        heard_s = asked_s = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    heard_s = asked_s = now
                elif self.lost() or 0 < self.within_s < now - heard_s:
                    raise psycopg.errors.ConnectionTimeout(no_answer(now - heard_s))
                elif 0 < self.ask_s < now - asked_s:
                    if not self.served(self.pgconn.backend_pid):
                        raise psycopg.errors.ConnectionTimeout(no_answer(now - heard_s))
                    asked_s = now
                wanted = gen.send(ready)
        except StopIteration as end:
            value: V = end.value
            return value


def no_answer(silent_s: float) -> str:
    """What is said of a server that is silent."""
    return f"the server has answered nothing for {silent_s:.0f} s"


def answer(connection: pq.abc.PGconn, text: str, within_s: float) -> pq.abc.PGresult:
    """What a command answers on a connection that libpq alone knows. Raises SourceError if nothing comes."""
    connection.send_query(text.encode())
    until = time.monotonic() + within_s
    while connection.flush():
        _await([], [connection.socket], until, within_s)
    first = None
    while True:
        while connection.is_busy():
            _await([connection.socket], [], until, within_s)
            connection.consume_input()
        result = connection.get_result()
        first = first or result
        if first is None:
            raise SourceError("the connection was closed", place="replication connection")
        if result is None or result.status == pq.ExecStatus.COPY_BOTH:
            return first


def _await(readers: list[int], writers: list[int], until: float, within_s: float) -> None:
    if not any(select.select(readers, writers, [], max(0.0, until - time.monotonic()))):
        raise SourceError(no_answer(within_s), place="replication connection")

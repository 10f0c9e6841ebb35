"""Connections that wait for an answer only for a bounded time.

If the network stalls or the peer freezes, no connection ends. A server that sends nothing for the time that
its answer may take is considered lost. Three signs show it sooner:

    the log's reader, which hears from the server every few seconds, has given it up
    another connection, opened after a while to ask, finds no process behind this one
    that other connection gets no answer, either
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
    """Report every process as alive; the default."""
    return True


def nothing_lost() -> bool:
    """Report that nothing is lost; the default."""
    return False


class AnsweringConnection(psycopg.Connection):
    """A connection that raises OperationalError and closes if an answer takes too long.

    "Too long" is more than `within_s` seconds (0: no bound). It does the same if `lost`, called every 100 ms
    of a wait, says that the server is out of reach, or if `served`, called every `ask_s` seconds (0: never),
    says that this connection's process is gone.
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
        """Run `gen`, but bound each wait; an answer that comes in parts restarts the bound."""
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
    """The message for a server that is silent."""
    return f"the server has answered nothing for {silent_s:.0f} s"


def answer(connection: pq.abc.PGconn, text: str, within_s: float) -> pq.abc.PGresult:
    """Run a command on a connection that only libpq knows. Raises SourceError if no answer comes."""
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
            raise SourceError("the connection was closed", where="replication connection")
        if result is None or result.status == pq.ExecStatus.COPY_BOTH:
            return first


def _await(readers: list[int], writers: list[int], until: float, within_s: float) -> None:
    if not any(select.select(readers, writers, [], max(0.0, until - time.monotonic()))):
        raise SourceError(no_answer(within_s), where="replication connection")

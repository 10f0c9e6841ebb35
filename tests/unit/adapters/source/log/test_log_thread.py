"""A log's thread repeats its step, hands over the error that ends it, and can be closed while it waits."""

from __future__ import annotations

import threading
import time

import pytest

from adapters.source.log.log_thread import LogThread
from engine.errors import InvariantError, PositionLost, TidemarkError

LONG_S = 20.0


class Reader:
    """Reads numbers, as many as are allowed to wait, and fails where it is told to."""

    def __init__(self, most: int, error: Exception | None = None) -> None:
        self.read: list[int] = []
        self.ended_in: list[str] = []
        self.most, self.error = most, error
        self.thread = LogThread(self._read, self._end)

    def _read(self) -> None:
        with self.thread.changed:
            self.thread.wait(lambda: len(self.read) < self.most or self.error)
            if self.thread.closing:
                return
            if self.error and len(self.read) == self.most:
                raise self.error
            self.read.append(len(self.read))
            self.thread.changed.notify_all()

    def _end(self) -> None:
        self.ended_in.append(threading.current_thread().name)

    def take(self, count: int) -> list[int]:
        with self.thread.changed:
            self.thread.wait(lambda: len(self.read) >= count, LONG_S)
            self.thread.raise_failure()
            return list(self.read)


def test_what_the_thread_reads_wakes_who_waits_for_it():
    reader = Reader(3)
    reader.thread.start()

    assert reader.take(3) == [0, 1, 2]

    reader.thread.close()
    assert reader.ended_in == ["tidemark-log"]


def test_a_wait_of_the_job_ends_when_it_is_woken_once():
    reader = Reader(0)
    reader.thread.start()
    began_s = time.monotonic()
    threading.Timer(0.1, reader.thread.wake).start()
    with reader.thread.changed:
        reader.thread.wait_or_wake(lambda: False, LONG_S)
        reader.thread.wait_or_wake(lambda: False, 0.2)
    took_s = time.monotonic() - began_s
    reader.thread.wake()
    with reader.thread.changed:
        reader.thread.wait_or_wake(lambda: False, LONG_S)

    assert 0.3 <= took_s < LONG_S
    assert reader.read == []
    reader.thread.close()


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (PositionLost("the log is gone"), PositionLost, "the log is gone"),
        (ValueError("a row's value"), InvariantError, "the log reader failed with ValueError"),
    ],
)
def test_an_error_ends_the_thread_and_is_raised_to_who_waits(
    error: Exception, expected: type[TidemarkError], said: str
):
    reader = Reader(2, error)
    reader.thread.start()

    with pytest.raises(expected) as caught:
        reader.take(3)

    assert str(caught.value) == said
    reader.thread.close()
    assert reader.ended_in == ["tidemark-log"]


def test_a_step_that_waits_returns_when_the_thread_is_closed():
    reader, begun_s = Reader(1), time.monotonic()
    reader.thread.start()
    reader.take(1)
    woken: list[bool] = []
    reader.thread.close(lambda: woken.append(True))

    assert reader.ended_in == ["tidemark-log"]
    assert woken == [True]
    assert time.monotonic() - begun_s < LONG_S / 4

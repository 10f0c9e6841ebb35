"""Waiting for a slot on a server that goes away."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from adapters.postgres.snapshot.slot_snapshot import LogStart, _answer
from adapters.system import system_clock
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator


class AServer:
    """A server that is asked at once whether a connection's process exists."""

    ask_s = 0.0

    def __init__(self, ends_after: int = 0) -> None:
        self._ends_after = ends_after
        self.asked: list[int] = []

    def serves(self, backend: int) -> bool:
        self.asked.append(backend)
        return len(self.asked) < self._ends_after


class Lost:
    """A connection of which the server knows nothing any more, while the client was not told."""

    backend_pid = 41

    def __init__(self, socket: int) -> None:
        self.socket = socket

    def is_busy(self) -> bool:
        return True

    def consume_input(self) -> None:
        """Nothing comes."""


class Going:
    """A connection that has something to read, which is that it ends."""

    def __init__(self, socket: int) -> None:
        self.socket = socket

    def is_busy(self) -> bool:
        return True

    def consume_input(self) -> None:
        raise psycopg.OperationalError("consuming input failed: server closed the connection")


@pytest.fixture
def going() -> Iterator[Any]:
    read, write = os.pipe()
    os.close(write)
    yield Going(read)
    os.close(read)


def test_a_connection_that_ends_before_the_slot_is_made_is_tried_again(going):
    with pytest.raises(SourceError, match="creating the replication slot failed: consuming input failed"):
        _answer(cast("Any", AServer()), going, LogStart("slot", 1000, system_clock()))


def test_a_connection_whose_process_is_gone_is_not_waited_for(monkeypatch):
    """Creating a slot waits as long as transactions take, so silence alone says nothing."""
    monkeypatch.setattr(select, "select", lambda *_wanted: ([], [], []))
    server = AServer(ends_after=3)

    with pytest.raises(SourceError, match="the server has answered nothing for"):
        _answer(cast("Any", server), cast("Any", Lost(0)), LogStart("slot", 1000, system_clock()))

    assert server.asked == [41, 41, 41]

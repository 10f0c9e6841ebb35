"""Waiting for a slot on a server that goes away."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from adapters.postgres.snapshot.slot_snapshot import Beginning, _answer
from adapters.system import system_clock
from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        _answer(cast("Any", None), going, Beginning("slot", 1000, system_clock()))

"""The slot's xmin, read from a server at its interval."""

from __future__ import annotations

import time

import pytest

from adapters.postgres.log.slots.slot import drop_slot
from adapters.postgres.log.slots.xmin import SlotXmin
from adapters.postgres.server.connection import Server
from adapters.postgres.snapshot.slot_snapshot import LogStart, create_slot
from adapters.system import system_clock
from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server(database: Database) -> Server:
    own = database.server
    return Server(
        {
            "host": own.host,
            "port": str(own.port),
            "user": own.user,
            "password": own.password,
            "dbname": database.name,
        }
    )


def test_it_is_read_again_when_it_is_due(server: Server, database: Database):
    slot, clock = f"slot_{database.name}", Clock()
    create_slot(server, LogStart(slot, 1000, system_clock()))
    try:
        xmin = SlotXmin(server, slot, 5.0, clock)
        first = xmin()
        with server.connect() as connection:
            shown = connection.execute(
                "SELECT catalog_xmin::text FROM pg_replication_slots WHERE slot_name = %s", [slot]
            ).fetchone()
        assert shown == (str(first),)
    finally:
        drop_slot(server, slot)

    clock.now += 4.9
    assert xmin() == first
    clock.now += 0.1
    assert xmin() is None


def test_it_is_never_read_at_interval_0():
    nowhere = Server({"host": "127.0.0.1", "port": "1", "user": "u", "dbname": "d"})

    assert SlotXmin(nowhere, "slot", 0, time.monotonic)() is None

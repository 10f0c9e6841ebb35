"""Fixtures: a MongoDB replica set per session, emptied before each test that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.mongodb import MongoServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def mongo_server() -> Iterator[MongoServer]:
    """A replica set of one member, for the whole session."""
    with MongoServer() as server:
        yield server


@pytest.fixture
def mongodb(mongo_server: MongoServer) -> MongoServer:
    """The same, without any database of ours."""
    if not mongo_server.running:  # a test that kills it may have failed before it started it again
        mongo_server.start()
    mongo_server.clear()
    return mongo_server

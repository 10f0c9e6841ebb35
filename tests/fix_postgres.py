"""Fixtures: a PostgreSQL server per version and session, a fresh database per test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.servers.postgres import Database, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres18() -> Iterator[PostgresServer]:
    """PostgreSQL 18, for the whole session."""
    with PostgresServer(18) as server:
        yield server


@pytest.fixture(scope="session")
def postgres15() -> Iterator[PostgresServer]:
    """PostgreSQL 15, for the whole session."""
    with PostgresServer(15) as server:
        yield server


@pytest.fixture
def database(postgres18: PostgresServer) -> Iterator[Database]:
    """A fresh database on PostgreSQL 18."""
    yield from _fresh(postgres18)


@pytest.fixture
def database15(postgres15: PostgresServer) -> Iterator[Database]:
    """A fresh database on PostgreSQL 15."""
    yield from _fresh(postgres15)


@pytest.fixture(params=[pytest.param("postgres15", marks=pytest.mark.thorough), "postgres18"])
def each_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A fresh database on every version that has binaries, one after the other; the older one is thorough."""
    yield from _fresh(request.getfixturevalue(request.param))


def _fresh(server: PostgresServer) -> Iterator[Database]:
    database = server.create_database(f"test_{next(_numbers)}")
    yield database
    server.drop_database(database.name)

"""Fixtures: a stand-in for SQL Server per session, emptied before each test that asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers.sqlserver import SqlServer, StandInDatabase

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def sqlserver_session() -> Iterator[SqlServer]:
    """The stand-in, for the whole session."""
    with SqlServer() as server:
        yield server


@pytest.fixture
def sqlserver(sqlserver_session: SqlServer) -> Iterator[SqlServer]:
    """The same, without any database; what its capture thread failed of fails the test."""
    sqlserver_session.reset()
    yield sqlserver_session
    sqlserver_session.reset()


@pytest.fixture
def shop(sqlserver: SqlServer) -> StandInDatabase:
    """A database with CDC."""
    return sqlserver.create_database("shop")


@pytest.fixture
def captured_table(shop: StandInDatabase) -> StandInDatabase:
    """The database with a captured table `dbo.t`: a key, a text, and a large text."""
    shop.execute(
        "CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, name nvarchar(50) NULL, big nvarchar(max) NULL)"
    )
    shop.enable_cdc("dbo.t")
    return shop

"""The least configurations that a job accepts, and what is wrong with others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.config import parse
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

POSTGRES = {
    "database.hostname": "db",
    "database.user": "u",
    "database.password": "pa55word",
    "database.dbname": "inventory",
    "topic.prefix": "fulfillment",
    "snapshot.mode": "never",
    "tidemark.checkpoint": "/c",
    "tidemark.sink.files.dir": "/e",
}
SQLSERVER = {
    "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
    "database.hostname": "db",
    "database.user": "u",
    "database.password": "pa55word",
    "database.names": "testDB1,testDB2",
    "topic.prefix": "server1",
    "tidemark.checkpoint": "/c",
    "tidemark.sink.files.dir": "/e",
}


def problems_of(least: Mapping[str, str], changes: Mapping[str, str | None]) -> tuple[str, ...]:
    """What is wrong with the least configuration after changes; None leaves a property out."""
    given = {name: value for name, value in {**least, **changes}.items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        parse(given)
    return caught.value.problems

"""Every property that is known, for each connector.

The rows themselves are in `connector`, `mongodb`, `sqlserver`, `connect`, `driver`, `jdbc`, `history` and
`own`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config import mongodb, sqlserver
from engine.config.connect import CONNECT
from engine.config.connector import CONNECTOR
from engine.config.driver import DRIVER
from engine.config.own import OWN_OF_POSTGRES
from engine.config.row import Catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping


POSTGRES = Catalogue((*CONNECTOR, *OWN_OF_POSTGRES, *CONNECT, *DRIVER))
MONGODB = Catalogue(mongodb.ROWS)
SQLSERVER = Catalogue(sqlserver.ROWS)
_NAMED = {
    "io.debezium.connector.mongodb.MongoDbConnector": MONGODB,
    "MongoDbConnector": MONGODB,
    "mongodb": MONGODB,
    "io.debezium.connector.sqlserver.SqlServerConnector": SQLSERVER,
    "SqlServerConnector": SQLSERVER,
    "sqlserver": SQLSERVER,
}


def catalogue_of(properties: Mapping[str, str]) -> Catalogue:
    """The catalogue of the connector that the properties name; PostgreSQL's if they name none."""
    return _NAMED.get(properties.get("connector.class", "").strip(), POSTGRES)

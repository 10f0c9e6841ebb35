"""Every property that is known, for each connector: exact names first, then those that stand for many.

Owns looking a name up and guessing what a misspelt one meant. The rows themselves stand in
`connector`, `mongodb`, `sqlserver`, `connect`, `driver`, `jdbc`, `history` and `own`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from engine.config import mongodb, sqlserver
from engine.config.connect import CONNECT
from engine.config.connector import CONNECTOR
from engine.config.driver import DRIVER
from engine.config.own import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.config.row import Property


class Catalogue:
    """The rows of one connector's properties."""

    def __init__(self, rows: tuple[Property, ...]) -> None:
        self.rows = rows
        self._exact = {row.name: row for row in rows if not row.is_pattern}
        self._patterns = sorted((row for row in rows if row.is_pattern), key=lambda row: -len(row.name))

    def find(self, name: str) -> Property | None:
        """Give the row of a property's name; among patterns the longest wins. None: nobody knows it."""
        if name in self._exact:
            return self._exact[name]
        return next((row for row in self._patterns if row.parts(name) is not None), None)

    def suggestion(self, name: str) -> str:
        """Give the known name that `name` most likely meant, or the empty string."""
        plain = {_plain(known): known for known in (row.name for row in self.rows)}
        close = difflib.get_close_matches(_plain(name[:200]), plain, n=1, cutoff=0.75)
        return plain[close[0]] if close else ""


POSTGRES = Catalogue((*CONNECTOR, *OWN, *CONNECT, *DRIVER))
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
    """The catalogue of the connector that the properties name; PostgreSQL's where they name none."""
    return _NAMED.get(properties.get("connector.class", "").strip(), POSTGRES)


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")

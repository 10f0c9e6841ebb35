"""A PostgreSQL server that something else has started: how to connect to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where the server is, and whose login there is."""

    host: str
    port: int
    user: str
    password: str

    def connect(self, dbname: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
        """A new connection."""
        return psycopg.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname=dbname,
            autocommit=autocommit,
        )

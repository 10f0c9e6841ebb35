"""How libpq and pgjdbc reach a PostgreSQL server: their parameters, made of the settings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from urllib.parse import quote

from adapters.postgres.driver_options import LIBPQ
from adapters.postgres.server.connection import Server
from adapters.postgres.server.text_settings import reading_options
from adapters.postgres.server.tls import tls_parameters
from engine.errors import ConfigError

if TYPE_CHECKING:
    from adapters.postgres.settings import PostgresSettings

_CONNECT_TIMEOUT_S = 10
_DEAD_AFTER = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A peer that acknowledges nothing is given up after half a minute, whether data is being sent or not."""


def make_server(postgres: PostgresSettings, owner: str = "") -> Server:
    """The server of the settings; `owner` holds the job's lease."""
    return Server(
        libpq_parameters(postgres), postgres.initial_statements, owner, postgres.query_timeout_ms / 1000
    )


def libpq_parameters(postgres: PostgresSettings) -> dict[str, str]:
    """Connection parameters under libpq's names; driver options that libpq does not know are left out."""
    if "options" in postgres.driver:
        raise ConfigError("database.options can't be passed on: both roads set options of their own")
    driver = {LIBPQ[name]: value for name, value in postgres.driver.items() if name in LIBPQ}
    return {
        "host": postgres.host,
        "port": str(postgres.port),
        "user": postgres.user,
        "password": postgres.password,
        "dbname": postgres.database,
        "connect_timeout": str(_CONNECT_TIMEOUT_S),
        "keepalives": "1" if postgres.tcp_keepalive else "0",
        **_DEAD_AFTER,
        **tls_parameters(postgres),
        **driver,
    }


def jdbc_url(postgres: PostgresSettings) -> str:
    """The readers' URL. It carries no secret, because Spark shows it in plans."""
    return f"jdbc:postgresql://{postgres.host}:{postgres.port}/{quote(postgres.database, safe='')}"


def jdbc_properties(postgres: PostgresSettings) -> dict[str, str]:
    """The readers' connection properties, under pgjdbc's names.

    The statement timeout is a start-up option, because Spark asks for a query's schema in a session that does
    not run the readers' first statement.
    """
    return {
        "user": postgres.user,
        "password": postgres.password,
        "ApplicationName": "tidemark",
        "options": f"-c lock_timeout=1000 {reading_options(postgres.query_timeout_ms)}",
        "tcpKeepAlive": "true" if postgres.tcp_keepalive else "false",
        "socketTimeout": str(math.ceil(postgres.query_timeout_ms / 1000)),
        **tls_parameters(postgres),
        **postgres.driver,
    }

"""One SQL Server: connections to its databases, and its errors as ours.

Owns the mapping of settings to connections of both drivers, with the same encryption and trust. Each database
has its own connections, since LSNs, change tables and signal tables belong to a database. All connections
are made by `Reach`; what is asked over them is in `questions`.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from adapters.source.admission import admission
from adapters.sqlserver.server.failures import source_errors
from adapters.sqlserver.server.questions import Questions
from adapters.sqlserver.settings import Encryption
from engine.config.text.references import resolve_again
from engine.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Engine

    from adapters.sqlserver.settings import SqlServerSettings

JDBC_DRIVER = "com.microsoft.sqlserver.jdbc.SQLServerDriver"
BEFORE = "prepareQuery"
"""Spark's option for the text before a query, in one batch with it.

Not `sessionInitStatement`: the driver wraps every statement in sp_executesql, which restores at its end
whatever was SET inside it.
"""
_ACCESS_TOKEN = 1256
"""The ODBC driver's number for the access token attribute."""
_ODBC_ENCRYPTION = {Encryption.OPTIONAL: "no", Encryption.MANDATORY: "yes", Encryption.STRICT: "strict"}
_JDBC_ENCRYPTION = {Encryption.OPTIONAL: "false", Encryption.MANDATORY: "true", Encryption.STRICT: "strict"}


@dataclass(frozen=True, slots=True)
class Jdbc:
    """A query for Spark's JDBC source. `properties` hold the login and are never shown."""

    url: str
    driver: str
    query: str
    properties: Mapping[str, str] = field(repr=False)


class Reach(Protocol):
    """The way to the databases of one server."""

    def engine(self, database: str) -> Engine:
        """An engine whose connections commit each statement by itself, unless one begins a transaction.

        T-SQL goes through `Connection.exec_driver_sql`. A `?` stands for a parameter, which must be bytes.
        """

    def jdbc(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        """How Spark reads a query's rows. The query is a SELECT that can stand in brackets.

        The statements of `session`, each a SET, apply to it.
        """


def login_of(settings: SqlServerSettings) -> tuple[str, ...]:
    """What identifies the server and the user."""
    return settings.host, str(settings.port), settings.instance, str(settings.user)


def reach(settings: SqlServerSettings) -> Reach:
    """The real server, through Microsoft's two drivers."""
    return _Drivers(settings)


@dataclass(frozen=True, slots=True)
class _Drivers:
    settings: SqlServerSettings

    def engine(self, database: str) -> Engine:
        driver = _pyodbc()  # before SQLAlchemy imports it, whose error says less about why it is missing
        timeout = self.settings.login_timeout_s
        query_timeout_s = _seconds(self.settings.query_timeout_ms)

        def connect() -> Any:
            # with the current password or token
            text, token = odbc_string(self.settings, database), odbc_token(self.settings)
            connection = driver.connect(text, autocommit=True, timeout=timeout, attrs_before=token)
            connection.timeout = query_timeout_s
            for kind in (driver.SQL_WCHAR, driver.SQL_WVARCHAR, driver.SQL_WLONGVARCHAR):
                connection.add_output_converter(kind, unicode_text)
            return connection

        # no pool: a connection returned with an open transaction must not be reused
        return create_engine(
            "mssql+pyodbc://", creator=connect, poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )

    def jdbc(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        begins = {BEFORE: " ".join(f"{statement};" for statement in session)} if session else {}
        properties = jdbc_properties(self.settings, database) | begins
        return Jdbc(jdbc_url(self.settings), JDBC_DRIVER, query, properties)


def unicode_text(raw: bytes) -> str:
    """The text of an nvarchar. Half a surrogate pair becomes `?`, as where Java writes UTF-8 for Spark.

    The server stores any 16-bit units, and pyodbc's own decoder fails on some.
    """
    try:
        return raw.decode("utf-16-le")
    except UnicodeDecodeError:
        return raw.decode("utf-16-le", "surrogatepass").encode("utf-8", "replace").decode()


def _pyodbc() -> Any:
    """Import pyodbc on first use: it needs the system's ODBC libraries."""
    try:
        import pyodbc  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            f"the SQL Server source can't use ODBC: {error}",
            hint="install tidemark[sqlserver], and unixODBC (Debian: libodbc2)",
        ) from error
    pyodbc.pooling = False
    return pyodbc


def _seconds(ms: int) -> int:
    """Milliseconds as whole seconds, rounded up so that a small timeout does not become none."""
    return -(-ms // 1000)


def odbc_string(settings: SqlServerSettings, database: str) -> str:
    """The ODBC driver's connection string. It holds the password."""
    words = {
        "Driver": settings.odbc_driver,
        "Server": f"tcp:{_host(settings)}" + (f",{settings.port}" if settings.port else ""),
        "Database": database,
        **(
            {}
            if settings.access_token
            else {"UID": resolve_again(settings.user), "PWD": resolve_again(settings.password)}
        ),
        "Encrypt": _ODBC_ENCRYPTION[settings.encrypt],
        "TrustServerCertificate": "yes" if settings.trust_server_certificate else "no",
        "HostnameInCertificate": settings.certificate_host,
        "ServerCertificate": settings.server_certificate,
        "APP": settings.application,
        "PacketSize": str(settings.packet_size or ""),
        "MultiSubnetFailover": "Yes" if settings.multi_subnet_failover else "",
    }
    return ";".join(f"{name}={_braced(word)}" for name, word in words.items() if word or name == "PWD")


def odbc_token(settings: SqlServerSettings) -> dict[int, bytes]:
    """The access token as the ODBC driver takes it before connecting: prefixed with its length."""
    if not settings.access_token:
        return {}
    token = resolve_again(settings.access_token).encode("utf-16-le")
    return {_ACCESS_TOKEN: len(token).to_bytes(4, "little") + token}


def _login(settings: SqlServerSettings) -> dict[str, str]:
    if settings.access_token:
        return {"accessToken": resolve_again(settings.access_token)}
    return {"user": resolve_again(settings.user), "password": resolve_again(settings.password)}


def _host(settings: SqlServerSettings) -> str:
    """The host, with the instance's name only if the port is not known: the name is looked up at the host."""
    named = settings.instance and not settings.port
    return f"{settings.host}\\{settings.instance}" if named else settings.host


def _braced(word: str) -> str:
    return "{" + word.replace("}", "}}") + "}"


def jdbc_url(settings: SqlServerSettings) -> str:
    """The JDBC driver's URL, without secrets."""
    return f"jdbc:sqlserver://{_host(settings)}" + (f":{settings.port}" if settings.port else "")


def jdbc_properties(settings: SqlServerSettings, database: str) -> dict[str, str]:
    """The JDBC driver's properties, and Spark's for it. They hold the password."""
    words = {
        **_login(settings),
        "databaseName": database,
        "encrypt": _JDBC_ENCRYPTION[settings.encrypt],
        "trustServerCertificate": str(settings.trust_server_certificate).lower(),
        "hostNameInCertificate": settings.certificate_host,
        "serverCertificate": settings.server_certificate,
        "applicationName": settings.application,
        "loginTimeout": str(settings.login_timeout_s),
        "packetSize": str(settings.packet_size or ""),
        "multiSubnetFailover": "true" if settings.multi_subnet_failover else "",
        "responseBuffering": "adaptive",
        "queryTimeout": str(_seconds(settings.query_timeout_ms) or ""),  # Spark's option, for every statement
    }
    return {name: word for name, word in words.items() if word or name == "password"}


class Server:
    """The databases of one server, each with its own connections. Threads may share it.

    `login` identifies the server and the user.
    """

    def __init__(self, reach: Reach, login: tuple[str, ...] = ()) -> None:
        self.reach, self._login = reach, login
        self._engines: dict[str, Engine] = {}

    def engine(self, database: str) -> Engine:
        """The database's engine, created on first use."""
        if database not in self._engines:
            self._engines[database] = self.reach.engine(database)
        return self._engines[database]

    def open(self, database: str) -> Questions:
        """A new connection for questions, which the caller must close.

        Raises LoginRefused where the login has expired, ConfigError where it never worked.
        """
        return Questions(self.opened(database), database)

    def check(self, database: str) -> None:
        """Log in and have a question answered, or raise what keeps the server from it."""
        with closing(self.open(database)) as questions:
            questions.check()

    def opened(self, database: str) -> Connection:
        """A new connection, which the caller must close. Raises as `open` does."""
        with admission(self._login), source_errors("connecting", database):
            return self.engine(database).connect()

    def close(self) -> None:
        """Dispose of the engines. Further use creates others."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.dispose()

"""A login's password that changes again and again while the job streams and reads rows, on both roads.

The stand-in takes the place of the server: its logins are roles of PostgreSQL, whose refusal comes by
Microsoft's number on the road of the driver, and by JDBC on Spark's.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest
from psycopg import sql

from adapters.sqlserver.job import job_of
from adapters.sqlserver.server.connection import Jdbc, Server, login_of
from adapters.sqlserver.settings import SqlServerSettings
from engine.config.text.references import resolve_again
from engine.errors import ConfigError, LoginRefused
from tests.changing_password import Load, by_references
from tests.driven import Driven, driving
from tests.driven_sqlserver import SIGNALS, properties
from tests.servers.sqlserver.reach import StandInReach

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

ROWS, UNKNOWN_S = 2_000, 0.5


@dataclass(frozen=True, slots=True)
class LoggedIn(StandInReach):
    """By the user and the password of the settings, as they are now."""

    settings: SqlServerSettings

    def connected(self, database: str) -> psycopg.Connection[Any]:
        """A connection of the driver's road."""
        postgres = self.server.postgres
        return psycopg.connect(
            host=postgres.host,
            port=postgres.port,
            dbname=database,
            user=str(self.settings.user),
            password=resolve_again(self.settings.password),
            autocommit=True,
        )

    def jdbc(self, database: str, query: str, session: Sequence[str] = ()) -> Jdbc:
        """The query for Spark, with the login as it is now."""
        found = StandInReach.jdbc(self, database, query, session)
        login = {"user": str(self.settings.user), "password": resolve_again(self.settings.password)}
        return Jdbc(found.url, found.driver, found.query, {**found.properties, **login})


class Login:
    """A login whose password stands in a file of a directory, and changes."""

    def __init__(self, server: SqlServer, directory: Path) -> None:
        self.server, self.file, self.changes = server, directory / "password", 0
        with server.postgres.connect("postgres", autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS reader")
            connection.execute("CREATE ROLE reader LOGIN SUPERUSER")
        self.change()

    def change(self, unknown_s: float = 0.0) -> None:
        """Give it another password, and end every session, so that all must log in again."""
        self.changes += 1
        password = f"password-{self.changes}"
        with self.server.postgres.connect("postgres", autocommit=True) as connection:
            connection.execute(sql.SQL("ALTER ROLE reader PASSWORD {}").format(sql.Literal(password)))
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"
            )
        threading.Event().wait(unknown_s)
        self.file.write_text(password)


@pytest.fixture
def login(sqlserver: SqlServer, tmp_path: Path) -> Login:
    return Login(sqlserver, tmp_path)


def settings_of(server: SqlServer, directory: Path, **more: str) -> Any:
    login = {"database__user": "reader", "database__password": f"${{dir:{directory}:password}}"}
    return by_references(properties(server, directory, **login, **more))


@pytest.mark.usefixtures("shop")
def test_a_login_that_is_refused_has_expired_if_one_served(
    login: Login, sqlserver: SqlServer, tmp_path: Path
):
    settings = settings_of(sqlserver, tmp_path).source_as(SqlServerSettings)
    server = Server(LoggedIn(sqlserver, settings), (*login_of(settings), str(tmp_path)))
    served = login.file.read_text()

    login.file.write_text("password-x")
    with pytest.raises(ConfigError, match=r"error 18456.*check database\.user") as mistaken:
        server.check("shop")
    login.file.write_text(served)
    server.check("shop")
    login.file.write_text("password-x")
    with pytest.raises(LoginRefused, match="error 18456") as refused:
        server.check("shop")
    assert "password-" not in f"{mistaken.value}{refused.value}"


@pytest.mark.parametrize("road", ["near", pytest.param("far", marks=pytest.mark.thorough)])
def test_a_password_that_changes_under_load_is_asked_for_again(
    login: Login,
    shop: StandInDatabase,
    sqlserver: SqlServer,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    road: str,
):
    monkeypatch.setattr("engine.job.parts.Pace.pause_s", lambda *_args, **_named: 0.2)
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute(SIGNALS)
    shop.execute(f"INSERT INTO dbo.t VALUES {', '.join(f'({at}, NULL)' for at in range(ROWS))}")
    for table in ("dbo.t", "dbo.signals"):
        shop.enable_cdc(table)
    sqlserver.start_capture(0.02)
    local = "0" if road == "far" else "10000"
    more = {"signal__data__collection": "shop.dbo.signals", "tidemark__window__local__rows": local}
    settings = settings_of(sqlserver, tmp_path, **more, tidemark__window__max__chunks="1")
    told = orjson.dumps({"data-collections": ["shop.dbo.t"]}).decode()

    def write(row: int) -> None:
        shop.execute(f"INSERT INTO dbo.signals VALUES ('{row}', 'execute-snapshot', '{told}')")
        shop.execute(f"INSERT INTO dbo.t VALUES ({row}, N'y')")

    build = partial(job_of(partial(LoggedIn, sqlserver)).building, settings, spark)
    with driving(Driven, tmp_path, build) as driven:
        load = Load(
            ROWS,
            write,
            partial(login.change, UNKNOWN_S),
            lambda: {event["key"]["id"] for event in driven.events("t")},
        )
        load.drive(driven.job)

    load.check()
    assert not driven.answered("failed")
    assert "18456" in caplog.text  # while the file had the password from before
    assert "password-" not in caplog.text

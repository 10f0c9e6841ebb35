"""A role's password that changes again and again while the job streams and reads, on both roads."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from adapters.postgres.job import building
from adapters.postgres.server.connection import Server
from engine.config.text.references import resolve
from engine.errors import ConfigError
from tests.changing_password import Load, by_references
from tests.driven import SIGNAL_TABLE, Driven, driving, properties

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration

ROWS = 3_000
REFUSED = 4
"""So often windows are refused: more than chunks are given up before a table is."""
UNKNOWN_S = 0.3
"""For how long the server has a password already that the job can't know."""
SNAPSHOT = """INSERT INTO signals VALUES ('s', 'execute-snapshot', '{"data-collections": ["public.t"]}')"""


class Role:
    """A role whose password stands in a file of a directory, and changes."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database, self.file = database, directory / "password"
        self.changes = 0
        with database.connect() as connection:
            connection.execute("CREATE ROLE reader LOGIN REPLICATION")
        self.change()

    def change(self, unknown_s: float = 0.0) -> None:
        """Give it another password, and end every session, so that all must log in again."""
        self.changes += 1
        password = f"password-{self.changes}"
        with self.database.connect() as connection:
            connection.execute(sql.SQL("ALTER ROLE reader PASSWORD {}").format(sql.Literal(password)))
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'"
            )
        threading.Event().wait(unknown_s)
        partial = self.file.with_suffix(".partial")
        partial.write_text(password)
        partial.rename(self.file)


def driven_by_references(
    database: Database, directory: Path, spark: SparkSession, **more: str
) -> AbstractContextManager[Driven]:
    """A driven job whose settings hold references."""
    settings = by_references(properties(database, directory, **more))
    return driving(Driven, directory, partial(building, settings, spark))


def login_of_the_file(directory: Path) -> dict[str, str]:
    """Properties by which the job logs in with the password that the file has at the time."""
    return {
        "database__user": "reader",
        "database__password": f"${{dir:{directory}:password}}",
        "publication__autocreate__mode": "disabled",
    }


@pytest.fixture
def role(database: Database, tmp_path: Path) -> Iterator[Role]:
    with database.connect() as connection:
        for statement in (
            SIGNAL_TABLE,
            "CREATE TABLE t (id bigserial PRIMARY KEY, b text)",
            f"INSERT INTO t (b) SELECT 'x' FROM generate_series(1, {ROWS})",
            "ANALYZE t",
            "CREATE PUBLICATION dbz_publication FOR ALL TABLES",
        ):
            connection.execute(statement.encode())
        role = Role(database, tmp_path)
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    yield role
    database.execute("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_password_that_changes_under_load_is_asked_for_again_on_both_roads(
    role: Role, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog
):
    monkeypatch.setattr("engine.job.parts.Pace.pause_s", lambda *_args, **_named: 0.2)
    more = {
        **login_of_the_file(tmp_path),
        "tidemark__window__local__rows": "1000",  # the driver reads windows up to this size, Spark the others
        "tidemark__window__max__chunks": "2",
    }

    def write(_row: int) -> None:
        with role.database.connect() as connection:
            connection.execute(SNAPSHOT.encode())
            connection.execute("INSERT INTO t (b) VALUES ('y')")

    with driven_by_references(role.database, tmp_path, spark, **more) as driven:
        load = Load(
            ROWS,
            write,
            partial(role.change, UNKNOWN_S),
            lambda: {event["value"]["after"]["id"] - 1 for event in driven.events("t")},
        )
        load.drive(driven.job)

    load.check()
    assert "authentication failed" in caplog.text  # while the file had the password from before
    assert "password-" not in caplog.text


def test_a_window_that_logs_in_with_an_expired_password_is_read_again_and_leaves_no_row_out(
    role: Role, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog
):
    monkeypatch.setattr("engine.job.parts.Pace.pause_s", lambda *_args, **_named: 0.2)
    more = {
        **login_of_the_file(tmp_path),
        "tidemark__window__local__rows": "0",  # every window is Spark's
    }
    with driven_by_references(role.database, tmp_path, spark, **more) as job:
        with role.database.connect() as connection:
            connection.execute(SNAPSHOT.encode())
        job.until(lambda: job.job.window is not None)
        job.job._windows.in_progress.close()
        opening = job.job._windows._opening
        opening._pace = replace(opening._pace, window_retries=0)
        served = role.file.read_text()
        role.file.write_text("expired")  # sessions stay; those who log in are refused
        job.until(lambda: caplog.text.count("password authentication failed") > REFUSED)
        role.file.write_text(served)
        job.until_answered("finished")

    assert {event["value"]["after"]["id"] for event in job.events("t")} == set(range(1, ROWS + 1))
    assert "left out" not in caplog.text


def test_a_password_that_never_served_is_a_mistake(role: Role, tmp_path: Path):
    role.file.write_text("another")
    template = {"password": f"${{dir:{tmp_path}:password}}"}
    found, _unresolved = resolve(template, {})
    server = role.database.server
    parameters = {
        "host": server.host,
        "port": str(server.port),
        "dbname": role.database.name,
        "user": "reader",
        "password": found["password"],
    }

    with pytest.raises(ConfigError, match="password authentication failed"):
        Server(parameters).connect()

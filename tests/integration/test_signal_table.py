"""The signal table is checked before the log is read, and what is missing is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.postgres.drivers import make_server
from adapters.postgres.server.questions.signal_rows import SignalTables
from adapters.postgres.server.signal_table import check_signal_table
from adapters.postgres.settings import PostgresSettings
from engine.config import parse
from engine.errors import ConfigError
from engine.model import CollectionId
from signals.window_rows import WindowRow
from tests.driven import SIGNAL_TABLE, driven, properties

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration
PUBLISHED = "CREATE PUBLICATION dbz_publication FOR ALL TABLES"
TABLE = "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)"
KEYLESS = "CREATE TABLE signals (id text, type text, data text)"
ROWS = {"incremental.snapshot.watermarking.strategy": "insert_insert"}
DELETES = {"incremental.snapshot.watermarking.strategy": "insert_delete"}


def check(database: Database, directory: Path, *statements: str, **more: Any) -> None:
    """Run the statements, then the check."""
    with database.connect() as connection:
        for statement in statements:
            connection.execute(statement.encode())
    settings = parse(properties(database, directory) | more)
    check_signal_table(make_server(settings.source_as(PostgresSettings)), settings)


@pytest.mark.parametrize(
    ("statements", "more"),
    [
        ((TABLE, PUBLISHED), {}),
        ((KEYLESS, PUBLISHED), ROWS),
        ((TABLE, PUBLISHED), DELETES),
        ((KEYLESS, "ALTER TABLE signals REPLICA IDENTITY FULL", PUBLISHED), DELETES),
        ((TABLE, "CREATE PUBLICATION dbz_publication FOR TABLE signals"), {}),
        ((TABLE, "ALTER TABLE signals ADD note text", PUBLISHED), {}),
        (
            ('CREATE TABLE "Odd ""one" (a text, b text, c text)', PUBLISHED),
            {"signal.data.collection": '"public"."Odd ""one"'},
        ),
    ],
)
def test_a_table_that_serves_is_taken(database: Database, tmp_path: Path, statements, more):
    check(database, tmp_path, *statements, **more)


def test_a_window_marks_its_place_though_its_data_is_too_long_for_the_table(database: Database):
    with database.connect() as connection:
        connection.execute("CREATE TABLE signals (id text, type text, data varchar(50))")
        tables, signals = SignalTables(connection), CollectionId(("public", "signals"))
        tables.mark(signals, WindowRow("a", "snapshot-window-open", "x" * 50))
        tables.mark(signals, WindowRow("b", "snapshot-window-open", "x" * 51))
        found = connection.execute("SELECT id, data FROM signals ORDER BY id").fetchall()

    assert found == [("a", "x" * 50), ("b", None)]


@pytest.mark.parametrize(
    ("statements", "more", "said", "hint"),
    [
        pytest.param(
            (PUBLISHED,),
            {},
            "'public.signals' does not exist",
            'CREATE TABLE "public"."signals" (id',
            id="none",
        ),
        pytest.param(
            ("CREATE VIEW signals AS SELECT 1 AS id, 2 AS type, 3 AS data", PUBLISHED),
            {},
            "'public.signals' does not exist",
            "CREATE TABLE",
            id="a view",
        ),
        pytest.param(
            ("CREATE TABLE signals (id text, type text, x text)", "ALTER TABLE signals DROP x", PUBLISHED),
            {},
            "has 2 columns, it needs id, type and data",
            "CREATE TABLE",
            id="too few columns",
        ),
        pytest.param(
            (TABLE, "CREATE TABLE t (id int)", "CREATE PUBLICATION dbz_publication FOR TABLE t"),
            {},
            "is not in publication 'dbz_publication'",
            'run: ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."signals"',
            id="not published",
        ),
        pytest.param(
            (KEYLESS, PUBLISHED), DELETES, "no replica identity", "REPLICA IDENTITY FULL", id="no identity"
        ),
        pytest.param(
            (TABLE, "ALTER TABLE signals REPLICA IDENTITY NOTHING", PUBLISHED),
            DELETES,
            "no replica identity, which 'insert_delete' needs",
            "REPLICA IDENTITY FULL",
            id="identity nothing",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_to_run(database, tmp_path, statements, more, said, hint):
    with pytest.raises(ConfigError, match=said) as caught:
        check(database, tmp_path, *statements, **more)

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("granted", "more", "missing"),
    [
        ((), {}, ""),
        ((), ROWS, "INSERT"),
        (("INSERT",), ROWS, ""),
        (("INSERT",), DELETES, "DELETE"),
        ((), DELETES, "INSERT, DELETE"),
        (("INSERT", "DELETE"), DELETES, ""),
    ],
)
def test_rows_are_written_only_with_the_privileges(database, tmp_path, granted, more, missing):
    role = f"reader_{database.name}"
    with database.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'".encode())
    try:
        grants = [f"GRANT {', '.join(granted)} ON signals TO {role}"] if granted else []
        login = {"database.user": role, "database.password": "x"}
        if not missing:
            check(database, tmp_path, TABLE, PUBLISHED, *grants, **login, **more)
            return
        with pytest.raises(ConfigError, match=f"the role lacks {missing} on") as caught:
            check(database, tmp_path, TABLE, PUBLISHED, *grants, **login, **more)

        assert caught.value.hint == f'run: GRANT {missing} ON "public"."signals" TO "{role}"'
    finally:
        with database.connect() as connection:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def test_a_job_without_its_signal_table_does_not_start(database: Database, tmp_path: Path, spark):
    with pytest.raises(ConfigError, match="does not exist"), driven(database, tmp_path, spark):
        pass

    with database.connect() as connection:
        connection.execute(SIGNAL_TABLE.encode())
    with driven(database, tmp_path, spark):
        pass

"""A look at real servers: what they lack is found, and the statements mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from adapters.mongodb.commands import inspection as mongodb_inspection
from adapters.mongodb.log.position import checked
from adapters.postgres.commands.inspection import distance, inspect, mend
from adapters.postgres.server.position import position_at
from adapters.sqlserver.commands import inspection as sqlserver_inspection
from engine.config import parse
from engine.model import Position
from tests import driven_sqlserver
from tests.driven import properties
from tests.integration import test_mongodb_job

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.postgres import Database

pytestmark = pytest.mark.integration


def test_what_postgresql_lacks_is_mended_by_its_statements(database: Database, tmp_path: Path):
    with database.connect() as connection:
        connection.execute('CREATE TABLE "Odd one" (id int)')
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    settings = parse(properties(database, tmp_path))

    lacking = [finding for finding in inspect(settings) if finding.missing]
    assert [finding.text.split(":")[0] for finding in lacking] == [
        "the signal table public.signals does not exist",
        "publication 'dbz_publication' does not exist",
        "public.Odd one has no replica identity",
    ]
    for finding in lacking:
        mend(settings, finding.statement)

    assert [finding for finding in inspect(settings) if finding.missing] == []


def test_a_role_without_rights_is_told_what_to_grant(database: Database, tmp_path: Path):
    role = f"reader_{database.name}"
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE PUBLICATION dbz_publication",
        f"CREATE ROLE {role} LOGIN PASSWORD 'pa55word'",
    )
    said = properties(database, tmp_path, database__user=role, database__password="pa55word")
    del said["signal.data.collection"]

    try:
        statements = [finding.statement for finding in inspect(parse(said)) if finding.missing]
    finally:
        with database.connect() as connection:
            connection.execute(f"DROP ROLE {role}".encode())

    assert statements == [
        f'ALTER ROLE "{role}" REPLICATION',
        'ALTER PUBLICATION "dbz_publication" ADD TABLE "public"."orders"',
        f'GRANT SELECT ON "public"."orders" TO "{role}"',
    ]


def test_a_replica_set_lacks_nothing(mongodb, tmp_path: Path):
    found = mongodb_inspection.inspect(parse(test_mongodb_job.properties(mongodb, tmp_path)))

    assert len(found) == 3
    assert [finding for finding in found if finding.missing] == []


def test_a_table_that_cdc_does_not_capture_is_found(sqlserver, shop, tmp_path: Path):
    for table in ("t", "late"):
        shop.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY)")
    shop.enable_cdc("t")
    shop.execute("INSERT INTO dbo.t VALUES (1)")
    shop.capture()
    settings = parse(driven_sqlserver.properties(sqlserver, tmp_path))

    found = sqlserver_inspection.inspect(settings, lambda _settings: sqlserver.reach)

    assert [finding.text for finding in found if finding.missing] == [
        f"{shop.name}.dbo.late is not captured by CDC"
    ]


def test_the_server_tells_how_far_its_log_is_ahead(database: Database, tmp_path: Path):
    settings = parse(properties(database, tmp_path))
    without = distance(settings, position_at(1))
    with database.connect() as connection:
        slot = f"slot_{database.name}"
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        connection.execute("CREATE TABLE later (id int)")
        connection.execute("SELECT pg_current_xact_id()")
    assert row is not None
    found = distance(settings, position_at(int(row[0])))

    assert without.behind_bytes is not None
    assert found.behind_bytes is not None
    assert without.behind_bytes > found.behind_bytes > 0
    assert without.kept == f"slot '{slot}' does not exist"
    assert found.kept is not None
    assert found.kept.startswith(f"slot '{slot}' keeps ")
    assert distance(settings, None).behind_bytes is None


def test_mongodb_tells_it_in_seconds(mongodb, tmp_path: Path):
    settings = parse(test_mongodb_job.properties(mongodb, tmp_path))
    now_s = int(mongodb_inspection.distance(settings, None).end.split()[2].rstrip(","))

    found = mongodb_inspection.distance(
        settings, checked(Position((f"82{now_s - 100:08X}0000000100", "", 1)))
    )

    assert found.behind_s is not None
    assert 100 <= found.behind_s < 400


def test_sql_server_tells_where_its_change_tables_end(sqlserver, shop, tmp_path: Path):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    shop.enable_cdc("t")
    shop.execute("INSERT INTO dbo.t VALUES (1)")
    shop.capture()
    settings = parse(driven_sqlserver.properties(sqlserver, tmp_path))

    def asked(position: Position | None) -> Any:
        return sqlserver_inspection.distance(settings, position, lambda _settings: sqlserver.reach)

    end = asked(None).end

    assert end
    assert asked(None).behind_bytes is None
    assert asked(Position((end,))).behind_bytes == 0

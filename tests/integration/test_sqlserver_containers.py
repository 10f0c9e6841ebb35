"""SQL Server itself, from Microsoft's images with the Agent on; only where there is Docker.

What the stand-in is tested with is tested here again, on the real server and through the real drivers, with
what only they can show: the drivers' type mapping, encryption, plans and locks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mssql_python_odbc
import orjson
import pytest
from pyspark.sql import SparkSession
from sqlalchemy.exc import SQLAlchemyError

from adapters.sqlserver.properties import AGENT_STATUS
from adapters.sqlserver.server import metadata, table_statements
from adapters.sqlserver.server.catalog import Catalog
from adapters.sqlserver.server.connection import Server, reach
from adapters.sqlserver.server.execution import rows
from adapters.sqlserver.server.tsql import key_of
from adapters.sqlserver.settings import Encryption
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.errors import SourceError
from tests.conformance import test_log_reader, test_tables, test_window
from tests.conformance.sqlserver_subject import SqlServerSubject
from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.integration import test_sqlserver_codec as codec
from tests.integration import test_sqlserver_collations as collations
from tests.integration import test_sqlserver_first as first
from tests.integration import test_sqlserver_instances as instances
from tests.integration import test_sqlserver_job as job
from tests.integration import test_sqlserver_snapshots as snapshots
from tests.integration import test_sqlserver_transactions as transactions
from tests.servers.images import docker_answers
from tests.servers.sqlserver.asked import asked
from tests.servers.sqlserver.contained import LOGIN, MORE_RIGHTS, ContainedDatabase, ContainedSqlServer

if TYPE_CHECKING:
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(not docker_answers(), reason="there is no Docker here; the stand-in runs instead"),
]

VERSIONS = ("2019", "2022", "2025")
NEWEST = "mcr.microsoft.com/mssql/server:2025-latest"


def odbc_driver() -> str:
    """An installed driver that the environment names, or the library that comes with a package."""
    folder = Path(mssql_python_odbc.get_libs_dir()) / "linux" / "debian_ubuntu"
    return os.environ.get("ODBC_DRIVER") or str(next(folder.glob("*/lib/libmsodbcsql*")))


@pytest.fixture(scope="module", params=VERSIONS)
def contained(request: pytest.FixtureRequest) -> Iterator[ContainedSqlServer]:
    image = f"mcr.microsoft.com/mssql/server:{request.param}-latest"
    with ContainedSqlServer(image, odbc_driver()) as server:
        yield server


@pytest.fixture
def sqlserver(contained: ContainedSqlServer) -> Iterator[ContainedSqlServer]:
    contained.reset()
    yield contained
    contained.reset()


@pytest.fixture
def shop(sqlserver: ContainedSqlServer) -> ContainedDatabase:
    return sqlserver.create_database("shop")


@pytest.fixture
def subject(sqlserver: ContainedSqlServer, tmp_path: Path, spark: SparkSession) -> Iterator[SqlServerSubject]:
    """What the conformance suites ask of a source, here of the real server."""
    made = SqlServerSubject(cast("SqlServer", sqlserver), tmp_path, spark)
    yield made
    made.close()


def _again(module: Any) -> dict[str, Any]:
    """A module's tests and fixtures under names of their own; they find this module's servers."""
    prefix = module.__name__.rpartition("_")[2]
    return {
        name.replace("test_", f"test_{prefix}_", 1) if name.startswith("test_") else name: value
        for name, value in vars(module).items()
        if name.startswith("test_") or type(value).__name__ == "FixtureFunctionDefinition"
    }


_SUITES = (job, instances, first, snapshots, codec, collations, transactions)
_CONFORMANCE = (test_log_reader, test_tables, test_window)
for _module in (*_SUITES, *_CONFORMANCE):
    _found = _again(_module)
    if _found.keys() & globals().keys():
        raise RuntimeError(f"two tests or fixtures of one name: {_found.keys() & globals().keys()}")
    globals().update(_found)


def test_every_type_is_the_same_from_a_snapshot_through_spark_and_from_the_log(
    sqlserver: ContainedSqlServer, shop: ContainedDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(codec.DDL)
    shop.enable_cdc("dbo.t")
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    local = {"tidemark__window__local__rows": "0", "signal__data__collection": "shop.dbo.signals"}
    server, database = cast("SqlServer", sqlserver), cast("StandInDatabase", shop)  # by what they offer
    with driven_sqlserver(server, tmp_path, spark, **local) as driven:
        shop.execute(codec.FULL)
        shop.capture()
        driven.until_streamed(database)
        told = orjson.dumps({"data-collections": ["shop.dbo.t"]}).decode()
        shop.execute(f"INSERT INTO dbo.signals VALUES ('s1', 'execute-snapshot', '{told}')")
        driven.until(lambda: any(op == "r" for op, _row in driven.ops("t")))

        (created, read) = (row for op, row in driven.ops("t") if op in {"c", "r"})
        assert created == read
        assert {name: created[name] for name in codec.EXPECTED} == codec.EXPECTED


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("encrypt", list(Encryption)[:2])
def test_both_drivers_encrypt_alike_and_distrust_a_certificate_they_were_not_told_of(
    sqlserver: ContainedSqlServer, spark: SparkSession, encrypt: Encryption
):
    trusting = sqlserver.administrator(encrypt=encrypt)
    question = "SELECT [encrypt_option] FROM sys.dm_exec_connections WHERE [session_id] = @@SPID"
    jdbc = reach(trusting).jdbc("shop", question)
    options = {**jdbc.properties, "driver": jdbc.driver}
    found = spark.read.jdbc(jdbc.url, f"({jdbc.query}) AS q", properties=options).collect()

    ((metadata_side,),) = asked(Server(reach(trusting)), "shop", question)
    assert found[0][0] == metadata_side
    if encrypt is Encryption.MANDATORY:
        assert metadata_side == "TRUE"
        wary = sqlserver.administrator(encrypt=encrypt, trust_server_certificate=False)
        with pytest.raises(SourceError, match="certificate"):
            asked(Server(reach(wary)), "shop", question)
        jdbc = reach(wary).jdbc("shop", question)
        with pytest.raises(Exception, match="certificate"):
            spark.read.jdbc(
                jdbc.url, "(SELECT 1 AS a) AS q", properties={**jdbc.properties, "driver": jdbc.driver}
            ).collect()


def test_a_wrong_password_is_told_without_it(sqlserver: ContainedSqlServer):
    wrong = sqlserver.settings(password="Not-the-1")

    with pytest.raises(SourceError, match="Login failed") as caught:
        Server(reach(wrong)).check("master")
    assert "Not-the-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "first", "last"),
    [
        ("varchar(40)", "a", "zz"),
        ("nvarchar(40)", "a", "ж"),
        ("varchar(40) COLLATE Cyrillic_General_CI_AS", "a", "ж"),
    ],
)
def test_an_index_serves_the_comparison_of_texts(shop: ContainedDatabase, kind: str, first: str, last: str):
    shop.execute(f"CREATE TABLE dbo.t (k {kind} NOT NULL PRIMARY KEY, pad char(200) NOT NULL)")
    shop.execute(
        "INSERT INTO dbo.t SELECT CONCAT(N'k', ROW_NUMBER() OVER (ORDER BY a.[object_id])), ''"
        " FROM sys.all_objects AS a CROSS JOIN (VALUES (1), (2), (3)) AS b (n)"
    )
    with shop.server.connect("shop") as connection:
        catalog = Catalog(connection, "shop")
        listed = [table for table in catalog.listed() if table.id.parts[1:] == ("dbo", "t")]
        (table,) = catalog.describe(listed)
        condition = Keyset(table.columns[:1]).between((first,), (last,))
        connection.exec_driver_sql("SET SHOWPLAN_TEXT ON")
        result = connection.exec_driver_sql(f"SELECT [pad] FROM [dbo].[t] WHERE {condition}")
        plan, cursor = [], result.cursor
        while True:
            plan += [str(row[0]) for row in cursor.fetchall()]
            if not cursor.nextset():
                break
    assert any("Clustered Index Seek" in line and "SEEK:" in line for line in plan)
    assert not any("CONVERT_IMPLICIT" in line.partition("SEEK:")[2].partition("ORDERED")[0] for line in plan)


def test_a_greatest_key_of_half_a_surrogate_pair_leaves_no_row_out(shop: ContainedDatabase):
    shop.execute("CREATE TABLE dbo.t (k nvarchar(9) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY)")
    shop.execute("INSERT INTO dbo.t VALUES (N'a'), (N'ab'), (N'a' + NCHAR(55357))")
    with shop.server.connect("shop") as connection:
        catalog = Catalog(connection, "shop")
        listed = [table for table in catalog.listed() if table.id.parts[1:] == ("dbo", "t")]
        (table,) = catalog.describe(listed)
        keyset = Keyset(table.columns[:1])
        ((told,),) = rows(
            connection, table_statements.edge(ReadTable(table, keyset, keyset), keyset.reverse_order)
        )
        greatest = key_of(keyset.columns[0], told)
        assert greatest == "\x0061003dd8"
        found = rows(connection, f"SELECT COUNT(*) AS [n] FROM [dbo].[t] WHERE {keyset.up_to((greatest,))}")
    assert found == [(3,)]


def test_every_statement_of_the_catalog_is_understood_by_a_server(shop: ContainedDatabase):
    for statement in (
        *(metadata.SERVER, metadata.DATABASE, metadata.SNAPSHOTS, metadata.CAPTURES, metadata.TABLES),
        *(metadata.CAPTURED_COLUMNS, metadata.VIEWS, metadata.columns([1]), metadata.keys([1])),
    ):
        shop.query(statement)


def test_a_job_needs_no_more_rights_than_to_read_and_to_write_signals(
    sqlserver: ContainedSqlServer, shop: ContainedDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(f"REVOKE {MORE_RIGHTS}")
    shop.execute(f"REVOKE VIEW DEFINITION TO {LOGIN}")
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute("INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b')")
    shop.enable_cdc("dbo.t")
    server, database = cast("SqlServer", sqlserver), cast("StandInDatabase", shop)  # by what they offer
    named = {"signal__data__collection": "shop.dbo.signals"}
    with driven_sqlserver(server, tmp_path, spark, **named) as driven:
        told = orjson.dumps({"data-collections": ["shop.dbo.t"]}).decode()
        shop.execute(f"INSERT INTO dbo.signals VALUES ('s1', 'execute-snapshot', '{told}')")
        driven.until_answered("finished")
        shop.execute("UPDATE dbo.t SET v = N'c' WHERE id = 1")
        shop.capture()
        driven.until_streamed(database)

        assert [op for op, _row in driven.ops("t")] == ["r", "r", "u"]


@pytest.mark.parametrize("kind", ["nvarchar(20)", "varchar(20) COLLATE Cyrillic_General_CI_AS", "nchar(9)"])
def test_a_key_that_holds_nul_is_found(shop: ContainedDatabase, kind: str):
    shop.execute(f"CREATE TABLE dbo.t (k {kind} NOT NULL PRIMARY KEY)")
    shop.execute("INSERT INTO dbo.t VALUES (CONCAT(N'a', NCHAR(0), N'ж')), (N'a')")
    (row,) = shop.query("SELECT [k] FROM dbo.t WHERE LEN([k]) > 1")
    with shop.server.connect("shop") as connection:
        catalog = Catalog(connection, "shop")
        listed = [table for table in catalog.listed() if table.id.parts[1:] == ("dbo", "t")]
        (table,) = catalog.describe(listed)

    condition = Keyset(table.columns).among([row])

    assert "\0" in row[0]
    assert shop.query(f"SELECT [k] FROM dbo.t WHERE {condition}") == [row]


def test_the_status_query_says_whether_the_agent_runs(shop: ContainedDatabase):
    with ContainedSqlServer(NEWEST, odbc_driver(), agent=False) as server:
        database = server.create_database("plain", cdc=False)
        without = database.query(metadata.agent_status(AGENT_STATUS, "plain"))

    assert shop.query(metadata.agent_status(AGENT_STATUS, "shop")) == [(1,)]
    assert not any(runs for (runs,) in without)  # a server may list no Agent at all


def test_spark_s_sessions_read_under_the_level_that_is_set_for_them(
    sqlserver: ContainedSqlServer, shop: ContainedDatabase, spark: SparkSession
):
    question = (
        "SELECT CONVERT(int, [transaction_isolation_level]) AS [level], CONVERT(int, @@LOCK_TIMEOUT) AS [ms]"
        " FROM sys.dm_exec_sessions WHERE [session_id] = @@SPID"
    )
    found = []
    for session in ((), ("SET LOCK_TIMEOUT 5", "SET TRANSACTION ISOLATION LEVEL SNAPSHOT")):
        jdbc = reach(sqlserver.administrator()).jdbc(shop.name, question, session)
        frame = spark.read.jdbc(
            jdbc.url, f"({jdbc.query}) AS q", properties={**jdbc.properties, "driver": jdbc.driver}
        )
        found += [tuple(row) for row in frame.collect()]

    assert found == [(2, -1), (5, 5)]  # read committed; snapshot


def test_under_snapshot_isolation_rows_are_read_though_a_writer_holds_them(
    sqlserver: ContainedSqlServer, shop: ContainedDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)")
    shop.execute("INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b')")
    shop.enable_cdc("dbo.t")
    more = {"snapshot__mode": "initial", "snapshot__isolation__mode": "snapshot"}
    with shop.transaction() as writer:
        writer.execute("UPDATE dbo.t SET v = N'never committed'")
        with driven_sqlserver(cast("SqlServer", sqlserver), tmp_path, spark, **more) as driven:
            driven.until(lambda: len(driven.ops("t")) == 2)

            assert driven.ops("t") == [("r", {"id": 1, "v": "a"}), ("r", {"id": 2, "v": "b"})]


def test_a_table_whose_rows_a_writer_holds_keeps_neither_the_log_nor_other_tables(
    sqlserver: ContainedSqlServer, shop: ContainedDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(SIGNALS)
    shop.enable_cdc("dbo.signals")
    for table in ("held", "free"):
        shop.execute(f"CREATE TABLE dbo.{table} (id int PRIMARY KEY, v nvarchar(50) NULL)")
        shop.execute(f"INSERT INTO dbo.{table} VALUES (1, N'a'), (2, N'b')")
        shop.enable_cdc(f"dbo.{table}")
    told = orjson.dumps({"data-collections": ["shop.dbo.held", "shop.dbo.free"]}).decode()
    more = {"signal__data__collection": "shop.dbo.signals", "snapshot__lock__timeout__ms": "500"}
    with driven_sqlserver(cast("SqlServer", sqlserver), tmp_path, spark, **more) as driven:
        with shop.transaction() as writer:
            writer.execute("SELECT TOP (1) 1 AS [one] FROM dbo.held WITH (TABLOCKX, HOLDLOCK)")
            shop.execute(f"INSERT INTO dbo.signals VALUES ('s1', 'execute-snapshot', '{told}')")
            driven.until(lambda: [op for op, _row in driven.ops("free")] == ["r", "r"])
            assert not driven.ops("held")
        driven.until(lambda: [op for op, _row in driven.ops("held")] == ["r", "r"])


def test_cdc_of_a_table_needs_cdc_of_its_database(sqlserver: ContainedSqlServer):
    plain = sqlserver.create_database("plain", cdc=False)
    plain.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")

    with pytest.raises(SQLAlchemyError):
        plain.enable_cdc("dbo.t")

"""The stand-in for SQL Server compares, sorts, locks and refuses as a server does."""

from __future__ import annotations

import threading

import pytest
import sqlglot

from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.execution import rows, run
from engine.errors import SchemaChanged, SourceError
from tests.servers.sqlserver import SqlServer
from tests.servers.sqlserver.asked import asked, connected

pytestmark = pytest.mark.integration


def test_texts_compare_without_case_where_their_collation_does(shop):
    shop.execute(
        "CREATE TABLE dbo.t (ci nvarchar(10) NOT NULL PRIMARY KEY,"
        " cs varchar(10) COLLATE Latin1_General_CS_AS NULL, bin varchar(10) COLLATE Latin1_General_BIN2 NULL)"
    )
    shop.execute(
        "INSERT INTO dbo.t VALUES (N'b', 'b', 'b'), (N'A', 'A', 'A'), (N'C', 'C', 'C'), (N'a2', 'a2', 'a2')"
    )

    def ordered(column: str) -> list[str]:
        return [value for (value,) in shop.query(f"SELECT [{column}] FROM dbo.t ORDER BY [{column}]")]

    assert ordered("ci") == ["A", "a2", "b", "C"]
    assert ordered("bin") == ["A", "C", "a2", "b"]
    literal = "CONVERT(nvarchar(10), N'B' COLLATE SQL_Latin1_General_CP1_CI_AS)"
    assert shop.query(f"SELECT [ci] FROM dbo.t WHERE [ci] = {literal}") == [("b",)]
    assert shop.query(f"SELECT [ci] FROM dbo.t WHERE [ci] > {literal}") == [("C",)]
    literal = "CONVERT(varchar(10), N'B' COLLATE Latin1_General_BIN2)"
    assert shop.query(f"SELECT [ci] FROM dbo.t WHERE [bin] = {literal}") == []


GUIDS = (
    "FFFFFFFF-FFFF-FFFF-FFFF-000000000001",
    "00000000-0000-0000-0000-000000000002",
    "00000000-0000-0000-0100-000000000002",
    "00000000-0000-0100-0100-000000000002",
    "00000000-0000-0001-0100-000000000002",
    "01000000-0000-0001-0100-000000000002",
    "00000001-0000-0001-0100-000000000002",
)
"""In SQL Server's order: the last group first, then the fourth, and the first three from their ends."""


def test_guids_sort_by_their_last_group_first(shop):
    shop.execute("CREATE TABLE dbo.g (g uniqueidentifier NOT NULL PRIMARY KEY)")
    shop.execute("INSERT INTO dbo.g VALUES " + ", ".join(f"('{guid}')" for guid in reversed(GUIDS)))

    found = shop.query("SELECT CONVERT(varchar(36), [g]) FROM dbo.g ORDER BY [g]")

    assert [guid for (guid,) in found] == list(GUIDS)
    above = f"SELECT COUNT(*) FROM dbo.g WHERE [g] > CONVERT(uniqueidentifier, '{GUIDS[2]}')"
    assert shop.query(above) == [(4,)]


def test_temporal_values_have_seven_digits_and_datetime_its_own_ticks(shop):
    shop.execute(
        "CREATE TABLE dbo.d (a datetime2(7) NULL, b datetime NULL, c time(3) NULL, d datetimeoffset(0) NULL,"
        " e smalldatetime NULL, f date NULL)"
    )
    stamp = "2024-02-29 23:59:59.1234567"
    shop.execute(
        f"INSERT INTO dbo.d VALUES ('{stamp}', '2024-02-29 23:59:59.998', '{stamp[11:]}', '{stamp} -03:30',"
        " '2024-02-29 23:59:31', '0001-01-01')"
    )

    found = shop.query(
        "SELECT CONVERT(varchar(27), [a], 121), CONVERT(varchar(27), [b], 121),"
        " CONVERT(varchar(16), [c], 121), CONVERT(varchar(34), [d], 121),"
        " CONVERT(varchar(27), [e], 121), CONVERT(varchar(10), [f], 23) FROM dbo.d"
    )

    assert found == [
        (
            stamp,
            "2024-02-29 23:59:59.997",
            "23:59:59.123",
            "2024-02-29 23:59:59 -03:30",
            "2024-03-01 00:00:00.000",
            "0001-01-01",
        )
    ]


def test_errors_come_with_the_servers_numbers(captured_table):
    server = Server(captured_table.server.reach)

    with pytest.raises(SourceError, match="error 208") as caught:
        asked(server, "shop", "SELECT [id] FROM [dbo].[nothing]")
    assert not isinstance(caught.value, SchemaChanged)
    with pytest.raises(SourceError, match="message holds values") as caught:
        asked(server, "shop", "INSERT INTO dbo.t (id) VALUES (17), (17)")
    assert "17" not in str(caught.value)


def test_a_lock_on_a_table_holds_writers_back(captured_table):
    server, done = Server(captured_table.server.reach), threading.Event()

    def write() -> None:
        captured_table.execute("INSERT INTO dbo.t (id) VALUES (1)")
        done.set()

    with connected(server, "shop") as connection:
        connection.exec_driver_sql("BEGIN TRANSACTION")
        rows(connection, "SELECT TOP (0) [id] FROM [dbo].[t] WITH (TABLOCKX)")
        writer = threading.Thread(target=write)
        writer.start()
        assert not done.wait(0.3)
        connection.exec_driver_sql("COMMIT TRANSACTION")
    assert done.wait(10)
    writer.join()


def test_databases_are_each_their_own(sqlserver: SqlServer):
    one, two = sqlserver.create_database("one"), sqlserver.create_database("Two", cdc=False)
    server = Server(sqlserver.reach)

    assert asked(server, "one", "SELECT DB_NAME()") == [("one",)]
    assert asked(server, "Two", "SELECT DB_NAME(), CONVERT(int, [is_cdc_enabled]) FROM sys.databases") == [
        ("Two", 0)
    ]
    one.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    with pytest.raises(SourceError):
        asked(server, "Two", "SELECT [id] FROM dbo.t")
    assert two.max_lsn() == ""


def test_a_session_knows_whether_it_has_a_transaction(captured_table):
    question = "SELECT @@TRANCOUNT AS [open]"
    with connected(Server(captured_table.server.reach), "shop") as connection:
        assert rows(connection, question) == [(0,)]
        run(connection, "BEGIN TRANSACTION")
        assert rows(connection, question) == [(1,)]
        run(connection, "ROLLBACK TRANSACTION")
        assert rows(connection, question) == [(0,)]


def test_only_single_statements_of_t_sql_get_through(captured_table):
    server = Server(captured_table.server.reach)

    with pytest.raises(ValueError, match="not one statement"):
        asked(server, "shop", "SELECT 1 AS [a]; SELECT 2 AS [b]")
    with pytest.raises(sqlglot.ParseError):
        asked(server, "shop", "SELECT TOP (1) [id] FROM dbo.t WHERE (")
    assert asked(server, "shop", "SELECT 1 AS [a]") == [(1,)]
    assert "SELECT 1 AS [a]" in captured_table.server.statements


def test_an_nvarchar_has_the_bytes_of_utf_16(captured_table):
    captured_table.execute("INSERT INTO dbo.t (id, name) VALUES (1, N'aé😀'), (2, N''), (3, NULL)")

    found = captured_table.query(
        "SELECT CONVERT(varchar(max), CONVERT(varbinary(max), [name]), 2) FROM dbo.t ORDER BY [id]"
    )

    assert found == [("6100E9003DD800DE",), ("",), (None,)]


def test_bytes_are_taken_as_parameters(captured_table):
    question = "SELECT N'100 %?' AS [a], 1 AS [b] FROM dbo.t WHERE 0x02 > ? AND 0x01 < ? AND [id] = 7"
    captured_table.execute("INSERT INTO dbo.t (id) VALUES (7)")
    with connected(Server(captured_table.server.reach), "shop") as connection:
        assert rows(connection, question, (b"\1", b"\2")) == [("100 %?", 1)]
        assert rows(connection, question, (b"\2", b"\1")) == []


def test_a_column_that_may_be_null_from_now_on_sorts_its_nulls_first(captured_table):
    server = Server(captured_table.server.reach)
    captured_table.execute("CREATE TABLE dbo.n (a int NOT NULL, b int NOT NULL)")
    question = "SELECT [a], [b] FROM dbo.n ORDER BY [b]"
    assert asked(server, "shop", question) == []
    captured_table.execute(
        "ALTER TABLE dbo.n ALTER COLUMN b int NULL; INSERT INTO dbo.n VALUES (1, 1), (2, NULL)"
    )

    assert asked(server, "shop", question) == [(2, None), (1, 1)]


def test_keys_are_found_by_their_index_though_change_tables_have_them_nullable(captured_table):
    shown = captured_table.translator("SELECT TOP (1) [id] FROM dbo.t WHERE [id] > 5 ORDER BY [id]").sql
    with captured_table.postgres.connect(captured_table.name) as connection:
        connection.execute("SET enable_seqscan = off")
        plan = "\n".join(line for (line,) in connection.execute("EXPLAIN " + shown).fetchall())

    assert "Index" in plan
    assert "Sort" not in plan

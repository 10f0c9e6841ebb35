"""What the catalog of a SQL Server database says of tables and capture instances."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from adapters.sqlserver.commands.inspection import inspect
from adapters.sqlserver.properties import AGENT_STATUS
from adapters.sqlserver.server import metadata
from adapters.sqlserver.server.catalog import ListedTable, OtherCodePage, SwitchableTable, uncaptured
from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.forks import Fork, not_seen
from adapters.sqlserver.server.table import Capture, Column, Table
from adapters.sqlserver.snapshot.watermark import LogEnd
from engine.config import parse
from engine.errors import SourceError
from engine.model import CollectionId
from tests.servers.sqlserver import StandInDatabase

pytestmark = pytest.mark.integration


def captured(
    shop: StandInDatabase, selected: Callable[[CollectionId], bool] = lambda _table: True
) -> list[tuple[Capture, Table]]:
    with closing(Server(shop.server.reach).open("shop")) as questions:
        captures = questions.catalog.captures(selected)
        return list(zip(captures, questions.catalog.tables(captures), strict=True))


def described(shop: StandInDatabase) -> dict[str, Table]:
    with closing(Server(shop.server.reach).open("shop")) as questions:
        tables = [table for table in questions.catalog.listed() if not table.view]
        return {table.id.parts[-1]: table for table in questions.catalog.describe(tables)}


def listed(shop: StandInDatabase) -> list[ListedTable]:
    with closing(Server(shop.server.reach).open("shop")) as questions:
        return list(questions.catalog.listed())


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("nvarchar(50) NOT NULL", ("nvarchar", 50, 0, 0)),
        ("nvarchar(max) NOT NULL", ("nvarchar", -1, 0, 0)),
        ("varchar(20) NOT NULL", ("varchar", 20, 0, 0)),
        ("nchar(3) NOT NULL", ("nchar", 3, 0, 0)),
        ("varbinary(max) NOT NULL", ("varbinary", -1, 0, 0)),
        ("decimal(18, 4) NOT NULL", ("decimal", 9, 18, 4)),
        ("numeric(5) NOT NULL", ("numeric", 5, 5, 0)),
        ("datetime2 NOT NULL", ("datetime2", 8, 27, 7)),
        ("time(0) NOT NULL", ("time", 3, 8, 0)),
        ("datetimeoffset(3) NOT NULL", ("datetimeoffset", 9, 30, 3)),
        ("rowversion", ("timestamp", 8, 0, 0)),
        ("float(24) NOT NULL", ("real", 4, 24, 0)),
        ("sysname NOT NULL", ("nvarchar", 128, 0, 0)),
    ],
)
def test_a_column_has_its_base_type_with_lengths_in_its_own_unit(shop, declared, expected):
    shop.execute(f"CREATE TABLE dbo.t (id int PRIMARY KEY, c {declared})")

    column = described(shop)["t"].columns[1]

    assert (column.type, column.length, column.precision, column.scale) == expected
    assert not column.nullable


def test_identity_computed_columns_defaults_and_collations_are_told(shop):
    shop.execute(
        "CREATE TABLE dbo.t (id int IDENTITY(1, 1) PRIMARY KEY, n int NULL DEFAULT 5, c AS (id + 1),"
        " s varchar(9) COLLATE Latin1_General_CS_AS NULL DEFAULT ('x''y'),"
        " at datetime NULL DEFAULT getdate())"
    )

    columns = described(shop)["t"].columns

    assert [column.identity for column in columns] == [True, False, False, False, False]
    assert [column.computed for column in columns] == [False, False, True, False, False]
    assert [column.default for column in columns] == [None, "((5))", None, "('x''y')", "(getdate())"]
    assert columns[3].collation == "Latin1_General_CS_AS"
    assert columns[1] == Column("n", 2, "int", 4, 10, 0, default="((5))")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("PRIMARY KEY (b, a)",), ("b", "a")),
        (("UNIQUE (a)",), ("a",)),
        (("UNIQUE (n)",), ()),
        (("UNIQUE (n)", "UNIQUE (b)"), ("b",)),
        (("UNIQUE (a)", "PRIMARY KEY (b)"), ("b",)),
        ((), ()),
    ],
)
def test_the_key_is_the_primary_one_else_a_unique_one_without_nulls(shop, keys, expected):
    shop.execute(f"CREATE TABLE dbo.t ({', '.join(('a int NOT NULL, b int NOT NULL, n int NULL', *keys))})")

    assert described(shop)["t"].key == expected


def test_a_filtered_index_is_no_key(shop):
    shop.execute("CREATE TABLE dbo.t (a int NOT NULL); CREATE UNIQUE INDEX i ON dbo.t (a) WHERE a > 1")

    assert described(shop)["t"].key == ()


def test_capture_instances_come_by_table_the_older_first(shop):
    shop.execute(
        "CREATE TABLE dbo.b (id int PRIMARY KEY, x int NULL); CREATE TABLE dbo.a (id int PRIMARY KEY)"
    )
    shop.enable_cdc("dbo.b", "later_name_first", columns=["id"])
    shop.enable_cdc("dbo.b", "dbo_b")
    shop.enable_cdc("dbo.a")

    found = captured(shop)

    assert [capture.name for capture, _table in found] == ["dbo_a", "later_name_first", "dbo_b"]
    assert [capture.captured for capture, _table in found] == [("id",), ("id",), ("id", "x")]
    assert found[1][0].start < found[2][0].start
    assert {capture.table for capture, _table in found[1:]} == {CollectionId(("shop", "dbo", "b"))}
    assert [[column.name for column in table.columns] for _one, table in found] == [
        ["id"],
        ["id"],
        ["id", "x"],
    ]


def test_only_selected_tables_have_instances(shop):
    shop.execute("CREATE TABLE dbo.a (id int PRIMARY KEY); CREATE TABLE dbo.b (id int PRIMARY KEY)")
    shop.enable_cdc("dbo.a")
    shop.enable_cdc("dbo.b")

    found = captured(shop, lambda table: table.parts[2] == "b")

    assert [capture.name for capture, _table in found] == ["dbo_b"]


def test_an_instance_keeps_the_columns_that_its_table_lost(shop):
    shop.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, gone nvarchar(7) NOT NULL, n int NOT NULL DEFAULT 1)"
    )
    shop.enable_cdc("dbo.t")
    shop.execute("ALTER TABLE dbo.t DROP COLUMN gone; ALTER TABLE dbo.t ADD more int NULL")

    ((_capture, table),) = captured(shop)

    assert [column.name for column in table.columns] == ["id", "gone", "n"]
    assert (table.columns[1].type, table.columns[1].length, table.columns[1].nullable) == (
        "nvarchar",
        7,
        True,
    )
    assert table.columns[2].default == "((1))"
    assert not table.columns[2].nullable


def test_a_key_that_is_not_captured_whole_is_none(shop):
    shop.execute("CREATE TABLE dbo.t (a int NOT NULL, b int NOT NULL UNIQUE, PRIMARY KEY (a, b))")
    shop.enable_cdc("dbo.t", columns=["b"])

    ((_capture, table),) = captured(shop)

    assert table.primary_key == ()
    assert table.key == ("b",)


def test_tables_without_cdc_and_views_are_listed(shop):
    shop.execute("CREATE TABLE dbo.a (id int PRIMARY KEY); CREATE TABLE dbo.b (id int PRIMARY KEY)")
    shop.execute("CREATE VIEW dbo.v AS SELECT id FROM dbo.a")
    shop.execute("CREATE VIEW dbo.iv WITH SCHEMABINDING AS SELECT id FROM dbo.a")
    shop.execute("CREATE UNIQUE INDEX i ON dbo.iv (id)")
    shop.enable_cdc("dbo.a")

    found = {table.id.parts[2]: table for table in listed(shop)}

    assert {name: (table.tracked, table.view, table.indexed) for name, table in found.items()} == {
        "a": (True, False, False),
        "b": (False, False, False),
        "v": (False, True, False),
        "iv": (False, True, True),
    }
    captures = [capture for capture, _table in captured(shop)]
    assert uncaptured(found.values(), captures) == (CollectionId(("shop", "dbo", "b")),)


def test_a_dropped_instance_is_gone(shop):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    shop.enable_cdc("dbo.t")
    shop.disable_cdc("dbo_t")

    assert captured(shop) == []
    assert [table.tracked for table in listed(shop)] == [False]


def test_a_database_says_what_it_is(shop):
    with closing(Server(shop.server.reach).open("shop")) as questions:
        found = questions.catalog.description()

        assert found is not None
        assert (found.cdc, found.writable, found.name) == (True, True, "shop")
        assert found.identity
        assert questions.catalog.allows_snapshots()
        shop.set("updateability", "READ_ONLY")
        now = questions.catalog.description()
        assert now is not None
        assert not now.writable


def test_the_agents_status_is_asked_for_in_the_configured_words(shop):
    assert "[shop].sys.dm_server_services" in metadata.agent_status(AGENT_STATUS, "shop")
    with closing(Server(shop.server.reach).open("shop")) as questions:
        assert questions.changes.agent_runs(AGENT_STATUS) is True
        shop.server.agent_running = False
        assert questions.changes.agent_runs(AGENT_STATUS) is False
    assert metadata.agent_status("SELECT #db.f();", "a]b") == "SELECT [a]]b].f()"


def test_a_key_with_a_computed_column_is_none_since_the_log_has_no_values_of_it(shop):
    shop.execute(
        "CREATE TABLE dbo.t (id int NOT NULL, c AS (id + 1) PERSISTED, u int NOT NULL,"
        " PRIMARY KEY (id, c), UNIQUE (u))"
    )
    shop.enable_cdc("dbo.t")

    ((_capture, table),) = captured(shop)

    assert (table.primary_key, table.unique_key) == ((), ("u",))
    assert described(shop)["t"].key == ("u",)


def test_a_hypothetical_index_is_no_key(shop):
    shop.execute("CREATE TABLE dbo.t (id int NOT NULL)")
    shop.execute("CREATE UNIQUE INDEX i ON dbo.t (id)")
    assert described(shop)["t"].key == ("id",)
    with shop.postgres.connect(shop.name) as connection:
        connection.execute("UPDATE sys.indexes SET is_hypothetical = 1")

    assert described(shop)["t"].key == ()


def test_a_table_whose_partitions_may_be_switched_is_named(shop):
    for name in ("whole", "parted"):
        shop.execute(f"CREATE TABLE dbo.{name} (id int PRIMARY KEY)")
        shop.enable_cdc(f"dbo.{name}")
    with shop.postgres.connect(shop.name) as connection:
        connection.execute("UPDATE cdc.change_tables SET partition_switch = 1")
        connection.execute(
            "INSERT INTO mssql.settings SELECT 'partitions ' || object_id, '3' FROM sys.tables"
            " WHERE name = 'parted'"
        )

    with closing(Server(shop.server.reach).open("shop")) as questions:
        assert questions.catalog.switching() == [
            SwitchableTable(CollectionId(("shop", "dbo", "parted")), "dbo_parted")
        ]


def test_a_captured_column_of_another_code_page_is_named(shop):
    shop.execute(
        "CREATE TABLE dbo.t (id int PRIMARY KEY, same varchar(9) COLLATE Latin1_General_CS_AS NULL,"
        " other varchar(9) COLLATE Cyrillic_General_CI_AS NULL,"
        " wide nvarchar(9) COLLATE Cyrillic_General_CI_AS NULL)"
    )
    shop.enable_cdc("dbo.t")

    with closing(Server(shop.server.reach).open("shop")) as questions:
        found = questions.catalog.other_code_pages()
    table = CollectionId(("shop", "dbo", "t"))
    assert found == [OtherCodePage(table, "other", "Cyrillic_General_CI_AS")]


def test_a_server_without_the_end_of_its_log_is_told_apart_from_a_login_without_rights(shop):
    with shop.postgres.connect(shop.name) as connection:
        connection.execute("DROP FUNCTION sys.dm_db_log_stats")

    with (
        closing(Server(shop.server.reach).open("shop")) as questions,
        pytest.raises(SourceError, match="2016 SP2"),
    ):
        LogEnd(questions).open(questions)


def test_a_column_does_not_take_the_number_of_one_that_was_dropped(shop):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, gone int NULL)")
    shop.enable_cdc("dbo.t")
    shop.execute("ALTER TABLE dbo.t DROP COLUMN gone")
    shop.execute("ALTER TABLE dbo.t ADD made nvarchar(20) NOT NULL DEFAULT N'seven'")

    numbers = "SELECT c.[column_id] FROM sys.columns AS c WHERE c.[name] = N'made'"
    assert shop.query(numbers) == [(3,)]
    ((_capture, table),) = captured(shop)
    assert [(column.name, column.type, column.nullable) for column in table.columns] == [
        *(("id", "int", False), ("gone", "int", True))
    ]


def test_a_key_column_that_was_dropped_and_added_again_is_no_key_in_the_log(shop):
    shop.execute("CREATE TABLE dbo.t (id int NOT NULL, v int NULL)")
    shop.enable_cdc("dbo.t")
    shop.execute("ALTER TABLE dbo.t DROP COLUMN id")
    shop.execute("ALTER TABLE dbo.t ADD id int NOT NULL")
    shop.execute("CREATE UNIQUE INDEX i ON dbo.t (id)")

    ((_capture, table),) = captured(shop)

    assert table.lost == {"id"}
    assert table.key == ()


def test_a_database_that_was_forced_over_tells_which_fork_it_left_and_where(shop):
    shop.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    shop.enable_cdc("dbo.t")
    shop.capture()
    copied, first = shop.back_up(), fork_of(shop)
    shop.execute("INSERT INTO dbo.t VALUES (1)")
    shop.capture()
    lost = shop.max_lsn()
    shop.plan_failover()
    planned = fork_of(shop)
    shop.take_over(copied)
    shop.execute("INSERT INTO dbo.t VALUES (2)")
    shop.capture()

    assert first is not None
    assert first.left == first.point == ""
    assert planned == first
    found = fork_of(shop)
    assert found is not None
    assert found.id != found.left == first.id
    assert found.point <= lost
    assert found.point <= shop.max_lsn()
    assert shop.query("SELECT [id] FROM [cdc].[dbo_t_CT]") == [(2,)]


@pytest.mark.parametrize("hidden", ["UPDATE", "DROP"])
def test_where_the_server_does_not_show_the_fork_it_is_unknown_and_the_check_says_so(shop, hidden):
    with shop.postgres.connect(shop.name) as connection:
        if hidden == "DROP":
            connection.execute("DROP VIEW sys.database_recovery_status")
    if hidden == "UPDATE":
        shop.set("forks", "hidden")
    settings = parse({**shop.server.properties(), "tidemark.sink": "console", "tidemark.checkpoint": "/x"})

    assert fork_of(shop) is None
    said = [finding.text for finding in inspect(settings, lambda _settings: shop.server.reach)]
    assert [line for line in said if "grant VIEW ANY DATABASE to the login" in line] == [not_seen("shop")]


def fork_of(shop: StandInDatabase) -> Fork | None:
    with closing(Server(shop.server.reach).open("shop")) as questions:
        return questions.catalog.fork()

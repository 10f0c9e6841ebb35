"""What is asked of databases while a job runs on them, and what is written into them."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from pyspark.sql import SparkSession

from adapters.sqlserver.checks import check_identity
from adapters.sqlserver.commands import inspection
from adapters.sqlserver.server import table_statements
from adapters.sqlserver.server.connection import Server
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.snapshot.eligibility import ReadTable
from adapters.sqlserver.snapshot.keyset import Keyset
from engine.config import parse
from engine.errors import ConfigError, StateError
from engine.model import CollectionId
from engine.snapshot.initial import StartSituation
from tests.driven_sqlserver import driven_sqlserver, properties
from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

TABLE = "CREATE TABLE dbo.t (id int PRIMARY KEY, v nvarchar(50) NULL)"
MORE = (
    "CREATE TABLE dbo.signals (no varchar(42) PRIMARY KEY, [what for] varchar(32) NOT NULL,"
    " told nvarchar(2000), at datetime2 DEFAULT SYSDATETIME(), who nvarchar(30) NULL)"
)


def identity(shop: StandInDatabase) -> dict[str, str]:
    with closing(Server(shop.server.reach).open("shop")) as questions:
        found = questions.catalog.description()
    assert found is not None
    return {"shop": found.identity}


def test_a_database_stays_the_same_when_it_joins_a_group_and_when_that_fails_over(shop: StandInDatabase):
    alone = identity(shop)
    shop.set("group", "6F9619FF-8B86-D011-B42D-00C04FC964FF")
    joined = identity(shop)
    shop.set("created", "2001-02-03 04:05:06.007")
    elsewhere = identity(shop)

    assert joined["shop"].startswith("6F9619FF-8B86-D011-B42D-00C04FC964FF|")
    check_identity(alone, joined)
    check_identity(joined, elsewhere)
    with pytest.raises(StateError, match="another database 'shop'"):
        check_identity(alone, elsewhere)


def test_a_status_query_that_is_refused_is_told_once_and_stops_nothing(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    shop.execute(TABLE)
    shop.enable_cdc("dbo.t")
    refused = {"database__sqlserver__agent__status__query": "SELECT [status] FROM [#db].[sys].[denied]"}
    with (
        caplog.at_level(logging.WARNING, "adapters"),
        driven_sqlserver(sqlserver, tmp_path, spark, **refused) as driven,
    ):
        driven.until(lambda: "can't be asked" in caplog.text, 20)
        asked = len([message for message in caplog.messages if "maximum LSN" in message])
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.capture()
        driven.until_streamed(shop)

        assert driven.ops("t") == [("c", {"id": 1, "v": "a"})]
        assert asked == 1
    assert "failed" not in caplog.text


def test_what_cdc_does_not_keep_is_warned_of_by_name_in_captured_tables_alone(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
):
    for name in ("t", "left_out"):
        shop.execute(
            f"CREATE TABLE dbo.{name} (id int PRIMARY KEY,"
            " other varchar(9) COLLATE Cyrillic_General_CI_AS NULL, wide nvarchar(9) NULL)"
        )
        shop.enable_cdc(f"dbo.{name}")
    with shop.postgres.connect(shop.name) as connection:
        connection.execute("UPDATE cdc.change_tables SET partition_switch = 1")
        connection.execute(
            "INSERT INTO mssql.settings SELECT 'partitions ' || object_id, '3' FROM sys.tables"
        )
    with (
        caplog.at_level(logging.WARNING, "adapters"),
        driven_sqlserver(sqlserver, tmp_path, spark, table__include__list=r"dbo\.t"),
    ):
        pass

    assert [message for message in caplog.messages if "CDC" in message] == [
        (
            "shop.dbo.t is partitioned, and CDC does not capture rows of a partition that is switched in"
            " or out; to forbid it make capture instance dbo_t with @allow_partition_switch = 0"
        ),
        (
            "column other of shop.dbo.t has the collation Cyrillic_General_CI_AS, of another code page than"
            " the database's: CDC may not keep its characters; nvarchar keeps all"
        ),
    ]


def test_the_users_statement_may_be_one_that_gives_no_rows(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(f"{TABLE}; CREATE TABLE dbo.beats (id int IDENTITY(1, 1) PRIMARY KEY, n int NOT NULL)")
    shop.enable_cdc("dbo.t")
    action = {
        "heartbeat__interval__ms": "1",
        "heartbeat__action__query": "INSERT INTO dbo.beats (n) VALUES (7)",
    }
    with driven_sqlserver(sqlserver, tmp_path, spark, **action) as driven:
        driven.job.turn()
        driven.until(lambda: shop.query("SELECT n FROM dbo.beats"), 20)

    assert set(shop.query("SELECT n FROM dbo.beats")) == {(7,)}


def test_a_secondary_is_refused_at_the_start(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(TABLE)
    shop.enable_cdc("dbo.t")
    shop.set("updateability", "READ_ONLY")

    with (
        pytest.raises(ConfigError, match=r"'shop' is a readable secondary.*connect to the primary"),
        driven_sqlserver(sqlserver, tmp_path, spark),
    ):
        pass


def test_a_database_is_spelled_as_on_the_server(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(TABLE)
    shop.enable_cdc("dbo.t")
    other = {"database__names": "Shop"}

    with (
        pytest.raises(ConfigError, match="spells database 'Shop' as 'shop'"),
        driven_sqlserver(sqlserver, tmp_path, spark, **other),
    ):
        pass
    with driven_sqlserver(sqlserver, tmp_path, spark) as driven:
        shop.execute("INSERT INTO dbo.t VALUES (1, N'a')")
        shop.capture()
        driven.until_streamed(shop)
    with (
        pytest.raises(StateError, match=r"write shop in database\.names"),
        driven_sqlserver(sqlserver, tmp_path, spark, **other),
    ):
        pass
    settings = parse(properties(sqlserver, tmp_path, **other))
    found = inspection.inspect(settings, lambda _settings: sqlserver.reach)
    assert any("'Shop' as 'shop'" in finding.text for finding in found)


@pytest.mark.parametrize("strategy", ["insert_insert", "insert_delete"])
def test_a_signal_table_may_have_more_columns_and_other_names(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession, strategy: str
):
    shop.execute(f"{TABLE}; {MORE}; INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b')")
    shop.enable_cdc("dbo.t")
    shop.enable_cdc("dbo.signals")
    sqlserver.start_capture(0.02)
    settings = {
        "signal__data__collection": "shop.dbo.signals",
        "incremental__snapshot__watermarking__strategy": strategy,
    }
    with driven_sqlserver(sqlserver, tmp_path, spark, **settings) as driven:
        told = orjson.dumps({"data-collections": ["shop.dbo.t"]}).decode()
        shop.execute(
            "INSERT INTO dbo.signals (no, [what for], told, who)"
            f" VALUES ('s', 'execute-snapshot', '{told}', N'me')"
        )
        driven.until_answered("finished")

        assert [op for op, _row in driven.ops("t")] == ["r", "r"]
    left = {kind for (kind,) in shop.query("SELECT [what for] FROM dbo.signals")}
    windows = {"snapshot-window-open", "snapshot-window-close"}
    assert left == ({"execute-snapshot"} | (windows if strategy == "insert_insert" else set()))
    marks = shop.query("SELECT told FROM dbo.signals WHERE [what for] LIKE 'snapshot-window-%'")
    for fields in (orjson.loads(data) for (data,) in marks):
        assert (fields["correlationId"], fields["dataCollectionId"]) == ("s", "shop.dbo.t")


def test_an_initial_snapshot_reads_a_select_that_ends_with_an_order(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(f"{TABLE}; INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b'), (3, N'c')")
    shop.enable_cdc("dbo.t")
    shop.capture()
    named = "snapshot__select__statement__overrides"
    settings = {
        "snapshot__mode": "initial",
        named: "dbo.t",
        f"{named}__dbo__t": "SELECT * FROM [dbo].[t] WHERE id <> 2 ORDER BY id DESC;",
    }
    with driven_sqlserver(sqlserver, tmp_path, spark, **settings) as driven:
        driven.until(lambda: len(driven.ops("t")) == 2)

        assert sorted(row["id"] for _op, row in driven.ops("t")) == [1, 3]
        read = [statement for statement in sqlserver.statements if "WHERE id <> 2" in statement]
        assert read
        assert not any("ORDER BY id DESC" in event for event in read)


class Recent:
    """A user's snapshotter: the newest rows of table t."""

    def should_snapshot(self, standing: StartSituation) -> bool:
        return not standing.saved

    def should_stream(self) -> bool:
        return True

    def statement(self, collection: CollectionId) -> str | None:
        return (
            "SELECT * FROM [dbo].[t] WHERE id > 1 ORDER BY id;" if str(collection) == "shop.dbo.t" else None
        )


class Tangled(Recent):
    """One whose SELECT can't be read from."""

    def statement(self, collection: CollectionId) -> str | None:  # noqa: ARG002  the Protocol's
        return "WITH c AS (SELECT * FROM [dbo].[t]) SELECT * FROM c"


@pytest.mark.parametrize(
    ("overrides", "t", "u"),
    [
        ({}, [2, 3], [4]),
        ({"": "dbo.t", "__dbo__t": "SELECT * FROM [dbo].[t] WHERE id < 3"}, [1, 2], [4]),
    ],
    ids=["snapshotter", "setting-first"],
)
def test_an_initial_snapshot_reads_the_select_of_the_user_s_snapshotter(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    overrides: dict[str, str],
    t: list[int],
    u: list[int],
):
    shop.execute(f"{TABLE}; INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b'), (3, N'c')")
    shop.execute("CREATE TABLE dbo.u (id int PRIMARY KEY); INSERT INTO dbo.u VALUES (4)")
    shop.enable_cdc("dbo.t")
    shop.enable_cdc("dbo.u")
    shop.capture()
    settings = {"snapshot__mode": "custom", "snapshot__custom__class": f"{__name__}:Recent"}
    settings |= {f"snapshot__select__statement__overrides{name}": value for name, value in overrides.items()}
    with driven_sqlserver(sqlserver, tmp_path, spark, **settings) as driven:
        driven.until(lambda: driven.job.state.position and not driven.job.state.snapshot.tables)

        assert sorted(row["id"] for _op, row in driven.ops("t")) == t
        assert sorted(row["id"] for _op, row in driven.ops("u")) == u


def test_a_snapshotter_s_select_that_can_not_be_read_from_ends_the_start(
    sqlserver: SqlServer, shop: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    shop.execute(TABLE)
    shop.enable_cdc("dbo.t")
    shop.capture()
    settings = {"snapshot__mode": "custom", "snapshot__custom__class": f"{__name__}:Tangled"}
    said = r"the SELECT of snapshotter '.*:Tangled' for shop\.dbo\.t can't be read from: WITH"
    with (
        pytest.raises(ConfigError, match=said),
        driven_sqlserver(sqlserver, tmp_path, spark, **settings) as driven,
    ):
        driven.job.turn()


def test_rows_and_bytes_of_a_table_are_counted_by_views_that_any_login_may_read(shop: StandInDatabase):
    shop.execute(f"{TABLE}; INSERT INTO dbo.t VALUES (1, N'a'), (2, N'b'); CREATE TABLE dbo.u (id int)")
    ((t,), (u,)) = shop.query(
        "SELECT [object_id] FROM sys.tables WHERE [name] IN (N't', N'u') ORDER BY [name]"
    )
    keyset = Keyset((Column("id", 1, "int"),))
    asked = [
        table_statements.size(
            ReadTable(
                Table(CollectionId(("shop", "dbo", "t")), keyset.columns), keyset, keyset, object_id=number
            )
        )
        for number in (t, u, 1)
    ]

    assert [shop.query(question) for question in asked] == [[(2, 8192)], [(0, 0)], [(0, 0)]]

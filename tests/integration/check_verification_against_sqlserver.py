"""Verifying tables that somebody else keeps in a SQL Server, on its stand-in."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from adapters.sqlserver.foreign import rows as foreign_rows
from tests.against import KINDS, SETTLE_MS, counts, kept, last_answer
from tests.driven_sqlserver import SIGNALS, driven_sqlserver, writing

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from signals.answers import Answer
    from tests.driven_sqlserver import DrivenSqlServer
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROWS = 600
TABLE = (
    "CREATE TABLE dbo.orders (id int NOT NULL PRIMARY KEY, v nvarchar(20) NULL, price decimal(10, 2) NULL,"
    " at datetime2(3) NULL, old datetime NULL, zoned datetimeoffset NULL, day date NULL, clock time(3) NULL,"
    " f8 float NULL, done bit NULL, data varbinary(20) NULL, u uniqueidentifier NULL, fixed char(6) NULL,"
    " large nvarchar(max) NULL, cash money NULL, secret nvarchar(10) NULL, doubled AS (id * 2))"
)
MARKERS = "CREATE TABLE dbo.markers (id varchar(80) NOT NULL PRIMARY KEY)"
THERE = (
    "CREATE SCHEMA copy",
    (
        "CREATE TABLE copy.t_orders (loaded datetime2 NULL, large nvarchar(max) NULL,"
        " id bigint NOT NULL PRIMARY KEY, v varchar(40) NULL, price decimal(20, 6) NULL, at datetime2 NULL,"
        " old datetime2 NULL, zoned datetimeoffset NULL, day varchar(30) NULL, clock time NULL,"
        " f8 float NULL, done int NULL, data varbinary(max) NULL, u varchar(36) NULL, "
        " fixed nvarchar(20) NULL, cash decimal(20, 8) NULL)"
    ),
    "CREATE TABLE copy.t_markers (id nvarchar(80) NOT NULL PRIMARY KEY)",
)
COLUMNS = {
    "id": "id",
    "v": "v::text",
    "price": "price",
    "at": "mssql.text_of(at)",
    "old": "mssql.text_of(old)",
    "zoned": "mssql.text_of(zoned)",
    "day": "day::text",
    "clock": "mssql.text_of(clock)",
    "f8": "f8",
    "done": "done",
    "data": "data",
    "u": "mssql.text_of(u)",
    "fixed": "fixed::text",
    "large": "large::text",
    "cash": "cash",
}
"""The columns that somebody copies, as the stand-in's own database reads them."""
BROUGHT = """DELETE FROM copy.t_orders AS t WHERE {}
    AND NOT EXISTS (SELECT FROM new AS n WHERE n.id = t.id AND n IS NOT DISTINCT FROM t)"""
GIVEN = {
    "signal__data__collection": "shop.dbo.signals",
    "incremental__snapshot__chunk__size": "50",
    "tidemark__window__max__chunks": "4",
    "column__exclude__list": "dbo.orders.secret",
    "database__names": "shop",
    "tidemark__verify__settle__ms": str(SETTLE_MS),
    "tidemark__verify__against__there__connection__url": "jdbc:sqlserver://standin;databaseName=dwh",
    "tidemark__verify__against__there__connection__username": "reader",
    "tidemark__verify__against__there__connection__password": "",
    "tidemark__verify__against__there__collection__name__format": "copy.t_${source.table}",
}
MARKED = {
    "tidemark__verify__against__there__marker__collection": "shop.dbo.markers",
    "tidemark__verify__settle__ms": "3600000",
}
FAULTS = "id >= 0"
"""The rows that somebody keeps right; the others are left with their faults."""


@pytest.fixture
def orders(shop: StandInDatabase) -> StandInDatabase:
    for table, statement in (("signals", SIGNALS), ("orders", TABLE), ("markers", MARKERS)):
        shop.execute(statement)
        shop.enable_cdc(f"dbo.{table}")
    rows = (
        f"({key}, N'nöte {key % 7}', {key / 7:.2f}, '2024-02-29 12:00:00.{abs(key):03}',"
        f" '2024-02-29 12:00:00.{abs(key):03}', '2024-02-29 12:00:00.{abs(key):07} +02:00',"
        f" '2024-01-{abs(key) % 28 + 1:02}', '12:00:00.{abs(key):03}', {key / 3}, {key % 2},"
        f" 0x{abs(key):06x}, '00112233-4455-6677-8899-{abs(key):012}', 'f{key % 9}', {large(key)},"
        f" {key / 8:.4f}, N'secret')"
        for key in range(-ROWS // 2, ROWS // 2)
    )
    names = ", ".join([*COLUMNS, "secret"])
    shop.execute(f"INSERT INTO dbo.orders ({names}) VALUES {', '.join(rows)}")
    shop.execute("INSERT INTO dbo.orders (id) VALUES (9000), (-9000)")
    return shop


def large(key: int) -> str:
    return f"N'{'x' * 2000}{key}'" if key % 50 == 0 else "NULL"


@pytest.fixture
def there(sqlserver: SqlServer) -> StandInDatabase:
    made = sqlserver.create_database("dwh", cdc=False)
    for statement in THERE:
        made.execute(statement)
    return made


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pages, each of which is fetched in parts."""
    monkeypatch.setattr(foreign_rows, "_PAGE_BYTES", 60_000)
    monkeypatch.setattr(foreign_rows, "_FETCHED_BYTES", 15_000)


def copied(orders: StandInDatabase, there: StandInDatabase, where: str = "true", *, lag_s: float = 0) -> None:
    """Bring the table up to the source's present rows, and first note which markers there are by then.

    What is read comes to the table `lag_s` later, and the markers behind it.
    """
    with orders.postgres.connect(orders.name) as source:
        markers = source.execute("SELECT id::text FROM dbo.markers").fetchall()
        found = source.execute(
            f"SELECT {', '.join(COLUMNS.values())} FROM dbo.orders WHERE {where}".encode()
        ).fetchall()
    time.sleep(lag_s)
    marks = ", ".join("%s::text" if "text" in shown else "%s" for shown in COLUMNS.values())
    with there.postgres.connect(there.name) as keeper, keeper.transaction(), keeper.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE new (LIKE copy.t_orders) ON COMMIT DROP")
        cursor.executemany(f"INSERT INTO new ({', '.join(COLUMNS)}) VALUES ({marks})".encode(), found)
        cursor.execute(BROUGHT.format(where).encode())
        cursor.execute(
            "INSERT INTO copy.t_orders SELECT * FROM new WHERE id NOT IN (SELECT id FROM copy.t_orders)"
        )
        cursor.executemany(
            "INSERT INTO copy.t_markers SELECT %s::text WHERE %s NOT IN (SELECT id FROM copy.t_markers)",
            [(marker, marker) for (marker,) in markers],
        )


def asked(job: DrivenSqlServer, orders: StandInDatabase, id_: str, **more: str) -> Answer:
    """The last answer to a verification against the table, which is asked for now."""
    asks = {"data-collections": ["shop.dbo.orders"], "type": "verify", "against": "there", **more}
    orders.execute(f"INSERT INTO dbo.signals VALUES ('{id_}', 'execute-snapshot', '{json.dumps(asks)}')")
    return last_answer(job, id_)


@pytest.mark.parametrize("snapshots", ["1", "0"])
def test_faults_in_a_table_of_others_are_found(
    sqlserver: SqlServer,
    orders: StandInDatabase,
    there: StandInDatabase,
    tmp_path: Path,
    spark: SparkSession,
    snapshots: str,
):
    """Also where the target's database does not allow snapshot isolation."""
    there.set("snapshots", snapshots)
    copied(orders, there)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN) as job:
        accepted = asked(job, orders, "right")
        there.execute("DELETE FROM copy.t_orders WHERE id IN (-1, -2, -3)")
        there.execute("UPDATE copy.t_orders SET price = price + 0.001 WHERE id IN (11, 12)")
        there.execute("UPDATE copy.t_orders SET large = NULL WHERE id = 50")
        there.execute("UPDATE copy.t_orders SET fixed = N'f1 and more' WHERE id = 21")
        there.execute("UPDATE copy.t_orders SET done = 2 WHERE id = 23")
        there.execute("UPDATE copy.t_orders SET day = '2024-01-26 12:00' WHERE id = 25")
        there.execute("UPDATE copy.t_orders SET day = 'yesterday' WHERE id = 26")
        there.execute("INSERT INTO copy.t_orders (id) VALUES (9999), (5000000000), (-9999)")
        rejected = asked(job, orders, "wrong")
    sqlserver.stop_capture()

    assert accepted.outcome == "finished", accepted.text
    assert "accepted as settled" in accepted.text
    assert counts(accepted) == dict.fromkeys(KINDS, 0) | {"equal": ROWS + 2}
    assert (accepted.facts["basis"], accepted.facts["against"]) == ("settled", "there")
    assert rejected.outcome == "failed", rejected.text
    different = {11, 12, 50, 21, 23, 25, 26}
    found = {"missing": 3, "different": len(different), "extra": 3}
    assert counts(rejected) == {"equal": ROWS + 2 - 3 - len(different), **found}, rejected.text
    extra = {json.loads(key)["id"] for key in rejected.facts["first"]["extra"]}
    assert extra == {9999, -9999, "5000000000"}


def test_what_lags_is_no_difference(
    sqlserver: SqlServer, orders: StandInDatabase, there: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    """Somebody brings rows to the table late, while they are written."""
    copied(orders, there)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN) as job:
        there.execute("UPDATE copy.t_orders SET done = 1 - done WHERE id = -5")
        there.execute("INSERT INTO copy.t_orders (id) VALUES (-9999)")
        right = partial(copied, orders, there, FAULTS)
        with kept(right), writing(orders, "dbo.orders", keys=ROWS // 2, pause_s=0.05):
            rejected = asked(job, orders, "wrong")
        copied(orders, there)
        accepted = asked(job, orders, "right")
    sqlserver.stop_capture()

    assert [rejected.facts[kind] for kind in KINDS[1:]] == [0, 1, 1], rejected.text
    assert accepted.outcome == "finished", accepted.text


def test_a_table_that_shows_markers_needs_no_time_to_settle(
    sqlserver: SqlServer, orders: StandInDatabase, there: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    """Somebody brings rows to the table seconds late, while they are written, and markers behind them."""
    copied(orders, there)
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN | MARKED) as job:
        there.execute("UPDATE copy.t_orders SET done = 1 - done WHERE id = -5")
        there.execute("DELETE FROM copy.t_orders WHERE id = -6")
        there.execute("INSERT INTO copy.t_orders (id) VALUES (-9999)")
        right = partial(copied, orders, there, FAULTS, lag_s=2.0)
        with kept(right), writing(orders, "dbo.orders", keys=ROWS // 2, pause_s=0.05):
            rejected = asked(job, orders, "wrong")
        with kept(partial(copied, orders, there)):
            accepted = asked(job, orders, "right")
    sqlserver.stop_capture()

    assert [rejected.facts[kind] for kind in KINDS[1:]] == [1, 1, 1], rejected.text
    assert rejected.facts["basis"] == "marker"
    assert " is rejected at " in rejected.text
    assert accepted.outcome == "finished", accepted.text
    assert " is accepted at " in accepted.text


def test_what_can_not_be_compared_is_said(
    sqlserver: SqlServer, orders: StandInDatabase, there: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    more = {"tidemark__verify__against__lake__connection__url": "jdbc:postgresql://h/d"}
    sqlserver.start_capture(0.02)
    with driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN, **more) as job:
        other = asked(job, orders, "other", against="lake")
        there.execute("ALTER TABLE copy.t_orders DROP COLUMN f8")
        lacking = asked(job, orders, "lacking")
        there.execute("ALTER TABLE copy.t_orders ADD f8 date NULL")
        strange = asked(job, orders, "strange")
        there.execute("DROP TABLE copy.t_orders")
        missing = asked(job, orders, "missing")
    sqlserver.stop_capture()

    assert (other.outcome, "with tables of SQL Server only" in other.text) == ("rejected", True), other.text
    assert (lacking.outcome, "lacks the columns f8" in lacking.text) == ("failed", True), lacking.text
    said = "the target's column 'f8' is a date, which can't be compared with the source's float"
    assert (strange.outcome, said in strange.text) == ("failed", True), strange.text
    assert (missing.outcome, "has no such table" in missing.text) == ("failed", True), missing.text


def test_markers_need_snapshots(
    sqlserver: SqlServer, orders: StandInDatabase, there: StandInDatabase, tmp_path: Path, spark: SparkSession
):
    there.set("snapshots", "0")
    copied(orders, there)
    sqlserver.start_capture(0.02)
    with (
        driven_sqlserver(sqlserver, tmp_path, spark, **GIVEN | MARKED) as job,
        kept(partial(copied, orders, there)),
    ):
        answer = asked(job, orders, "refused")
    sqlserver.stop_capture()

    assert answer.outcome == "failed", answer.text
    assert "only if its database allows snapshot isolation" in answer.text

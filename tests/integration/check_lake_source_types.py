"""SINKS.md's types of tables in a lake for SQL Server and MongoDB, read back by Spark SQL. `make lake`.

Each value is read twice: once by a snapshot, and once from the log.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from adapters.lakehouse.settings import LakeFormat
from tests.driven_sqlserver import SIGNALS, driven_sqlserver
from tests.driven_sqlserver import properties as sqlserver_properties
from tests.integration.check_lake_job import Tables, drained, lake_settings
from tests.integration.test_mongodb_job import driven as driven_mongodb
from tests.integration.test_mongodb_job import properties as mongodb_properties
from tests.integration.test_mongodb_job import stands

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.mongodb import MongoServer
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration


class Kind(NamedTuple):
    """A type of SQL Server, Spark's for it, and a value: as T-SQL says it, and as Spark shows it."""

    source: str
    spark: str
    value: str
    shown: str
    iceberg: str = ""


GUID = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
KINDS = (
    Kind("bit", "boolean", "1", "true"),
    Kind("tinyint", "smallint", "255", "255", "int"),
    Kind("smallint", "smallint", "-32768", "-32768", "int"),
    Kind("int", "int", "-2147483648", "-2147483648"),
    Kind("bigint", "bigint", "9223372036854775807", "9223372036854775807"),
    Kind("real", "float", "1.5", "1.5"),
    Kind("float", "double", "0.1", "0.1"),
    Kind("decimal(12, 3)", "decimal(12,3)", "-123456789.125", "-123456789.125"),
    Kind("numeric(38, 0)", "decimal(38,0)", f"{10**37}", f"{10**37}"),
    Kind("money", "decimal(19,4)", "-922337203685477.5808", "-922337203685477.5808"),
    Kind("smallmoney", "decimal(10,4)", "-214748.3648", "-214748.3648"),
    Kind("char(5)", "string", "'ab'", "ab   "),
    Kind("varchar(max)", "string", "'it''s'", "it's"),
    Kind("nvarchar(20)", "string", "N'ž😀'", "ž😀"),
    Kind("uniqueidentifier", "string", f"'{GUID}'", GUID),
    Kind("xml", "string", "N'<a>b</a>'", "<a>b</a>"),
    Kind("binary(4)", "binary", "0x01020304", "01020304"),
    Kind("varbinary(max)", "binary", "0x00FF", "00FF"),
    Kind("date", "date", "'0001-01-01'", "0001-01-01"),
    Kind("time(3)", "int", "'23:59:59.999'", "86399999"),
    Kind("time(6)", "bigint", "'12:34:56.123456'", "45296123456"),
    Kind("time(7)", "bigint", "'12:34:56.1234567'", "45296123456700"),
    Kind("datetime", "timestamp_ntz", "'2018-07-13 13:23:45.780'", "2018-07-13 13:23:45.78"),
    Kind("smalldatetime", "timestamp_ntz", "'2018-07-13 14:24:00'", "2018-07-13 14:24:00"),
    Kind("datetime2(3)", "timestamp_ntz", "'0001-01-01 00:00:00.001'", "0001-01-01 00:00:00.001"),
    Kind("datetime2(6)", "timestamp_ntz", "'9999-12-31 23:59:59.999999'", "9999-12-31 23:59:59.999999"),
    Kind("datetime2(7)", "bigint", "'2018-06-20 15:13:16.9451047'", "1529507596945104700"),
    Kind(
        "datetimeoffset(7)", "string", "'2018-07-13 12:23:45.4560000 +11:00'", "2018-07-13T12:23:45.456+11:00"
    ),
)


@pytest.mark.parametrize("format_", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_each_type_of_sql_server_is_the_one_that_the_page_names_and_keeps_its_values(
    sqlserver: SqlServer,
    shop: StandInDatabase,
    tmp_path: Path,
    lake_spark: SparkSession,
    format_: LakeFormat,
):
    settings = lake_settings(format_, tmp_path, signal__data__collection="shop.dbo.signals")
    tables = Tables(lake_spark, sqlserver_properties(sqlserver, tmp_path, **settings))
    defined = ", ".join(f"c{number} {kind.source}" for number, kind in enumerate(KINDS))
    shop.execute(SIGNALS)
    shop.execute(f"CREATE TABLE dbo.kinds (id int NOT NULL PRIMARY KEY, {defined})")
    for name in ("dbo.signals", "dbo.kinds"):
        shop.enable_cdc(name)
    values = ", ".join(kind.value for kind in KINDS)
    nulls = ", ".join(["NULL"] * len(KINDS))
    shop.execute(f"INSERT INTO dbo.kinds VALUES (1, {values}), (2, {nulls})")
    sqlserver.start_capture(0.03)
    with driven_sqlserver(sqlserver, tmp_path, lake_spark, **settings) as job:
        job.until(lambda: job.job.state.position and not job.job.state.snapshot.tables)
        sqlserver.stop_capture()
        shop.execute(f"INSERT INTO dbo.kinds VALUES (3, {values}), (4, {nulls})")
        shop.capture()
        job.until_streamed(shop)
        drained(job, tmp_path)

    frame = tables.read("tm_shop_dbo_kinds")
    types = {name: kind for name, kind in frame.dtypes if name != "id"}
    texts = frame.selectExpr("id", *(_text(name, kind) for name, kind in types.items()))
    shown = {row["id"]: row.asDict() for row in texts.collect()}
    for number, kind in enumerate(KINDS):
        name = f"c{number}"
        wanted = kind.iceberg if kind.iceberg and format_ is LakeFormat.ICEBERG else kind.spark
        assert types[name] == wanted, kind.source
        found = [shown[id_][name] for id_ in (1, 2, 3, 4)]
        assert found == [kind.shown, None, kind.shown, None], kind.source
    assert len(shown) == 4
    for name in types:
        if name.endswith("__text"):
            assert {row[name] for row in shown.values()} == {None}


DOCUMENT: dict[str, Any] = {
    "double": 0.1,
    "string": 'é\t"\\',
    "object": {"a": {"b": [1, None]}},
    "array": [1, "a", {"b": 2}],
    "binary": Binary(b"\0\xff", 0),
    "id": ObjectId("65f1a2b3c4d5e6f708192a3b"),
    "bool": True,
    "date": dt.datetime(2024, 2, 29, 12, 34, 56, 789000),  # noqa: DTZ001
    "null": None,
    "regex": Regex("a.b", "i"),
    "int32": 7,
    "timestamp": Timestamp(1_700_000_000, 3),
    "int64": Int64(2**60),
    "decimal": Decimal128("1.10"),
    "least": MinKey(),
    "most": MaxKey(),
}


@pytest.mark.parametrize("format_", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_documents_of_mongodb_are_their_text(
    mongodb: MongoServer, tmp_path: Path, lake_spark: SparkSession, format_: LakeFormat
):
    settings = lake_settings(format_, tmp_path)
    tables = Tables(lake_spark, mongodb_properties(mongodb, tmp_path, **settings))
    with mongodb.connect() as client:
        items = client["inventory"]["items"]
        items.insert_one({"_id": 1, **DOCUMENT})
        items.insert_one({"_id": "two"})
        with driven_mongodb(mongodb, tmp_path, lake_spark, **settings) as job:
            job.until(lambda: job.job.state.position and not job.job.state.snapshot.tables)
            items.insert_one({"_id": ObjectId("65f1a2b3c4d5e6f708192a3c"), **DOCUMENT})
            items.update_one({"_id": "two"}, {"$set": {"v": Int64(2)}})
            items.insert_one({"_id": 9})
            items.delete_one({"_id": 9})
            client["inventory"]["marks"].insert_one({"_id": "end"})
            job.until(lambda: tables.has_rows("tm_inventory_marks"))
            drained(job, tmp_path)
        wanted = stands(client, "items")

    frame = tables.read("tm_inventory_items")
    found = {row["id"]: row["document"] for row in frame.collect()}
    assert dict(frame.dtypes) == {"id": "string", "document": "string"}
    assert len(wanted) == 3
    assert sorted(found.values()) == sorted(wanted.values())


def _text(name: str, kind: str) -> str:
    return f"hex({name}) AS {name}" if kind == "binary" else f"CAST({name} AS STRING) AS {name}"

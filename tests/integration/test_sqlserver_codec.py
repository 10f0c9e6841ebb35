"""A row read by a query and the same row from the log are the same bytes, for every type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.events.decode import Rules, Watch, decode
from adapters.sqlserver.log.changes import raw_batch
from adapters.sqlserver.log.entries import instance_of
from adapters.sqlserver.server.catalog import Catalog
from adapters.sqlserver.server.rows import readable, row_shape
from adapters.sqlserver.server.tsql import row_text
from engine.events.settings import BinaryMode, DecimalMode, EventSettings, TimeMode
from engine.events.values.row_form import RowMode
from engine.staging.reads import ReadEvents

if TYPE_CHECKING:
    from adapters.sqlserver.server.table import Table
    from tests.servers.sqlserver import SqlServer, StandInDatabase

pytestmark = pytest.mark.integration

PLAIN = EventSettings("tm", "shop", key_schemas=False, value_schemas=False)
OTHERS = replace(PLAIN, times=TimeMode.CONNECT, decimals=DecimalMode.STRING, binary=BinaryMode.HEX)
DDL = """CREATE TABLE dbo.t (
    id int NOT NULL PRIMARY KEY, b bit, ti tinyint, si smallint, bi bigint, de decimal(12, 3),
    nu numeric(38, 0), mo money, sm smallmoney, re real, fl float, ch char(5), va varchar(20),
    nc nchar(4), nv nvarchar(20), vm varchar(max), nm nvarchar(max) NOT NULL, bn binary(4),
    vb varbinary(20), vx varbinary(max), gu uniqueidentifier, da date, t0 time(0), t7 time(7),
    dt datetime, sd smalldatetime, d0 datetime2(0), d3 datetime2(3), d7 datetime2(7),
    dz datetimeoffset(7), xm xml)"""
FULL = """INSERT INTO dbo.t VALUES (1, 1, 255, -32768, 9223372036854775807, -123456789.125,
    12345678901234567890123456789012345678, 922337203685477.5807, -214748.3648, 1.5, 0.1, 'ab', 'it''s "x"\\',
    N'č', N'ž😀', 'long', N'', 0x01020304, 0xDEADBEEF, 0x00FF, '6F9619FF-8B86-D011-B42D-00C04FC964FF',
    '0001-01-01', '23:59:59', '12:34:56.1234567', '2018-07-13 13:23:45.780', '2018-07-13 14:24:00',
    '2018-06-20 15:13:16', '2018-06-20 15:13:16.945', '2018-06-20 15:13:16.9451047',
    '2018-07-13 12:23:45.4560000 +11:00', N'<a>b</a>')"""
EXPECTED = {
    "id": 1,
    "b": True,
    "ti": 255,
    "si": -32768,
    "bi": 2**63 - 1,
    "mo": "f/////////8=",
    "sm": "gAAAAA==",
    "re": 1.5,
    "fl": 0.1,
    "ch": "ab   ",
    "va": 'it\'s "x"\\',
    "nc": "č   ",
    "nv": "ž\U0001f600",
    "nm": "",
    "bn": "AQIDBA==",
    "vb": "3q2+7w==",
    "gu": "6F9619FF-8B86-D011-B42D-00C04FC964FF",
    "da": -719162,
    "t0": 86399000,
    "t7": 45296123456700,
    "dt": 1531488225780,
    "sd": 1531491840000,
    "d0": 1529507596000,
    "d3": 1529507596945,
    "d7": 1529507596945104700,
    "dz": "2018-07-13T12:23:45.456+11:00",
    "xm": "<a>b</a>",
}


@pytest.fixture
def table(sqlserver: SqlServer, shop: StandInDatabase) -> Table:
    shop.execute(DDL)
    shop.enable_cdc("dbo.t")
    with sqlserver.reach.engine("shop").connect() as connection:
        catalog = Catalog(connection, "shop")
        (described,) = catalog.tables(catalog.captures(lambda _name: True))
    return described


def streamed(shop: StandInDatabase, table: Table, settings: EventSettings, mode: RowMode) -> list[Any]:
    """What the log makes of all changes: `after` of each event as JSON text."""
    text = row_text(readable(table), mode, "c")
    rows = shop.query(
        "SELECT CONVERT(char(20), c.[__$start_lsn], 2), c.[__$command_id],"
        " CONVERT(char(20), c.[__$seqval], 2),"
        f" c.[__$operation], {text} FROM [cdc].[dbo_t_CT] AS c"
    )
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    batch = raw_batch([pa.array([0] * len(rows)), *columns[:4], pa.nulls(len(rows), pa.string()), columns[4]])
    rules = Rules(settings, {0: instance_of(table, codec_for(table, settings), mode)})
    return afters(decode([batch], rules, Watch(), 0).events)


def read(shop: StandInDatabase, table: Table, settings: EventSettings, mode: RowMode) -> list[str]:
    """What a query makes of all rows."""
    rows = shop.query(f"SELECT {row_text(readable(table), mode)} FROM [dbo].[t] ORDER BY [id]")
    events = ReadEvents(codec_for(table, settings), row_shape(table), "{}", 0)
    found: list[str] = events.staged(pa.array([row[0] for row in rows]), mode).column("value").to_pylist()
    return found


def afters(events: pa.RecordBatch) -> list[str]:
    texts = events.column("value").to_pylist()
    return [text[text.index('"after":') + 8 : text.index(',"source"')] for text in texts]


def nulls(table: Table, number: int) -> str:
    names = [column.name for column in table.columns if column.name not in {"id", "nm"}]
    values = ", ".join(["NULL"] * len(names))
    return f"INSERT INTO dbo.t (id, nm, {', '.join(names)}) VALUES ({number}, N'x', {values})"


@pytest.mark.parametrize("mode", [RowMode.FAST, RowMode.ESCAPED])
@pytest.mark.parametrize("settings", [PLAIN, OTHERS])
def test_both_roads_give_the_same_bytes(shop: StandInDatabase, table: Table, settings, mode):
    shop.execute(FULL)
    shop.execute(nulls(table, 2))
    shop.capture()

    found = streamed(shop, table, settings, mode)

    assert found == read(shop, table, settings, mode)
    full, empty = map(orjson.loads, found)
    assert {name for name, value in empty.items() if value is not None} == {"id", "nm"}
    if settings is PLAIN:
        assert {name: full[name] for name in EXPECTED} == EXPECTED


def test_separators_and_escapes_survive_in_the_escaped_form(shop: StandInDatabase, table: Table):
    shop.execute("INSERT INTO dbo.t (id, nm, nv) VALUES (1, CONCAT(N'a', NCHAR(31), N'\\s\\b'), N'\\')")
    shop.capture()

    (found,) = streamed(shop, table, PLAIN, RowMode.ESCAPED)

    assert orjson.loads(found)["nm"] == "a\x1f\\s\\b"
    assert orjson.loads(found)["nv"] == "\\"
    assert [found] == read(shop, table, PLAIN, RowMode.ESCAPED)

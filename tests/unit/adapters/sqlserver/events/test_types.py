"""Every type's schema and values, in every mode that changes them."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pyarrow as pa
import pytest

from adapters.sqlserver.events.codec import codec_for
from adapters.sqlserver.events.types import conversion
from adapters.sqlserver.server.table import Column, Table
from adapters.sqlserver.server.tsql import READABLE
from engine.events.settings import BinaryMode, DecimalMode, TimeMode
from engine.events.values.text import join
from engine.model import CollectionId
from tests.unit.adapters.sqlserver.changed import PLAIN

CONNECT = replace(PLAIN, times=TimeMode.CONNECT)
MICROS = replace(PLAIN, times=TimeMode.ADAPTIVE_TIME_MICROSECONDS)
DECIMAL = "org.apache.kafka.connect.data.Decimal"
TIME, STAMP = "12:34:56.1234567", "2018-06-20 15:13:16.9451047"


def column(kind: str, length: int = 0, precision: int = 0, scale: int = 0) -> Column:
    return Column("c", 1, kind, length, precision, scale)


def member(of: Column, text: str | None, settings=PLAIN) -> tuple[str, str | None, object]:
    """The type and name of the column's schema, and the value of a row that has this text."""
    codec = codec_for(Table(CollectionId(("d", "s", "t")), (of,)), settings)
    (field,) = codec.fields
    value = orjson.loads(join(codec.row([pa.array([text], pa.large_string())]).pieces, 1)[0].as_py())["c"]
    return field.schema.type, field.schema.name, value


@pytest.mark.parametrize(
    ("of", "text", "expected"),
    [
        (column("bit"), "1", ("boolean", None, True)),
        (column("bit"), "0", ("boolean", None, False)),
        (column("tinyint"), "255", ("int16", None, 255)),
        (column("smallint"), "-32768", ("int16", None, -32768)),
        (column("int"), "-2147483648", ("int32", None, -(2**31))),
        (column("bigint"), "9223372036854775807", ("int64", None, 2**63 - 1)),
        (column("real"), "4.32299995e+000", ("float", None, 4.323)),
        (column("real"), "3.40282347e+038", ("float", None, 3.4028235e38)),
        (column("float"), "3.3230000000000000e+000", ("double", None, 3.323)),
        (column("float"), "-1.7976931348623157e+308", ("double", None, -1.7976931348623157e308)),
        (column("char", 3), "cc ", ("string", None, "cc ")),
        (column("varchar", 10), 'a"b\n', ("string", None, 'a"b\n')),
        (column("nvarchar", -1), "č\U0001f600", ("string", None, "č\U0001f600")),
        (column("text"), "", ("string", None, "")),
        (column("ntext"), "t", ("string", None, "t")),
        (column("nchar", 3), "c  ", ("string", None, "c  ")),
        (column("xml"), "<a>b</a>", ("string", "io.debezium.data.Xml", "<a>b</a>")),
        (
            column("uniqueidentifier"),
            "6F9619FF-8B86-D011-B42D-00C04FC964FF",
            ("string", None, "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        ),
        (column("binary", 3), "00FF7E", ("bytes", None, "AP9+")),
        (column("varbinary", -1), "", ("bytes", None, "")),
        (column("image"), "DEADBEEF", ("bytes", None, "3q2+7w==")),
        (column("timestamp"), "00000000000007D1", ("bytes", None, "AAAAAAAAB9E=")),
        (column("hierarchyid", 892), "58", ("bytes", None, "WA==")),
        (column("geometry", -1), "E6100000010C", ("bytes", None, "5hAAAAEM")),
        (column("date"), "2018-07-13", ("int32", "io.debezium.time.Date", 17725)),
        (column("date"), "0001-01-01", ("int32", "io.debezium.time.Date", -719162)),
        (column("time", scale=2), "10:23:45.68", ("int32", "io.debezium.time.Time", 37425680)),
        (column("time", scale=4), "10:23:45.6789", ("int64", "io.debezium.time.MicroTime", 37425678900)),
        (column("time", scale=7), TIME, ("int64", "io.debezium.time.NanoTime", 45296123456700)),
        (
            column("datetime", scale=3),
            "2018-07-13 13:23:45.780",
            ("int64", "io.debezium.time.Timestamp", 1531488225780),
        ),
        (
            column("smalldatetime"),
            "2018-07-13 14:24:00",
            ("int64", "io.debezium.time.Timestamp", 1531491840000),
        ),
        (
            column("datetime2", scale=6),
            "2018-06-20 15:13:16.945104",
            ("int64", "io.debezium.time.MicroTimestamp", 1529507596945104),
        ),
        (
            column("datetime2", scale=7),
            "2018-07-13 11:23:45.3400000",
            ("int64", "io.debezium.time.NanoTimestamp", 1531481025340000000),
        ),
        (
            column("datetimeoffset", scale=7),
            "2018-07-13 12:23:45.4560000 +11:00",
            ("string", "io.debezium.time.ZonedTimestamp", "2018-07-13T12:23:45.456+11:00"),
        ),
        (column("decimal", precision=6, scale=3), "1.123", ("bytes", DECIMAL, "BGM=")),
        (column("numeric", precision=38), "-" + "9" * 38, ("bytes", DECIMAL, "tMSzV6V5O4X2dd3AAAAAAQ==")),
        (column("money"), "6.3230", ("bytes", DECIMAL, "APb+")),
        (column("smallmoney"), "-214748.3648", ("bytes", DECIMAL, "gAAAAA==")),
    ],
)
def test_a_value_with_the_default_settings(of, text, expected):
    assert member(of, text) == expected
    assert member(of, None) == (*expected[:2], None)


@pytest.mark.parametrize(
    ("of", "text", "settings", "expected"),
    [
        (column("date"), "2018-07-13", CONNECT, ("int32", "org.apache.kafka.connect.data.Date", 17725)),
        (
            column("time", scale=7),
            TIME,
            CONNECT,
            ("int32", "org.apache.kafka.connect.data.Time", 45296123),
        ),
        (
            column("datetime2", scale=7),
            STAMP,
            CONNECT,
            ("int64", "org.apache.kafka.connect.data.Timestamp", 1529507596945),
        ),
        (
            column("datetime2", scale=7),
            "1969-12-31 23:59:59.9999999",
            CONNECT,
            ("int64", "org.apache.kafka.connect.data.Timestamp", -1),
        ),
        (column("time", scale=0), "12:34:56", MICROS, ("int64", "io.debezium.time.MicroTime", 45296000000)),
        (column("time", scale=7), TIME, MICROS, ("int64", "io.debezium.time.MicroTime", 45296123456)),
        (
            column("datetime2", scale=7),
            STAMP,
            MICROS,
            ("int64", "io.debezium.time.NanoTimestamp", 1529507596945104700),
        ),
        (
            column("decimal", precision=6, scale=3),
            "1.120",
            replace(PLAIN, decimals=DecimalMode.STRING),
            ("string", None, "1.120"),
        ),
        (
            column("money"),
            "922337203685477.5807",
            replace(PLAIN, decimals=DecimalMode.STRING),
            ("string", None, "922337203685477.5807"),
        ),
        (
            column("smallmoney"),
            "5.3230",
            replace(PLAIN, decimals=DecimalMode.DOUBLE),
            ("double", None, 5.323),
        ),
        (
            column("varbinary", 4),
            "00FBFF",
            replace(PLAIN, binary=BinaryMode.HEX),
            ("string", None, "00fbff"),
        ),
        (
            column("varbinary", 4),
            "FBFF",
            replace(PLAIN, binary=BinaryMode.BASE64),
            ("string", None, "+/8="),
        ),
        (
            column("varbinary", 4),
            "FBFF",
            replace(PLAIN, binary=BinaryMode.BASE64_URL_SAFE),
            ("string", None, "-_8="),
        ),
    ],
)
def test_a_value_in_another_mode(of, text, settings, expected):
    assert member(of, text, settings) == expected


@pytest.mark.parametrize(
    ("of", "parameters"),
    [
        (column("decimal", precision=6, scale=3), (("scale", "3"), ("connect.decimal.precision", "6"))),
        (column("numeric", precision=18), (("scale", "0"), ("connect.decimal.precision", "18"))),
        (column("money"), (("scale", "4"), ("connect.decimal.precision", "19"))),
        (column("smallmoney"), (("scale", "4"), ("connect.decimal.precision", "10"))),
    ],
)
def test_a_decimal_tells_its_scale_and_precision(of, parameters):
    made = conversion(of, PLAIN)

    assert made is not None
    assert made.schema.parameters == parameters


def test_every_type_that_has_a_text_has_a_conversion_and_no_other():
    for kind in READABLE:
        assert conversion(column(kind, 10, 10, 2), PLAIN) is not None, kind
    for kind in ("sql_variant", "my_type"):
        assert kind not in READABLE
        assert conversion(column(kind), PLAIN) is None


@pytest.mark.parametrize(
    ("of", "missing"),
    [
        (column("int"), 0),
        (column("bit"), False),
        (column("nvarchar", -1), ""),
        (column("decimal", precision=6, scale=2), "AA=="),
        (column("float"), 0.0),
        (column("datetime2", scale=7), 0),
        (column("varbinary", -1), ""),
        (column("datetimeoffset", scale=7), "1970-01-01T00:00:00Z"),
    ],
)
def test_a_value_that_the_log_lacks_is_that_of_nothing_where_null_may_not_be(of, missing):
    assert member(replace(of, nullable=False), None)[2] == missing


def test_a_computed_column_is_null_whatever_a_query_says_since_the_log_never_has_it():
    assert member(replace(column("int"), computed=True, nullable=False), "5") == ("int32", None, None)

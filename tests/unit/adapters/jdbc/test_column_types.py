from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from adapters.jdbc.column_types import column_type, escaped, texts
from engine.events.record.schema import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    INT32,
    INT64,
    STRING,
    Schema,
    array,
    struct,
    text_map,
)
from engine.events.record.typed import arrow_type
from engine.events.values.times import DAY_US, INFINITY_DAYS, INFINITY_US, MINUS_INFINITY_US

TIME, CONNECT = "io.debezium.time", "org.apache.kafka.connect.data"
DATE = Schema("int32", name=f"{TIME}.Date")
MICROS = Schema("int64", name=f"{TIME}.MicroTimestamp")
NANOS = Schema("int64", name=f"{TIME}.NanoTimestamp")
ZONED = Schema("string", name=f"{TIME}.ZonedTimestamp")
DECIMAL = Schema(
    "bytes", name=f"{CONNECT}.Decimal", parameters=(("scale", "2"), ("connect.decimal.precision", "9"))
)
MONEY = Schema("bytes", name=f"{CONNECT}.Decimal", parameters=(("scale", "2"),))
LATER = 2_932_897
"""10000-01-01."""


@pytest.mark.parametrize(
    ("schema", "values", "kind", "expected"),
    [
        (BOOLEAN, [True, None], "boolean", ["true", None]),
        (INT32, [-1], "integer", ["-1"]),
        (DOUBLE, [float("nan"), float("-inf"), 1e300], "double precision", ["nan", "-inf", "1e+300"]),
        (STRING, ["", "a\tb"], "text", ["", "a\tb"]),
        (BYTES, [b"", b"\x00\xff", None], "bytea", ["\\x", "\\x00ff", None]),
        (DECIMAL, [Decimal("-1.50")], "numeric(9,2)", ["-1.50"]),
        (MONEY, [Decimal("12.34")], "numeric", ["12.34"]),
        (DATE, [0, -719_163, LATER], "date", ["1970-01-01", "0001-12-31 BC", "10000-01-01"]),
        (DATE, [INFINITY_DAYS, None], "date", ["infinity", None]),
        (
            MICROS,
            [1, -719_163 * DAY_US + 5, LATER * DAY_US],
            "timestamp without time zone",
            ["1970-01-01 00:00:00.000001", "0001-12-31 00:00:00.000005 BC", "10000-01-01 00:00:00.000000"],
        ),
        (
            MICROS,
            [INFINITY_US, MINUS_INFINITY_US],
            "timestamp without time zone",
            ["infinity", "-infinity"],
        ),
        (NANOS, [1], "text", ["1970-01-01 00:00:00.000000001"]),
        (
            Schema("int64", name=f"{TIME}.MicroTime"),
            [DAY_US, DAY_US - 1, None],
            "time without time zone",
            ["24:00:00", "23:59:59.999999", None],
        ),
        (Schema("int32", name=f"{TIME}.Time"), [1500], "time without time zone", ["00:00:01.500000"]),
        (Schema("int64", name=f"{TIME}.NanoTime"), [100], "text", ["00:00:00.000000100"]),
        (
            ZONED,
            [
                "2024-01-01T00:00:00Z",
                "0000-01-01T00:00:00Z",
                "-0043-03-15T00:00:00Z",
                "+12345-01-01T00:00:00Z",
            ],
            "timestamp with time zone",
            [
                *("2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z BC"),
                *("0044-03-15T00:00:00Z BC", "12345-01-01T00:00:00Z"),
            ],
        ),
        (Schema("int64", name=f"{TIME}.MicroDuration"), [7], "bigint", ["7"]),
        (Schema("string", name="io.debezium.data.Uuid"), ["u"], "uuid", ["u"]),
        (Schema("string", name="io.debezium.data.Enum"), ["e"], "text", ["e"]),
        (array(INT64), [[1, None], [], None], "bigint[]", ['{"1",NULL}', "{}", None]),
        (array(STRING), [['a"b\\', "NULL"]], "text[]", ['{"a\\"b\\\\","NULL"}']),
        (text_map(), [[("a", "b"), ("c", None)], None], "json", ['{"a":"b","c":null}', None]),
        (
            struct("s", ("x", DOUBLE), ("wkb", BYTES)),
            [{"x": 1.5, "wkb": b"\x01"}],
            "json",
            ['{"x":1.5,"wkb":"01"}'],
        ),
    ],
)
def test_a_schema_has_a_type_and_values_are_its_text(
    schema: Schema, values: list[Any], kind: str, expected: list[str | None]
):
    given = pa.array(values, _readable(schema))

    assert column_type(schema, "postgresql") == kind
    assert texts(given.cast(arrow_type(schema)), schema).to_pylist() == expected


def _readable(schema: Schema) -> pa.DataType:
    """The type as which a test gives values: numbers for dates and times."""
    kind = arrow_type(schema)
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


@pytest.mark.parametrize("name", ["ZonedTimestamp", "ZonedTime"])
def test_zones_of_other_sources_stay_text(name: str):
    assert column_type(Schema("string", name=f"{TIME}.{name}"), "sqlserver") == "text"


def test_a_part_of_an_array_is_shown_alone():
    values = pa.array([[1], [2, 3], None, [4]], pa.list_(pa.int64())).slice(1)

    assert texts(values, array(INT64)).to_pylist() == ['{"2","3"}', None, '{"4"}']


def test_what_copy_would_take_for_its_own_is_escaped():
    given = pa.array(["plain", "\\N", "a\tb\nc\rd", None], pa.large_string())

    assert escaped(given).to_pylist() == ["plain", "\\\\N", "a\\tb\\nc\\rd", None]

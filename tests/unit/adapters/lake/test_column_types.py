from __future__ import annotations

import base64
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.jdbc.column_types import texts
from adapters.lake.column_types import column, column_type, exactly, has_special_text, has_text
from adapters.postgres.events.columns.scalars import scalar
from engine.events.record.field import Field
from engine.events.record.schema import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT16,
    INT32,
    INT64,
    STRING,
    Schema,
    array,
    struct,
    text_map,
)
from engine.events.record.typed import from_json
from engine.events.settings import EventSettings
from engine.events.values.times import INFINITY_DAYS, INFINITY_US, MINUS_INFINITY_DAYS, MINUS_INFINITY_US

VARIABLE = struct("io.debezium.data.VariableScaleDecimal", ("scale", INT32), ("value", BYTES), optional=True)
DATE = Schema("int32", optional=True, name="io.debezium.time.Date")
MILLIS = Schema("int64", optional=True, name="io.debezium.time.Timestamp")
MICROS = Schema("int64", optional=True, name="io.debezium.time.MicroTimestamp")
NANOS = Schema("int64", optional=True, name="io.debezium.time.NanoTimestamp")


def decimal(digits: int, scale: int) -> Schema:
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(digits)))
    return Schema("bytes", optional=True, name="org.apache.kafka.connect.data.Decimal", parameters=parameters)


def unscaled(number: int) -> str:
    data = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return base64.b64encode(data).decode()


def read(schema: Schema, *values: Any) -> tuple[list[Any], list[Any] | None]:
    typed = from_json(pa.array([orjson.dumps(value).decode() for value in values], pa.large_string()), schema)
    made = column(typed, schema)
    assert made.values.type == column_type(schema)
    return made.values.to_pylist(), None if made.texts is None else made.texts.to_pylist()


@pytest.mark.parametrize(
    ("schema", "kind", "value"),
    [
        (BOOLEAN, pa.bool_(), True),
        (INT16, pa.int16(), -(2**15)),
        (INT32, pa.int32(), 2**31 - 1),
        (INT64, pa.int64(), -(2**63)),
        (FLOAT, pa.float32(), 0.5),
        (DOUBLE, pa.float64(), 1e308),
        (STRING, pa.string(), "é😀"),
        (NANOS, pa.int64(), 1_700_000_000_123_456_789),
        (array(INT32), pa.list_(pa.int32()), [1, None, 3]),
        (text_map(), pa.map_(pa.string(), pa.string()), None),
    ],
)
def test_a_value_stays_as_it_is(schema: Schema, kind: pa.DataType, value: Any):
    schema = schema.nullable()

    assert column_type(schema) == kind
    assert read(schema, value, None) == ([value, None], None)


def test_bytes_and_decimals_are_read_from_base64():
    assert read(BYTES.nullable(), "AP8=", None) == ([b"\x00\xff", None], None)
    assert read(decimal(12, 2), unscaled(-12345)) == ([Decimal("-123.45")], None)


@pytest.mark.parametrize(("digits", "scale"), [(40, 3), (76, 0), (100, 5), (5, 9)])
def test_a_decimal_that_spark_has_no_type_for_is_exact_text(digits: int, scale: int):
    number = -(10 ** (min(digits, 70) - 1) + 7)

    ((text, missing), _texts) = read(decimal(digits, scale), unscaled(number), None)

    assert column_type(decimal(digits, scale)) == pa.string()
    assert (Decimal(text), missing) == (Decimal((1, tuple(map(int, str(-number))), -scale)), None)


@pytest.mark.parametrize("typmod", [(12 << 16 | 2) + 4, (60 << 16 | 5) + 4, (300 << 16 | 5) + 4, -1])
def test_a_numeric_that_is_no_number_is_text_and_not_null(typmod: int):
    conversion = scalar("numeric", typmod, EventSettings("tm", "shop"))
    assert conversion is not None
    names = ["NaN", "Infinity", "-Infinity"]
    field = Field("n", 0, conversion, conversion.schema.nullable(), "null")
    typed = field.typed(pa.array(["1.5", *names, None, "-2"], pa.large_string()))

    made = column(typed.slice(1), field.schema)
    jdbc = texts(typed.slice(1), field.schema).to_pylist()

    assert (jdbc[:4], Decimal(jdbc[4])) == ([*names, None], Decimal(-2))
    if made.values.type == pa.decimal128(12, 2):
        assert made.texts is not None
        assert made.values.to_pylist() == [None] * 4 + [Decimal(-2)]
        assert made.texts.to_pylist() == [*names, None, None]
    else:
        assert made.values.to_pylist() == jdbc
    assert has_special_text(field.schema) == (made.texts is not None)
    assert column(typed.slice(4), field.schema).texts is None


@given(
    numbers=st.lists(
        st.none() | st.tuples(st.integers(-(2**140), 2**140) | st.integers(-200, 200), st.integers(-9, 40)),
        max_size=20,
    )
)
def test_decimals_of_any_scale_are_exact_text(numbers: list[tuple[int, int] | None]):
    values = [n and {"scale": n[1], "value": unscaled(n[0])} for n in numbers]

    texts, _outside = read(VARIABLE, *values)

    wanted = [
        None if n is None else f"{Decimal((int(n[0] < 0), tuple(map(int, str(abs(n[0])))), -n[1])):f}"
        for n in numbers
    ]
    assert texts == wanted


def test_decimals_have_as_many_digits_as_postgresql_takes():
    whole = "7" * 131_072

    texts, _outside = read(VARIABLE, {"scale": 1, "value": unscaled(int(Decimal(f"-{whole}5")))})

    assert texts == [f"-{whole}.5"]


def test_dates_that_a_column_cannot_hold_are_text_beside_it():
    first, last = -719_162, 2_932_896
    values, texts = read(DATE, 0, first, last, first - 1, last + 1, INFINITY_DAYS, MINUS_INFINITY_DAYS, None)

    assert [str(value) for value in values] == ["1970-01-01", "0001-01-01", "9999-12-31", *["None"] * 5]
    assert texts == [None] * 3 + ["0000-12-31", "10000-01-01", "infinity", "-infinity", None]


@pytest.mark.parametrize(("schema", "factor"), [(MILLIS, 1000), (MICROS, 1)])
def test_times_that_a_column_cannot_hold_are_text_beside_it(schema: Schema, factor: int):
    least, end = -719_162 * 86_400_000_000 // factor, 2_932_897 * 86_400_000_000 // factor
    infinities = (INFINITY_US // factor, MINUS_INFINITY_US // factor)
    values, texts = read(schema, 0, least, end - 1, least - 1, end, *infinities, None)

    assert values[3:] == [None] * 5
    assert str(values[1]) == "0001-01-01 00:00:00"
    assert str(values[2]).startswith("9999-12-31 23:59:59.999")
    zeros = "000" if factor == 1000 else "000000"
    assert texts == [
        *[None] * 3,
        f"0000-12-31T23:59:59.{zeros.replace('0', '9')}",
        f"10000-01-01T00:00:00.{zeros}",
        "infinity",
        "-infinity",
        None,
    ]
    assert (has_text(schema), has_text(NANOS), has_text(INT32)) == (True, False, False)


def test_values_inside_of_others_are_converted_too():
    schema = struct("s", ("at", MILLIS), ("list", array(VARIABLE).nullable()), optional=True)
    number = {"scale": 2, "value": unscaled(5)}

    values, _texts = read(schema, {"at": 1, "list": [number, None]}, None)

    assert values[1] is None
    assert (str(values[0]["at"]), values[0]["list"]) == ("1970-01-01 00:00:00.001000", ["0.05", None])


def test_an_array_with_a_date_that_cannot_be_held_is_text_as_a_whole():
    values, texts = read(array(DATE).nullable(), [0, INFINITY_DAYS, None], [0], None, [], [None])

    assert [value and [str(item) for item in value] for value in values] == [
        *(None, ["1970-01-01"], None, [], ["None"])
    ]
    assert texts == ['["1970-01-01","infinity",null]', None, None, None, None]


def test_a_struct_with_a_time_that_cannot_be_held_is_text_as_a_whole():
    schema = struct(
        "s", ("at", array(MICROS).nullable()), ("n", decimal(5, 2)), ("data", BYTES), optional=True
    )
    odd = {"at": [1, INFINITY_US], "n": unscaled(150), "data": "AP8="}

    values, texts = read(schema, odd, {**odd, "at": None}, None)

    assert values == [None, {"at": None, "n": Decimal("1.50"), "data": b"\x00\xff"}, None]
    shown = '{"at":["1970-01-01T00:00:00.000001","infinity"],"n":"1.50","data":"AP8="}'
    assert texts == [shown, None, None]
    assert (has_text(schema), has_text(array(INT32)), has_text(array(DATE))) == (True, False, True)


@given(
    rows=st.lists(st.none() | st.lists(st.none() | st.sampled_from([0, 7, INFINITY_DAYS])), max_size=12),
    begin=st.integers(0, 3),
)
def test_each_array_is_in_one_of_its_columns(rows: list[Any], begin: int):
    schema = array(DATE).nullable()
    typed = from_json(pa.array([orjson.dumps(row).decode() for row in rows], pa.large_string()), schema)
    made = column(pa.concat_arrays([typed.slice(begin)]), schema)
    assert made.texts is not None

    odd = [row is not None and INFINITY_DAYS in row for row in rows[begin:]]
    assert [text is not None for text in made.texts.to_pylist()] == odd
    assert made.values.is_null().to_pylist() == [
        row is None or strange for row, strange in zip(rows[begin:], odd, strict=True)
    ]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pa.scalar(7, pa.int32()), pa.int64()),
        (pa.scalar(7, pa.int64()), pa.int16()),
        (pa.scalar(7, pa.int64()), pa.decimal128(38, 2)),
        (pa.scalar(0.5, pa.float32()), pa.float64()),
    ],
)
def test_a_type_that_holds_a_value_is_taken(value: pa.Scalar, kind: pa.DataType):
    made = exactly(pa.array([value.as_py(), None], value.type), kind)

    assert made is not None
    assert (made.type, made.to_pylist()) == (kind, [value.as_py(), None])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (pa.scalar(0.1), pa.float32()),
        (pa.scalar(2), pa.bool_()),
        (pa.scalar(datetime(2024, 2, 29, 12), pa.timestamp("us")), pa.date32()),  # noqa: DTZ001  of no zone
        (pa.scalar(Decimal("0.1234567890123456789012345678901234")), pa.float64()),
        (pa.scalar("0.1"), pa.float64()),
    ],
)
def test_a_type_that_changes_a_value_is_not_taken(value: pa.Scalar, kind: pa.DataType):
    assert exactly(pa.array([value.as_py(), None], value.type), kind) is None


def test_nan_stays_itself_in_a_wider_type():
    made = exactly(pa.array([float("nan"), 0.5, None], pa.float32()), pa.float64())

    assert made is not None
    assert str(made.to_pylist()) == "[nan, 0.5, None]"


def test_text_is_parsed_and_items_may_be_named_otherwise():
    at = exactly(pa.array(["2024-02-29T12:00:00.123456Z"]), pa.timestamp("us", "UTC"))
    lists = exactly(pa.array([[1.5, float("nan")]]), pa.list_(pa.field("element", pa.float64())))

    assert at is not None
    assert str(at[0].as_py()) == "2024-02-29 12:00:00.123456+00:00"
    assert lists is not None
    with pytest.raises(pa.ArrowInvalid):
        exactly(pa.array(["infinity"]), pa.timestamp("us", "UTC"))
    with pytest.raises(pa.ArrowInvalid):
        exactly(pa.array(["2024-02-29T12:00:00.1234567Z"]), pa.timestamp("us", "UTC"))


def test_years_before_0_have_four_digits():
    days = pa.array([-735_157, -719_529], pa.int32()).cast(pa.date32())
    made = column(days, Schema("int32", name="io.debezium.time.Date", optional=True))

    assert made.texts is not None
    assert made.texts.to_pylist() == ["-0043-03-18", "-0001-12-31"]

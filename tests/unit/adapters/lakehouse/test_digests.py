"""Digests of a lake's rows: equal values have one, whatever holds them; other values have another."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from adapters.lakehouse.digests import digests

US = pa.timestamp("us")


def digest(*columns: pa.Array) -> list[bytes]:
    found: list[bytes] = digests(columns).to_pylist()
    return found


@pytest.mark.parametrize(
    ("value", "narrow", "wide"),
    [
        (-7, pa.int16(), pa.int64()),
        (0.1, pa.float32(), pa.float64()),
        (Decimal("-1.50"), pa.decimal128(5, 2), pa.decimal128(38, 10)),
        (Decimal("0.00000001"), pa.decimal128(10, 8), pa.decimal128(38, 20)),
        (Decimal(10**37), pa.decimal128(38, 0), pa.decimal128(38, 0)),
        ("é\t\\", pa.string(), pa.large_string()),
        (b"\x00\xff", pa.binary(), pa.large_binary()),
        ([1, None], pa.list_(pa.int32()), pa.large_list(pa.int64())),
        (
            {"a": 1, "b": None},
            pa.struct([("a", pa.int16()), ("b", US)]),
            pa.struct([("a", pa.int64()), ("b", US)]),
        ),
        ([("k", 1)], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.int64())),
        (None, pa.int16(), pa.string()),
    ],
)
def test_a_value_has_one_digest_whatever_the_width_of_its_type(
    value: Any, narrow: pa.DataType, wide: pa.DataType
):
    held = pa.array([value], narrow)
    widened = held.cast(pa.float64()) if pa.types.is_float32(narrow) else pa.array([value], wide)

    assert digest(held) == digest(widened)


def test_a_date_has_the_digest_of_its_midnight():
    days = pa.array([date(2024, 2, 29), date(1, 1, 1), None])
    times = pa.array([datetime(2024, 2, 29), datetime(1, 1, 1), None], US)  # noqa: DTZ001  it has none

    assert digest(days) == digest(times) == digest(times.cast(pa.timestamp("us", "UTC")))


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["", None, "\\N", "a", "a\\", "a\\\\", "a\t", "N"]),
        pa.array([[], None, [""], [None], ["", ""], ["a\tb"], ["a", "b"], ["\\"], ["\\N"]]),
        pa.array([[[]], [[], []], [None], [["a"]], [["a"], []]], pa.list_(pa.list_(pa.string()))),
        pa.array([0.0, -0.0, float("nan"), float("inf"), 5e-324, None]),
        pa.array([b"", None, b"\x00", b"0", b"00"]),
        pa.array([datetime(2024, 1, 1, 0, 0, 0, 1), datetime(2024, 1, 1), None], US),  # noqa: DTZ001  it has none
        pa.array([{"a": None, "b": "x"}, {"a": "x", "b": None}, None, {"a": None, "b": None}]),
        pa.array([[("a", "b")], [("b", "a")], [], None], pa.map_(pa.string(), pa.string())),
        pa.array([Decimal("1.1"), Decimal("1.10001"), Decimal("-1.1"), None], pa.decimal128(20, 5)),
    ],
)
def test_values_that_differ_have_other_digests(values: pa.Array):
    assert len(set(digest(values))) == len(values)


def test_a_column_s_end_is_told_from_the_next_one_s_beginning():
    rows = digest(pa.array(["a", "a\tb", "a", None]), pa.array(["b\tc", "c", None, "a"]))

    assert len(set(rows)) == 4


def test_a_slice_has_the_digests_of_its_rows():
    columns = [
        pa.array(["a", "b", None, "d"]),
        pa.array([b"1", None, b"333", b""]),
        pa.array([[1], None, [2, 3], []]),
        pa.array([{"a": [1]}, None, {"a": None}, {"a": []}]),
        pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], []], pa.map_(pa.string(), pa.int8())),
    ]

    assert digest(*(column.slice(1, 2) for column in columns)) == digest(*columns)[1:3]


def test_no_row_has_no_digest():
    assert digest(pa.array([], pa.binary()), pa.array([], pa.list_(pa.string()))) == []

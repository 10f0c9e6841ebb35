"""Numbers as Kafka Connect's converter writes them."""

from __future__ import annotations

import base64
import decimal
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values.floats.java_floats import (
    doubles_as_java,
    float_texts,
    floats_as_java,
    java_double,
    numbers_as_doubles,
    numbers_as_floats,
)
from engine.events.values.numbers import (
    decimal_base64,
    special_names,
    unscaled_base64,
    variable_decimals,
)

WIDE = st.integers(-(10**45), 10**45) | st.integers(-(2**64), 2**64) | st.integers(-300, 300)


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


def shown(unscaled: int, scale: int) -> str:
    return f"{decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=60)):f}"


def unscaled(text: str) -> int:
    return int.from_bytes(base64.b64decode(text), "big", signed=True)


@given(st.lists(st.none() | WIDE), st.sampled_from([0, 2, 10, 38, 40]))
def test_decimals_are_the_fewest_bytes_of_twos_complement(numbers, scale):
    texts = large(*(None if number is None else shown(number, scale) for number in numbers))

    expected = [None if number is None else unscaled_base64(number) for number in numbers]
    assert decimal_base64(texts, scale).to_pylist() == expected


@given(WIDE)
def test_the_bytes_are_those_of_javas_big_integer(number):
    raw = base64.b64decode(unscaled_base64(number))

    assert int.from_bytes(raw, "big", signed=True) == number
    assert len(raw) == (number if number >= 0 else ~number).bit_length() // 8 + 1


@given(st.lists(st.none() | st.tuples(WIDE, st.integers(0, 30))))
def test_unconstrained_decimals_drop_the_zeros_of_their_fraction(numbers):
    texts = [None if number is None else shown(*number) for number in numbers]

    for text, struct in zip(texts, variable_decimals(large(*texts)).to_pylist(), strict=True):
        if text is None:
            assert struct is None
            continue
        value = json.loads(struct)
        scale = value["scale"]
        assert decimal.Decimal(text) == decimal.Decimal(shown(unscaled(value["value"]), scale))
        assert scale == 0 or unscaled(value["value"]) % 10


@pytest.mark.parametrize(
    "number", [10**131_071 - 1, -(10**6000), 7 * 10**5000 + 1], ids=["most", "less", "few"]
)
def test_decimals_may_have_as_many_digits_as_postgresql_takes(number):
    text = f"{decimal.Decimal(number):f}.5"
    wanted = unscaled_base64(10 * number + (5 if number >= 0 else -5))

    (shown,) = variable_decimals(large(text)).to_pylist()
    assert json.loads(shown) == {"scale": 1, "value": wanted}
    assert decimal_base64(large(text), 1).to_pylist() == [wanted]


@pytest.mark.parametrize("special", ["NaN", "Infinity", "-Infinity"])
def test_what_no_decimal_holds_becomes_null_beside_what_it_holds(special):
    assert decimal_base64(large("1.50", special), 2).to_pylist() == ["AJY=", None]
    assert variable_decimals(large("1.50", special)).to_pylist() == ['{"scale":1,"value":"Dw=="}', None]


def test_special_values_have_names_as_text():
    names = ["NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY", "1.10"]

    assert special_names(large("NaN", "Infinity", "-Infinity", "1.10")).to_pylist() == names
    assert numbers_as_doubles(large("NaN", "1e2", None)).to_pylist() == ['"NaN"', "100.0", None]


@pytest.mark.parametrize(
    ("postgres", "java"),
    [
        ("0", "0.0"),
        ("-0", "-0.0"),
        ("1", "1.0"),
        ("9999999", "9999999.0"),
        ("10000000", "1.0E7"),
        ("12345678.5", "1.23456785E7"),
        ("0.001", "0.001"),
        ("0.00099", "9.9E-4"),
        ("1e-05", "1.0E-5"),
        ("1e+15", "1.0E15"),
        ("123456789012345680", "1.2345678901234568E17"),
        ("1.7976931348623157e+308", "1.7976931348623157E308"),
        ("NaN", '"NaN"'),
        ("-Infinity", '"-Infinity"'),
    ],
)
def test_doubles_have_javas_form(postgres, java):
    assert doubles_as_java(large(postgres, None)).to_pylist() == [java, None]
    assert java_double(postgres) == java


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles_keep_their_value(floats):
    texts = doubles_as_java(large(*(repr(number) for number in floats))).to_pylist()

    assert [float(text) for text in texts] == floats


def test_floats_have_javas_form_where_postgres_has_an_exponent_and_java_has_none():
    texts = ["999999.9", "1e+06", "-9.999999e+06", "1e+07", "1.1754944e-38", "NaN", "-Infinity", None]

    java = ["999999.9", "1000000.0", "-9999999.0", "1.0E7", "1.17549435E-38", '"NaN"', '"-Infinity"', None]
    assert floats_as_java(large(*texts)).to_pylist() == java


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_floats_written_with_more_digits_than_they_have_come_back_the_same(floats):
    texts = large(*(f"{number:.16e}" for number in floats))

    found = numbers_as_floats(texts).to_pylist()

    assert [np.float32(text) for text in found] == floats
    assert found == float_texts(pa.array(floats, pa.float32())).to_pylist()


def test_a_float_of_32_bits_is_not_rounded_twice():
    assert numbers_as_floats(large("4.32299995e+000", "3.40282347e+038", "1.00000001e-001")).to_pylist() == [
        "4.323",
        "3.4028235E38",
        "0.1",
    ]

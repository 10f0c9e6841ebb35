"""Floats as Java before 19 writes them. Java itself is asked in tests/integration/test_java_floats.py."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values.floats.java_digits import decimals
from engine.events.values.floats.java_exact import DOUBLE, FLOAT, digits, java_text
from engine.events.values.floats.java_floats import float_texts

MANY = 20
"""More values than are written one by one."""


def texts_of(values: Sequence[float | None], kind: pa.DataType) -> list[str | None]:
    texts: list[str | None] = float_texts(pa.array(values, kind)).to_pylist()
    return texts


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (2e-3, "0.002"),
        (9.99e-4, "9.99E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (-1e-5, "-1.0E-5"),
        (5e-324, "4.9E-324"),
        (2.0**-44, "5.6843418860808015E-14"),
        (1e23, "9.999999999999999E22"),
        (2e23, "1.9999999999999998E23"),
        (2.0**63, "9.223372036854776E18"),
        (6.602055686667299e17, "6.6020556866672986E17"),
        (2.0**53 + 2, "9.007199254740994E15"),
        (float.fromhex("0x1.9537801191dfdp+84"), "3.0617315596860195E25"),
        (9.879551999999999e25, "9.879552E25"),  # a decimal halfway to the next double
        (9.879552e25, "9.879552000000001E25"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_double_has_javas_digits_alone_and_among_many(value: float, expected: str) -> None:
    others = [1.5e-9 * place for place in range(1, MANY)]

    assert java_text(value) == expected
    assert texts_of([value], pa.float64()) == [expected]
    assert texts_of([*others, value], pa.float64())[-1] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1e6, "1000000.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (16777216.0, "1.6777216E7"),
        (33554432.0, "3.3554432E7"),
        (3e10, "3.0000001E10"),
        (1.17549435e-38, "1.17549435E-38"),
        (1.4e-45, "1.4E-45"),
        (3.4028235e38, "3.4028235E38"),
        (float("inf"), "Infinity"),
    ],
)
def test_a_float_of_32_bits_has_javas_digits_alone_and_among_many(value: float, expected: str) -> None:
    others = [1.5e-9 * place for place in range(1, MANY)]

    assert texts_of([value], pa.float32()) == [expected]
    assert texts_of([*others, value], pa.float32())[-1] == expected


def test_null_stays_null() -> None:
    assert texts_of([None, 1e9], pa.float64()) == [None, "1.0E9"]
    assert float_texts(pa.array([], pa.float64())).to_pylist() == []
    assert texts_of([float("nan")] * MANY, pa.float32()) == ["NaN"] * MANY


def _patterns(bits: int) -> np.ndarray:
    """100,000 bit patterns, the same with every version of numpy; half of them with zeros at their end."""
    places = np.arange(100_000, dtype=np.uint64)
    drawn = places * np.uint64(0x9E3779B97F4A7C15)
    drawn = drawn >> np.uint64(64 - bits)
    cut = np.where(places % np.uint64(2) == 0, places % np.uint64(bits - 12), 0).astype(np.uint64)
    return (drawn >> cut << cut).astype(f"u{bits // 8}").view(f"f{bits // 8}")


@pytest.mark.parametrize(
    ("bits", "digest"),
    [
        (64, "896d11d1ff653f41ec29538dc77cbd5c17f7c87fcc057b819d85baa88e7eada7"),
        (32, "c208398ef5265aa1eaffaba8c217378886dd7309d41cebd952885a8dc84b7caf"),
    ],
)
def test_a_hundred_thousand_patterns_have_the_digits_that_java_17_gave_them(bits: int, digest: str) -> None:
    texts = float_texts(pa.array(_patterns(bits))).to_pylist()

    assert hashlib.sha256("\n".join(texts).encode()).hexdigest() == digest


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=0, exclude_min=True), min_size=1))
def test_columns_of_doubles_have_the_digits_of_single_values(values: list[float]) -> None:
    written = [value for value in values if not 1e-3 <= value < 1e7]

    found = decimals(np.array(written, np.float64), DOUBLE)
    for value, significand, exponent in zip(written, found.significands, found.exponents, strict=True):
        shown, point = digits(value, DOUBLE)
        assert int(significand) * 10 ** max(0, int(exponent) - point + len(shown)) == int(shown) * 10 ** max(
            0, point - len(shown) - int(exponent)
        )


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_floats_of_32_bits_come_back(values: list[float]) -> None:
    assert [float(np.float32(text or 0)) for text in texts_of(values, pa.float32())] == values


def test_a_subnormal_float_of_32_bits_is_one_though_its_double_is_none() -> None:
    assert digits(1.401298464324817e-45, FLOAT)[0] == "14"
    assert digits(1.401298464324817e-45, DOUBLE)[0] == "1401298464324817"

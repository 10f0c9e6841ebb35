"""Extended JSON as Java's driver writes it; whole documents are compared in the recorded streams."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import example, given
from hypothesis import strategies as st

from adapters.mongodb.documents.bson_walk import elements
from adapters.mongodb.documents.extended_json import (
    KEY,
    RELAXED,
    STRICT,
    UPDATED,
    document_text,
    escaped,
    value_text,
)
from engine.events.values.floats.java_exact import java_text
from tests.golden.case import OWN_CASES


def value_of(value: object, mode=RELAXED) -> str:
    raw = bson.encode({"v": value})
    ((_name, kind, start, end),) = elements(raw)
    return value_text(raw, kind, start, end, mode)


def from_bits(bits: int) -> float:
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(number)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (5e-324, "4.9E-324"),
        (math.pi * 1e300, "3.141592653589793E300"),
        # not the shortest digits: what Java before 19 makes of them
        (2e23, "1.9999999999999998E23"),
        (1e23, "9.999999999999999E22"),
        (-3.888032916356391e16, "-3.8880329163563912E16"),
        (2.0**63, "9.223372036854776E18"),
        # sums that wrap at 64 bits
        (from_bits(4988109837169139197), "3.0617315596860195E25"),
        (from_bits(4994071389299240819), "7.3758347830423466E25"),
        (from_bits(4986534463305362526), "2.3851136372966234E25"),
    ],
)
def test_a_double_is_written_as_java_17_writes_it(value: float, expected: str):
    assert java_text(value) == expected


def test_strings_are_escaped_where_java_s_writer_escapes_them():
    ranges = json.loads((OWN_CASES / "mongodb" / "json-escapes.json").read_text())
    recorded = {code for first, last, _how in ranges for code in range(first, last + 1)}

    assert {code for code in range(0x10000) if escaped(chr(code)) != chr(code)} == recorded
    assert escaped("é日\u0301😀\x1b\t") == "é日\\u0301\\ud83d\\ude00\\u001b\\t"


def test_modes_differ_in_numbers_and_blanks():
    raw = bson.encode({"a": Int64(5), "b": [1, 2.5], "c": {"d": None}})

    assert document_text(raw, 0, STRICT) == '{"a": {"$numberLong": "5"},"b": [1,2.5],"c": {"d": null}}'
    assert document_text(raw, 0, UPDATED) == '{"a": 5, "b": [1, 2.5], "c": {"d": null}}'


def test_a_repeated_name_keeps_its_first_place_and_its_last_value():
    inner = b"".join(bson.encode({name: value})[4:-1] for name, value in [("a", 1), ("b", 2), ("a", 3)])
    raw = struct.pack("<i", len(inner) + 5) + inner + b"\0"

    assert document_text(raw, 0, STRICT) == '{"a": 3,"b": 2}'


@pytest.mark.parametrize(
    "equal",
    [
        (1, Int64(1), 1.0, Decimal128("1"), Decimal128("1.00")),
        (0.5, Decimal128("0.5"), Decimal128("5E-1")),
        (1e30, Decimal128(Decimal(int(1e30)))),
        (float("nan"), Decimal128("NaN")),
        (float("-inf"), Decimal128("-Infinity")),
        ({"a": [1]}, {"a": [1.0]}, {"a": [Decimal128("1.0")]}),
    ],
)
def test_ids_that_the_server_takes_for_equal_have_one_key(equal: tuple[object, ...]):
    assert len({value_of(value, KEY) for value in equal}) == 1


@pytest.mark.parametrize(
    "different", [(1, "1"), (0.1, Decimal128("0.1")), (1, True), (2**53, 2**53 + 1), (None, "null")]
)
def test_other_ids_have_keys_of_their_own(different: tuple[object, ...]):
    assert len({value_of(value, KEY) for value in different}) == len(different)


@given(high=st.integers(0, 2**64 - 1), low=st.integers(0, 2**64 - 1))
@example(high=0x3040 << 48, low=0)
@example(high=0x7800 << 48, low=0)
@example(high=0xFC00 << 48, low=0)
@example(high=0xB03C << 48, low=1)
@example(high=0x1_ED09_BEAD_87C0, low=0x378D_8E63_FFFF_FFFF)
@example(high=0x1_ED09_BEAD_87C0, low=0x378D_8E64_0000_0000)
@example(high=0xB040 << 48 | 0x1_FFFF_FFFF_FFFF, low=5)
def test_decimals_are_written_as_the_driver_writes_them(high: int, low: int):
    decimal = Decimal128.from_bid(struct.pack("<QQ", low, high))

    assert value_of(decimal, STRICT) == f'{{"$numberDecimal": "{decimal}"}}'

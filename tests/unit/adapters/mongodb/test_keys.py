"""Keys read back as the values that they were made of, for every type that an `_id` may have."""

from __future__ import annotations

import datetime as dt
import math

import bson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from adapters.mongodb.extents import range_filter
from adapters.mongodb.keys import id_text, key_value

VALUES = [
    None,
    0,
    -7,
    Int64(2**62),
    2.5,
    -1e300,
    5e-324,
    math.inf,
    Decimal128("1.25E-400"),
    'a "quoted" word, \\ and 😀 \u0301 \x1b',
    "",
    '{"$oid": "not one"}',
    {},
    {"b": 1, "a": {"c": [1, "x", None]}},
    Binary(b"\x00\xff", 0),
    Binary(b"0123456789abcdef", 4),
    Binary(b"x", 0x80),
    ObjectId("596e275826f08b2730779e1f"),
    True,
    False,
    dt.datetime(2020, 1, 1, 12, 30, 0, 120_000, tzinfo=dt.UTC),
    DatetimeMS(-1),
    DatetimeMS(2**60),
    Timestamp(2**32 - 1, 7),
    Code("f()"),
    MinKey(),
    MaxKey(),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_key_reads_back_as_a_value_with_the_same_key(value: object):
    text = id_text(bson.encode({"_id": value}))
    again = id_text(bson.encode({"_id": key_value((text,))}))

    assert again == text


def test_nan_is_one_key():
    text = id_text(bson.encode({"_id": math.nan}))

    assert math.isnan(key_value((text,)))


def test_an_integer_s_key_is_its_digits():
    assert id_text(bson.encode({"x": 1, "_id": Int64(-42)})) == "-42"


def test_a_range_is_compared_across_types():
    assert range_filter(None, None) == {}
    assert range_filter(("5",), ('"a"',)) == {
        "$expr": {"$and": [{"$gt": ["$_id", {"$literal": 5}]}, {"$lte": ["$_id", {"$literal": "a"}]}]}
    }

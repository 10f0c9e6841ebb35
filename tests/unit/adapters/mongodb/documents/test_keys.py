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

from adapters.mongodb.documents.bson_walk import elements, fields
from adapters.mongodb.documents.keys import among, between, id_text, key_value
from tests.raw_ids import ODD, Raw, document, double, int32, invalid, nested

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


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_a_value_that_is_no_json_reads_back_as_itself(value: Raw):
    key = (id_text(bytes(document(value).raw)),)
    again = first_of_array(among([key])["_id"].raw)

    assert again == canonical(value)
    assert (id_text(bytes(document(again).raw)),) == key


def first_of_array(raw: bytes) -> Raw:
    """The value of `$in`'s only element."""
    (array,) = fields(raw).values()
    ((_name, kind, start, end),) = elements(raw, array.start)
    return kind, raw[start:end]


def canonical(value: Raw) -> Raw:
    """What the server takes for equal: a symbol is a string, and one NaN another."""
    kind, content = value
    if kind == 0x0E:
        return 0x02, content
    if kind in {0x01, 0x13}:
        return 0x01, b"\0\0\0\0\0\0\xf8\x7f"
    return kind, content


def test_values_that_are_no_json_have_keys_of_their_own():
    keys = {id_text(bytes(document(value).raw)) for value in ODD.values()}

    assert len(keys) == len(ODD) - 1  # one NaN is another


@pytest.mark.parametrize("number", [-(2**63), -(2**62), 0, 2**62])
def test_a_whole_number_is_one_key_in_every_type(number: int):
    kinds = (Int64(number), float(number), Decimal128(str(number)))

    assert {id_text(bson.encode({"_id": written})) for written in kinds} == {str(number)}


@pytest.mark.parametrize("number", [double(1.0), int32(1)])
def test_equal_numbers_within_such_values_are_one_key(number: Raw):
    odd = (0x03, nested((b"a", invalid(b"\xff")), (b"b", number)))
    same = (0x03, nested((b"a", invalid(b"\xff")), (b"b", int32(1))))

    assert id_text(bytes(document(odd).raw)) == id_text(bytes(document(same).raw))


def test_bounds_that_are_no_json_go_to_the_server_as_their_bytes():
    key = (id_text(bytes(document(invalid(b"\xff")).raw)),)

    assert between(None, key)["max"].raw == nested((b"_id", invalid(b"\xff")))


def test_nan_is_one_key():
    text = id_text(bson.encode({"_id": math.nan}))

    assert math.isnan(key_value((text,)))


def test_an_integer_s_key_is_its_digits():
    assert id_text(bson.encode({"x": 1, "_id": Int64(-42)})) == "-42"


def test_a_range_is_one_of_the_index():
    assert between(None, None) == {"hint": {"_id": 1}}
    assert "filter" not in between(None, ("5",))
    found = between(("5",), ('"a"',))
    assert {name: bson.decode(found[name].raw) for name in ("min", "max")} == {
        "min": {"_id": 5},
        "max": {"_id": "a"},
    }

"""What each type becomes under each setting; the recorded cases show the rest."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from adapters.postgres.events.columns.builtin_types import BUILTIN
from adapters.postgres.events.columns.source_types import source_parameters
from adapters.postgres.events.types import conversion
from adapters.postgres.server.table import PgType
from engine.events.settings import (
    BinaryMode,
    DecimalMode,
    EventSettings,
    HstoreMode,
    IntervalMode,
    TimeMode,
)
from engine.events.values.text import join

DEFAULT = EventSettings("p", "d")
OTHER = EventSettings(
    "p",
    "d",
    decimals=DecimalMode.STRING,
    binary=BinaryMode.HEX,
    times=TimeMode.CONNECT,
    intervals=IntervalMode.STRING,
    hstore=HstoreMode.MAP,
)
NAMED = {kind.name: kind for kind in BUILTIN.values()}
NUMERIC_12_2 = (12 << 16 | 2) + 4


def shown(kind: PgType, text: str, typmod: int = -1, settings: EventSettings = DEFAULT) -> tuple[str, str]:
    """The schema's type and name, and the JSON of one value."""
    made = conversion(kind, typmod, {}, settings)
    assert made is not None
    value = made.encode(pa.array([text], pa.large_string()))
    json = join(['"', value, '"'] if made.quoted else [value], 1)[0].as_py()
    return f"{made.schema.type} {made.schema.name or ''}".strip(), json


@pytest.mark.parametrize(
    ("name", "text", "default", "other"),
    [
        ("int2", "-5", ("int16", "-5"), None),
        ("int8", "9223372036854775807", ("int64", "9223372036854775807"), None),
        ("oid", "4294967295", ("int64", "4294967295"), None),
        ("bool", "t", ("boolean", "true"), None),
        ("float4", "1.5", ("float", "1.5"), None),
        ("float8", "1e+20", ("double", "1.0E20"), None),
        ("bpchar", "a  ", ("string", '"a  "'), None),
        ("name", "n", ("string", '"n"'), None),
        ("inet", "::1/64", ("string", '"::1/64"'), None),
        ("json", '{"a":1}', ("string io.debezium.data.Json", '"{\\"a\\":1}"'), None),
        ("xml", "<a/>", ("string io.debezium.data.Xml", '"<a/>"'), None),
        ("int4range", "[1,3)", ("string", '"[1,3)"'), None),
        ("bytea", "\\xff", ("bytes", '"/w=="'), ("string", '"ff"')),
        (
            "date",
            "1970-01-02",
            ("int32 io.debezium.time.Date", "1"),
            ("int32 org.apache.kafka.connect.data.Date", "1"),
        ),
        (
            "time",
            "00:00:01.5",
            ("int64 io.debezium.time.MicroTime", "1500000"),
            ("int32 org.apache.kafka.connect.data.Time", "1500"),
        ),
        (
            "timestamp",
            "1970-01-01 00:00:01.5",
            ("int64 io.debezium.time.MicroTimestamp", "1500000"),
            ("int64 org.apache.kafka.connect.data.Timestamp", "1500"),
        ),
        (
            "interval",
            "1 day",
            ("int64 io.debezium.time.MicroDuration", "86400000000"),
            ("string io.debezium.time.Interval", '"P0Y0M1DT0H0M0S"'),
        ),
        (
            "money",
            "-$1,234.50",
            ("bytes org.apache.kafka.connect.data.Decimal", '"/h3G"'),
            ("string", '"-1234.50"'),
        ),
        (
            "numeric",
            "1.50",
            ("struct io.debezium.data.VariableScaleDecimal", '{"scale":1,"value":"Dw=="}'),
            ("string", '"1.50"'),
        ),
    ],
)
def test_types_by_name(name, text, default, other):
    assert shown(NAMED[name], text) == default
    assert shown(NAMED[name], text, settings=OTHER) == (other or default)


@pytest.mark.parametrize(
    ("name", "typmod", "text", "expected"),
    [
        ("numeric", NUMERIC_12_2, "1.50", ("bytes org.apache.kafka.connect.data.Decimal", '"AJY="')),
        ("time", 3, "00:00:01.5", ("int32 io.debezium.time.Time", "1500")),
        ("timestamp", 0, "1970-01-01 00:00:01", ("int64 io.debezium.time.Timestamp", "1000")),
        (
            "timestamptz",
            3,
            "1970-01-01 00:00:01.5+00",
            ("string io.debezium.time.ZonedTimestamp", '"1970-01-01T00:00:01.500Z"'),
        ),
        ("bit", 1, "1", ("boolean", "true")),
        ("bit", 8, "10000001", ("bytes io.debezium.data.Bits", '"gQ=="')),
        ("varbit", 1, "1", ("boolean", "true")),
        ("varbit", -1, "1", ("bytes io.debezium.data.Bits", '"AQ=="')),
        ("_time", 3, "{00:00:01}", ("array", "[1000000]")),
    ],
)
def test_types_by_precision(name, typmod, text, expected):
    assert shown(NAMED[name], text, typmod) == expected


def test_unknown_types_are_left_out_unless_asked_for():
    strange = PgType(99, "strange", "public")
    asked = replace(DEFAULT, include_unknown_types=True)

    assert conversion(strange, -1, {}, DEFAULT) is None
    assert conversion(NAMED["_bytea"], -1, {}, asked) is None
    assert shown(strange, "é", settings=asked) == ("bytes", '"w6k="')
    assert shown(strange, "é", settings=replace(asked, binary=BinaryMode.HEX)) == ("string", '"c3a9"')


@pytest.mark.parametrize("name", ["_text", "_uuid", "_bit", "_tsvector", "_pg_lsn", "_box"])
def test_items_of_every_array_may_be_null(name):
    made = conversion(NAMED[name], -1, {}, replace(DEFAULT, include_unknown_types=True))

    assert made is not None
    assert made.schema.items is not None
    assert made.schema.items.optional


@pytest.mark.parametrize("name", ["_name", "_bytea", "_interval", "_money", "_xml", "_point", "_varbit"])
def test_some_arrays_are_always_left_out(name):
    assert conversion(NAMED[name], -1, {}, replace(DEFAULT, include_unknown_types=True)) is None


@pytest.mark.parametrize(
    ("name", "typmod", "filler", "other"),
    [
        ("numeric", NUMERIC_12_2, '"AA=="', '"0.00"'),
        ("numeric", -1, '{"scale":0,"value":"AA=="}', '"0"'),
        ("money", -1, '"AA=="', '"0.00"'),
        ("timestamptz", 3, '"1970-01-01T00:00:00Z"', '"1970-01-01T00:00:00Z"'),
        ("timetz", -1, '"00:00:00Z"', '"00:00:00Z"'),
        ("interval", -1, "0", '"P0Y0M0DT0H0M0S"'),
        ("bytea", -1, '""', '""'),
        ("bit", 1, "false", "false"),
        ("_int4", -1, "[]", "[]"),
    ],
)
def test_what_stands_for_an_unknown_value_has_its_types_form(name, typmod, filler, other):
    fillers = [conversion(NAMED[name], typmod, {}, settings) for settings in (DEFAULT, OTHER)]

    assert [made.filler for made in fillers if made] == [filler, other]


def test_an_unknown_geometry_is_an_empty_collection():
    made = conversion(PgType(99, "geometry", "public"), -1, {}, DEFAULT)

    assert made is not None
    assert made.filler == '{"wkb":"AQcAAAAAAAAA","srid":null}'


@pytest.mark.parametrize(
    ("name", "placeholder", "other"),
    [
        ("text", '"gone"', '"gone"'),
        ("jsonb", '"gone"', '"gone"'),
        ("bytea", '"Z29uZQ=="', None),
        ("tsvector", '"Z29uZQ=="', None),
        ("numeric", None, '"gone"'),
        ("_text", '["gone"]', '["gone"]'),
        ("_jsonb", '["gone"]', '["gone"]'),
        ("_int8", "[103,111,110,101]", "[103,111,110,101]"),
        ("_uuid", None, None),
    ],
)
def test_what_stands_for_a_value_that_the_log_left_out(name, placeholder, other):
    asked = [
        replace(settings, include_unknown_types=True, unavailable_value=b"gone")
        for settings in (DEFAULT, OTHER)
    ]
    made = [conversion(NAMED[name], -1, {}, settings) for settings in asked]

    assert [change.placeholder for change in made if change] == [placeholder, other]


@pytest.mark.parametrize(
    ("octets", "text", "binary", "letters"),
    [
        ("aabb", "\ufffd\ufffd", "qrs=", "[-86,-69]"),
        ("e282c0f09f98", "\ufffd\ufffd\ufffd", "4oLA8J+Y", "[-30,-126,-64,-16,-97,-104]"),
        ("eda0803e", "\ufffd>", "7aCAPg==", "[-19,-96,-128,62]"),
        ("", "", "", "[]"),
    ],
)
def test_a_placeholder_of_any_bytes_is_what_2_1_4_made_of_it(octets, text, binary, letters):
    settings = replace(DEFAULT, unavailable_value=bytes.fromhex(octets))

    made = {name: conversion(NAMED[name], -1, {}, settings) for name in ("text", "_text", "bytea", "_int4")}
    assert {name: made_kind.placeholder for name, made_kind in made.items() if made_kind} == {
        "text": f'"{text}"',
        "_text": f'["{text}"]',
        "bytea": f'"{binary}"',
        "_int4": letters,
    }


def test_a_domain_is_its_base_type_with_its_own_precision():
    outer = PgType(101, "outer", kind="d", base=100)
    types = {100: PgType(100, "inner", kind="d", base=1700, base_typmod=NUMERIC_12_2), 101: outer}

    made = conversion(outer, -1, types, DEFAULT)
    assert made is not None
    assert made.schema.parameters == (("scale", "2"), ("connect.decimal.precision", "12"))


def test_an_enumeration_names_its_labels():
    mood = PgType(100, "mood", "public", "e", "E", labels=("sad", "a,b"))
    made = conversion(mood, -1, {}, DEFAULT)

    assert made is not None
    assert made.schema.parameters == (("allowed", "sad,a,b"),)
    array = conversion(PgType(101, "_mood", "public", category="A", element=100), -1, {100: mood}, DEFAULT)
    assert array is not None
    assert array.encode(pa.array(['{sad,NULL,"a,b"}'], pa.large_string())).to_pylist() == [
        '["sad",null,"a,b"]'
    ]


@pytest.mark.parametrize(
    ("name", "typmod", "length", "scale"),
    [
        ("int2", -1, 5, 0),
        ("float8", -1, 17, 17),
        ("numeric", NUMERIC_12_2, 12, 2),
        ("numeric", -1, 0, 0),
        ("varchar", 9, 5, 0),
        ("varchar", -1, 2**31 - 1, 0),
        ("timestamp", 3, 26, 3),
        ("timestamptz", -1, 35, 6),
        ("time", 0, 8, 0),
        ("bit", 4, 4, 0),
        ("_int4", -1, 10, 0),
        ("text", -1, 2**31 - 1, 0),
    ],
)
def test_propagated_types_are_counted_as_the_jdbc_driver_does(name, typmod, length, scale):
    assert dict(source_parameters(NAMED[name], typmod, {})) == {
        "__debezium.source.column.type": name.upper(),
        "__debezium.source.column.length": str(length),
        "__debezium.source.column.scale": str(scale),
    }

"""Defaults of schemas from expressions."""

from __future__ import annotations

import pytest

from adapters.postgres.defaults import default_json

NUMERIC_10_2 = (10 << 16 | 2) + 4


@pytest.mark.parametrize(
    ("type_name", "expression", "expected"),
    [
        ("int4", "5", "5"),
        ("int4", "'-5'::integer", "-5"),
        ("int8", "'-1'::bigint", "-1"),
        ("int8", "(-1)", "-1"),
        ("int4", "nextval('t_id_seq'::regclass)", "0"),
        ("int4", 'nextval(\'"S"."t seq"\'::regclass)', "0"),
        ("int4", "(1 + 1)", None),
        ("text", "'te''xt'::text", "te'xt"),
        ("text", "CURRENT_USER", None),
        ("text", "lower('A'::text)", ""),
        ("text", "('a'::text || 'b'::text)", None),
        ("varchar", "''::character varying", ""),
        ("bpchar", "'ab   '::bpchar", "ab"),
        ("bool", "true", "t"),
        ("bool", "is_it()", "f"),
        ("numeric", "1.5", "1.50"),
        ("float8", "'1e+20'::double precision", "1e+20"),
        ("timestamptz", "now()", "1970-01-01 00:00:00+00"),
        ("timestamptz", "CURRENT_TIMESTAMP", None),
        ("uuid", "gen_random_uuid()", "00000000-0000-0000-0000-000000000000"),
        ("bit", "'101'::\"bit\"", "101"),
        ("bit", "B'101'::\"bit\"", "101"),
        ("enum", "'ok'::mood", "ok"),
        ("int4", "NULL::integer", None),
        ("money", "9.99", None),
        ("_int4", "'{1,2}'::integer[]", None),
    ],
)
def test_defaults(type_name, expression, expected):
    assert default_json(type_name, expression, NUMERIC_10_2) == expected


def test_an_unconstrained_number_keeps_its_digits():
    assert default_json("numeric", "3.14", -1) == "3.14"

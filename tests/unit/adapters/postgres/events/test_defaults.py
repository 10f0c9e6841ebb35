"""Defaults of schemas from expressions."""

from __future__ import annotations

import pytest

from adapters.postgres.events.defaults import default_text
from adapters.postgres.server.table import PgType

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
        ("int4", "1.5", None),
        ("int2", "3.0", None),
        ("int8", "'1000'::numeric", "1000"),
        ("text", "'te''xt'::text", "te'xt"),
        ("text", "CURRENT_USER", None),
        ("text", "lower('A'::text)", ""),
        ("text", "('a'::text || 'b'::text)", None),
        ("varchar", "''::character varying", ""),
        ("bpchar", "'ab   '::bpchar", "ab   "),
        ("bool", "true", "t"),
        ("bool", "is_it()", "f"),
        ("numeric", "1.5", "1.50"),
        ("float8", "'1e+20'::double precision", "1e+20"),
        ("timestamptz", "now()", "1970-01-01 00:00:00+00"),
        ("timestamptz", "CURRENT_TIMESTAMP", "1970-01-01 00:00:00+00"),
        ("timestamptz", "CURRENT_TIMESTAMP(3)", "1970-01-01 00:00:00+00"),
        ("date", "CURRENT_DATE", "1970-01-01"),
        ("time", "LOCALTIME", "00:00:00"),
        ("uuid", "gen_random_uuid()", "00000000-0000-0000-0000-000000000000"),
        ("bit", "'101'::\"bit\"", "101"),
        ("bit", "B'101'::\"bit\"", "101"),
        ("bit", "gen_bit()", "0"),
        ("varbit", "gen_bit()", "0"),
        ("text", "E'C:\\\\dir'::text", "C:\\dir"),
        ("date", "('2020-01-01'::date + 1)", None),
        ("varchar", "('a'::text)::character varying(10)", "a"),
        ("time", "'10:00:00'::time without time zone", "10:00:00"),
        ("timestamptz", "'2020-01-01 00:00:00+00'::timestamp(3) with time zone", "2020-01-01 00:00:00+00"),
        ("int4", "NULL::integer", None),
        ("money", "9.99", None),
        ("_int4", "'{1,2}'::integer[]", None),
    ],
)
def test_defaults(type_name, expression, expected):
    assert default_text(PgType(0, type_name), expression, NUMERIC_10_2) == expected


def test_an_unconstrained_number_keeps_its_digits():
    assert default_text(PgType(0, "numeric"), "3.14", -1) == "3.14"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("'ok'::mood", "ok"), ("'it''s'::mood", "it's"), ("'ok'::other.mood", None), ("'ok'::\"mood\"", None)],
)
def test_an_enumerations_default_names_the_type_plainly(expression, expected):
    assert default_text(PgType(0, "mood", kind="e"), expression, -1) == expected

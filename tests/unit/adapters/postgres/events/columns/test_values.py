"""Values that are read one by one."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.postgres.events.columns import values
from engine.events.values import times

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@given(st.dictionaries(TEXT, st.none() | TEXT, max_size=30))
def test_hstore_comes_back(pairs):
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = ", ".join(f"{quoted(k)}=>{'NULL' if v is None else quoted(v)}" for k, v in pairs.items())

    assert json.loads(values.hstore_json(text)) == pairs


def test_hstore_as_text_is_escaped_once_and_as_a_map_like_any_string():
    assert values.hstore_json('"😀"=>"a"') == '{"😀":"a"}'
    assert values.hstore_map('"😀"=>"a"') == r'{"\uD83D\uDE00":"a"}'


def test_hstore_has_the_order_of_javas_hash_map():
    assert values.hstore_json('"a"=>"1", "n"=>NULL, "b c"=>"x"') == '{"a":"1","b c":"x","n":null}'


@pytest.mark.parametrize(
    ("text", "micros", "iso"),
    [
        ("1 mon", 2629800000000, "P0Y1M0DT0H0M0S"),
        ("-1 days +02:00:00", -79200000000, "P0Y0M-1DT2H0M0S"),
        ("1 year 2 mons 3 days 04:05:06.789012", 37091106789012, "P1Y2M3DT4H5M6.789012S"),
        ("-1 years -2 mons +3 days -04:05:06.5", -36572706500000, "P-1Y-2M3DT-4H-5M-6.5S"),
        ("00:00:00", 0, "P0Y0M0DT0H0M0S"),
        ("178000000 years", 2**63 - 1, "P178000000Y0M0DT0H0M0S"),
        ("infinity", 2**63 - 1, "infinity"),
    ],
)
def test_intervals(text, micros, iso):
    assert values.interval_micros(text) == str(micros)
    assert values.interval_iso(text) == iso


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1", "AQ=="), ("10000001", "gQ=="), ("00000000", ""), ("", ""), ("10000000000000000001", "AQAI")],
)
def test_bits_are_little_endian_without_zeros_at_the_end(text, shown):
    assert values.bits(text) == shown


@pytest.mark.parametrize(
    ("text", "number"),
    [("$12.34", "12.34"), ("-$92,233.08", "-92233.08"), ("($1.50)", "-1.50"), ("$0.00", "0.00")],
)
def test_money(text, number):
    assert values.money(text) == number


def test_points_and_geometries():
    assert json.loads(values.point("(1.5,-2)")) == {
        "x": 1.5,
        "y": -2.0,
        "wkb": "AQEAAAAAAAAAAAD4PwAAAAAAAADA",
        "srid": None,
    }
    plain, with_srid = (
        json.loads(values.geometry(text))
        for text in (
            "0101000000000000000000F03F0000000000000040",
            "0101000020E6100000000000000000F03F0000000000000040",
        )
    )
    assert (plain["srid"], with_srid["srid"]) == (None, 4326)
    assert values.java_numbers("[(0,0),(1e+20,-1.5)]") == "[(0.0,0.0),(1.0E20,-1.5)]"


CLOCK = st.times().map(str)
INTERVALS = st.builds(
    lambda years, months, days, sign, clock: f"{years} years {months} mons {days} days {sign}{clock}",
    st.integers(-178_000_000, 178_000_000),
    st.integers(-11, 11),
    st.integers(-(2**31), 2**31 - 1) | st.integers(-40, 40).map("{:+}".format),
    st.sampled_from(("", "-", "+")),
    CLOCK,
)
FLOATS = st.floats(allow_nan=True).map(
    lambda number: repr(number).replace("inf", "Infinity").replace("nan", "NaN")
)
ZONES = st.sampled_from(("+00", "-05", "+05:30", "-00:30", "+15:59", "+01:02:03"))


@pytest.mark.parametrize(
    ("column", "one", "texts"),
    [
        (values.intervals_micros, values.interval_micros, INTERVALS | st.sampled_from(("infinity", "1 day"))),
        (values.points, values.point, st.builds("({},{})".format, FLOATS, FLOATS)),
        (values.moneys, values.money, st.sampled_from(("$1,234.50", "-$0.01", "($5.00)", "$92"))),
        (times.utc_clock, times._utc_clock, st.builds("{}{}".format, CLOCK | st.just("24:00:00"), ZONES)),
    ],
    ids=("interval", "point", "money", "timetz"),
)
def test_a_column_is_read_as_its_values_are_one_by_one(column, one, texts):
    @given(st.lists(st.none() | texts, max_size=6))
    def same(found):
        shown = column(pa.array(found, pa.large_string())).to_pylist()

        assert shown == [None if text is None else one(text) for text in found]

    same()

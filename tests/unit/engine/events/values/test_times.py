"""Dates and times, common and odd."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values import times

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 columns without zone
MICROSECOND = dt.timedelta(microseconds=1)


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


def iso(stamp: dt.datetime) -> str:
    text = stamp.isoformat(" ")
    return text.rstrip("0") if "." in text else text


@given(st.lists(st.none() | st.datetimes()))
def test_timestamps_count_from_the_epoch(stamps):
    texts = large(*(None if stamp is None else iso(stamp) for stamp in stamps))
    micros = [None if stamp is None else (stamp - EPOCH) // MICROSECOND for stamp in stamps]

    assert times.micros(texts).to_pylist() == [None if micro is None else str(micro) for micro in micros]
    assert times.millis(texts).to_pylist() == [
        None if micro is None else str(micro // 1000) for micro in micros
    ]


@given(st.lists(st.none() | st.dates()))
def test_dates_count_from_the_epoch(dates):
    texts = large(*(None if date is None else date.isoformat() for date in dates))

    expected = [None if date is None else str((date - EPOCH.date()).days) for date in dates]
    assert times.days(texts).to_pylist() == expected


@given(st.lists(st.none() | st.datetimes()), st.sampled_from([0, 1, 3, 6]))
def test_zoned_timestamps_have_the_columns_precision(stamps, fraction):
    cut = [
        None
        if s is None
        else s.replace(microsecond=s.microsecond // 10 ** (6 - fraction) * 10 ** (6 - fraction))
        for s in stamps
    ]
    texts = large(*(None if stamp is None else iso(stamp) + "+00" for stamp in cut))
    expected = [
        None
        if s is None
        else f"{s:%Y}".rjust(4, "0") + f"{s:-%m-%dT%H:%M:%S.%f}"[: 16 + fraction if fraction else 15] + "Z"
        for s in cut
    ]

    assert times.utc_stamps(texts, fraction).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("infinity", 9223372036825200000),
        ("-infinity", -9223372036832400000),
        ("0001-01-01 00:00:00", -62135596800000000),
        ("0001-12-31 23:59:59 BC", -62135596801000000),
        ("10000-01-01 00:00:00.5", 253402300800500000),
        ("294276-12-31 23:59:59.999999", 2**63 - 1),
    ],
)
def test_odd_timestamps(text, micros):
    assert times.micros(large(text, "1970-01-01 00:00:01", None)).to_pylist() == [
        str(micros),
        "1000000",
        None,
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("infinity", "infinity"),
        ("-infinity", "-infinity"),
        ("2023-03-15 12:34:56.5-11:30", "2023-03-16T00:04:56.500000Z"),
        ("1883-11-18 12:00:00+00:53:28", "1883-11-18T11:06:32.000000Z"),
        ("12023-01-01 00:00:00+00", "+12023-01-01T00:00:00.000000Z"),
        ("0001-01-01 00:00:00+00", "0001-01-01T00:00:00.000000Z"),
        ("0044-03-15 00:00:00+00 BC", "-0043-03-15T00:00:00.000000Z"),
    ],
)
def test_odd_zoned_timestamps(text, shown):
    both = times.utc_stamps(large(text, None, "2023-01-01 00:00:00+00"), 6)

    assert both.to_pylist() == [shown, None, "2023-01-01T00:00:00.000000Z"]


def test_clocks_reach_24_hours():
    texts = large("24:00:00", "23:59:59.999999", None, "00:00:00.000001")

    assert times.clock_micros(texts).to_pylist() == ["86400000000", "86399999999", None, "1"]
    assert times.clock_millis(texts).to_pylist() == ["86400000", "86399999", None, "0"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("12:34:56.789012+02", "10:34:56.789012Z"),
        ("12:34:56.7-05", "17:34:56.7Z"),
        ("24:00:00+00", "00:00:00Z"),
        ("23:59:59.999999-11:30", "11:29:59.999999Z"),
        ("01:02:03+05:45:10", "19:16:53Z"),
    ],
)
def test_zoned_clocks_move_to_utc(text, shown):
    assert times.utc_clock(large(text)).to_pylist() == [shown]


@given(st.integers(-2_500_000, 110_000_000))
def test_the_calendar_goes_both_ways(day):
    year, month, date = times.civil_date(day)

    assert times.civil_days(year, month, date) == day
    assert 1 <= month <= 12

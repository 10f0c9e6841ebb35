"""Dates and times of a fixed width, as numbers and as Java's text."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events.values import stamps

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 columns without zone
MICROSECOND = dt.timedelta(microseconds=1)
MOST = 2**63 - 1


def large(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.large_string())


@given(st.lists(st.none() | st.datetimes()), st.integers(0, 6))
def test_timestamps_count_from_the_epoch_at_any_width(moments, width):
    texts = large(*(None if moment is None else shown(moment, width) for moment in moments))

    found = stamps.stamps(texts, 6).to_pylist()

    unit = 10 ** (6 - width)
    micros = [
        None if moment is None else (moment - EPOCH) // MICROSECOND // unit * unit for moment in moments
    ]
    assert found == [None if micro is None else str(micro) for micro in micros]


def shown(moment: dt.datetime, width: int) -> str:
    fraction = f".{moment.microsecond:06}"[: width + 1] if width else ""
    return f"{moment.year:04}-{moment:%m-%d %H:%M:%S}{fraction}"


@given(st.lists(st.none() | st.dates()))
def test_dates_count_from_the_epoch(dates):
    texts = large(*(None if date is None else date.isoformat() for date in dates))

    expected = [None if date is None else str((date - EPOCH.date()).days) for date in dates]
    assert stamps.days(texts).to_pylist() == expected


@given(st.lists(st.none() | st.times()), st.integers(0, 9))
def test_times_of_day_count_from_midnight(clocks, kept):
    texts = large(
        *(None if clock is None else f"{clock:%H:%M:%S}.{clock.microsecond:06}7" for clock in clocks)
    )

    def units(one: dt.time) -> int:
        seconds = (one.hour * 60 + one.minute) * 60 + one.second
        return (seconds * 10**9 + one.microsecond * 1000 + 700) // int(10 ** (9 - kept))

    expected = [None if clock is None else str(units(clock)) for clock in clocks]
    assert stamps.clocks(texts, kept).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01 00:00:00.0000001", 100),
        ("1969-12-31 23:59:59.9999999", -100),
        ("2262-04-11 23:47:16.8547758", MOST - 7),
        ("2262-04-11 23:47:16.8547759", MOST),
        ("2262-04-11 23:47:17.0000000", MOST),
        ("9999-12-31 23:59:59.9999999", MOST),
        ("1677-09-21 00:12:44.0000000", -MOST + 854775807),
        ("1677-09-21 00:12:43.1452242", -MOST + 7),
        ("1677-09-21 00:12:43.1452241", -MOST - 1),
        ("0001-01-01 00:00:00.0000000", -MOST - 1),
    ],
)
def test_nanoseconds_stop_at_what_64_bits_hold(text, nanos):
    assert stamps.stamps(large(text), 9).to_pylist() == [str(nanos)]


def test_widths_may_differ_from_row_to_row_and_a_part_of_an_array_is_read_as_the_whole():
    texts = large("1970-01-01 00:00:01", None, "1970-01-01 00:00:01.5", "1970-01-01 00:00:02.123")

    assert stamps.stamps(texts, 3).to_pylist() == ["1000", None, "1500", "2123"]
    assert stamps.stamps(texts.slice(2), 3).to_pylist() == ["1500", "2123"]


@given(st.lists(st.tuples(st.datetimes(), st.integers(-14 * 60, 14 * 60)), min_size=1))
def test_a_zone_behind_the_value_is_minded(moments):
    texts = large(*(f"{shown(moment, 3)} {zone(minutes)}" for moment, minutes in moments))

    found = stamps.stamp_values(texts, 3).tolist()

    assert found == [
        (moment - EPOCH) // dt.timedelta(milliseconds=1) - minutes * 60_000 for moment, minutes in moments
    ]


def zone(minutes: int) -> str:
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}:{rest:02}"


@pytest.mark.parametrize(
    ("text", "java"),
    [
        ("2018-07-13 12:23:45.4560000 +11:00", "2018-07-13T12:23:45.456+11:00"),
        ("2018-07-13 12:23:45.0000000 -03:30", "2018-07-13T12:23:45-03:30"),
        ("2018-07-13 12:23:45 +00:00", "2018-07-13T12:23:45Z"),
        ("0001-01-01 00:00:00.0000001 +00:00", "0001-01-01T00:00:00.0000001Z"),
    ],
)
def test_timestamps_with_a_zone_are_written_as_java_writes_them(text, java):
    assert stamps.offset_stamps(large(text, None)).to_pylist() == [java, None]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (stamps.days, "2018/07/13"),
        (stamps.days, "2018-07-1x"),
        (lambda texts: stamps.stamps(texts, 3), "2018-07-13T12:23:45"),
        (lambda texts: stamps.stamps(texts, 3), "2018-07-13 12:23:45,5"),
        (lambda texts: stamps.stamps(texts, 3), "2018-07-13 12:23:45."),
        (lambda texts: stamps.clocks(texts, 3), "12.23.45"),
    ],
)
def test_texts_of_another_form_are_refused(read, text):
    with pytest.raises(ValueError, match=r"a digit|not "):
        read(large(text))

"""Dates and times: a database's ISO text to numbers since the epoch, or to Java's ISO text.

Common values (years 1 to 9999) go through Arrow casts. BC, later years, infinities and 24:00 take a slow
path. The calendar is proleptic Gregorian throughout, also before 1582.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.text import (
    Text,
    digits,
    fill,
    join,
    mostly,
    replace_rows,
    rows_of,
    text_from,
    text_parts,
)

DAY_US = 86_400_000_000
INFINITY_US = 9_223_372_036_825_200_000
MINUS_INFINITY_US = -9_223_372_036_832_400_000
"""Java's `Timestamp` values for PostgreSQL's infinities, in microseconds."""
INFINITY_DAYS = -2_147_472_692
MINUS_INFINITY_DAYS = -2_147_472_691
"""Their dates as days, truncated to 32 bits."""

_MOST = 2**63 - 1
_LONGEST = 26
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?$"
_ZONED = "^" + _CLOCK.removesuffix("$") + "[+-][0-9]{2}$"
_WHOLE_HOURS = re.compile("[+-][0-9]{2}")
_STAMP = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} " + _CLOCK
_ANY = re.compile(
    r"(?P<year>\d{4,})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?: (?P<clock>[\d:.]+)(?P<zone>[+-][\d:]+)?)?(?P<bc> BC)?",
)


def days(texts: Text) -> Text:
    """ISO dates as days since 1970-01-01."""
    return mostly(texts, _days_fast, _DATE, _days_slow, _LONGEST)


def micros(texts: Text) -> Text:
    """ISO timestamps without zone as microseconds since the epoch, at most the greatest 64-bit number."""
    return mostly(texts, partial(_stamp_fast, divisor=1), _STAMP, partial(_stamp_slow, divisor=1), _LONGEST)


def millis(texts: Text) -> Text:
    """ISO timestamps without zone as milliseconds since the epoch, rounded down."""
    return mostly(
        texts, partial(_stamp_fast, divisor=1000), _STAMP, partial(_stamp_slow, divisor=1000), _LONGEST
    )


def clock_micros(texts: Text) -> Text:
    """Times of day as microseconds since midnight. 24:00 is a whole day."""
    return mostly(
        texts, partial(_clock_fast, divisor=1), "^" + _CLOCK, partial(_clock_slow, divisor=1), _LONGEST
    )


def clock_millis(texts: Text) -> Text:
    """Times of day as milliseconds since midnight, rounded down."""
    return mostly(
        texts, partial(_clock_fast, divisor=1000), "^" + _CLOCK, partial(_clock_slow, divisor=1000), _LONGEST
    )


def utc_clock(texts: Text) -> Text:
    """Times with a zone, converted to UTC, as Java's `OffsetTime` writes them."""
    return mostly(texts, _utc_clock_fast, _ZONED, _utc_clock, _LONGEST)


def _utc_clock_fast(texts: Text) -> Text:
    given = fill(texts, "00:00:00+00")
    zones = pc.utf8_slice_codeunits(given, -len("+00")).dictionary_encode()
    if not all(_WHOLE_HOURS.fullmatch(zone) for zone in zones.dictionary.to_pylist()):
        raise pa.ArrowInvalid("a zone that is rare")
    clocks = pc.cast(_clock_fast(pc.utf8_slice_codeunits(given, 0, -len("+00")), 1), pa.int64()).to_numpy()
    seconds = np.array([zone_seconds(zone) for zone in zones.dictionary.to_pylist()], np.int64)
    moved = (clocks - seconds[zones.indices.to_numpy()] * 1_000_000) % DAY_US
    stamps = pa.array(moved, mask=pc.is_null(texts).to_numpy(zero_copy_only=False)).cast(pa.timestamp("us"))
    shown = pc.utf8_slice_codeunits(stamps.cast(pa.large_string()), len("1970-01-01 "))
    return join([pc.utf8_rtrim(pc.utf8_rtrim(shown, "0"), "."), "Z"], len(texts))


def utc_stamps(texts: Text, fraction: int) -> Text:
    """Timestamps with a zone as Java writes them in UTC, with exactly `fraction` digits.

    Text in UTC (`…+00`) with a four-digit year is rearranged in bulk, in one pass per length. All other text
    takes the slow path.
    """
    offsets, data = text_parts(texts)
    lengths = np.diff(offsets)
    width = 20 + (fraction + 1 if fraction else 0)
    out = np.full((len(texts), width), ord("0"), np.uint8)
    out[:, -1] = ord("Z")
    done = lengths == 0 if texts.null_count else np.zeros(len(texts), bool)
    for length in np.unique(lengths):
        digits_given = int(length) - 23
        if length == 22 or 0 < digits_given <= fraction:
            rows = np.flatnonzero(lengths == length)
            raw = rows_of(data, offsets, rows, int(length))
            good = _is_utc(raw)
            done[rows[good]] = True
            _arrange(out, rows, raw, fraction)
    sizes = np.where(lengths == 0, 0, width)
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    common = text_from(starts, out if (lengths > 0).all() else out[lengths > 0], texts)
    rows = np.flatnonzero(~done)
    odd = texts.take(pa.array(rows)).to_pylist() if len(rows) else []
    return replace_rows(
        common, rows, [_utc_stamp(text, fraction) if text is not None else None for text in odd]
    )


def _is_utc(raw: np.ndarray) -> np.ndarray:
    good = (raw[:, 4] == ord("-")) & (raw[:, 7] == ord("-")) & (raw[:, 10] == ord(" "))
    good &= (raw[:, -3] == ord("+")) & (raw[:, -2] == ord("0")) & (raw[:, -1] == ord("0"))
    if raw.shape[1] > 22:
        good &= raw[:, 19] == ord(".")
    result: np.ndarray = good
    return result


def _arrange(out: np.ndarray, rows: np.ndarray, raw: np.ndarray, fraction: int) -> None:
    ready = out[rows] if len(rows) < len(out) else out
    ready[:, :19] = raw[:, :19]
    ready[:, 10] = ord("T")
    if fraction:
        ready[:, 19] = ord(".")
        given = raw.shape[1] - 23
        if given > 0:
            ready[:, 20 : 20 + given] = raw[:, 20:-3]
    if ready is not out:
        out[rows] = ready


def _days_fast(texts: Text) -> Text:
    return digits(pc.cast(pc.cast(texts, pa.date32()), pa.int32()))


def _stamp_fast(texts: Text, divisor: int) -> Text:
    stamps = pc.cast(pc.cast(texts, pa.timestamp("us")), pa.int64())
    return digits(_floored(stamps, divisor))


def _clock_fast(texts: Text, divisor: int) -> Text:
    return _stamp_fast(join(["1970-01-01 ", texts], len(texts)), divisor)


def _floored(numbers: pa.Array, divisor: int) -> pa.Array:
    if divisor == 1:
        return numbers
    return pa.array(
        numbers.fill_null(0).to_numpy() // divisor, mask=pc.is_null(numbers).to_numpy(zero_copy_only=False)
    )


def civil_days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a proleptic Gregorian date, for any year (0 is 1 BC)."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_date(day: int) -> tuple[int, int, int]:
    """The date this many days after 1970-01-01."""
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    number = month + 3 if month < 10 else month - 9
    return era * 400 + year + (number <= 2), number, of_year - (153 * month + 2) // 5 + 1


def _parsed(text: str) -> tuple[int, int, int]:
    """Days, microseconds of the day, and the zone's seconds."""
    match = _ANY.fullmatch(text)
    if match is None:
        raise ValueError(f"not an ISO date or timestamp: {text!r}")
    year = int(match["year"])
    day = civil_days(1 - year if match["bc"] else year, int(match["month"]), int(match["day"]))
    return day, clock_us(match["clock"] or "0"), zone_seconds(match["zone"] or "+0")


def clock_us(text: str) -> int:
    """`hh:mm:ss.ffffff` in microseconds."""
    whole, _, fraction = text.partition(".")
    hours, minutes, seconds = ([int(part) for part in whole.split(":")] + [0, 0])[:3]
    return (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + int(fraction.ljust(6, "0")[:6] or 0)


def zone_seconds(text: str) -> int:
    """`+hh[:mm[:ss]]` in seconds."""
    hours, minutes, seconds = ([int(part) for part in text[1:].split(":")] + [0, 0])[:3]
    total = hours * 3600 + minutes * 60 + seconds
    return -total if text[0] == "-" else total


def _days_slow(text: str) -> str | None:
    if text.endswith("infinity"):
        return str(MINUS_INFINITY_DAYS if text[0] == "-" else INFINITY_DAYS)
    return str(_parsed(text)[0])


def _stamp_slow(text: str, divisor: int) -> str | None:
    if text.endswith("infinity"):
        return str((MINUS_INFINITY_US if text[0] == "-" else INFINITY_US) // divisor)
    day, clock, _ = _parsed(text)
    return str(min((day * DAY_US + clock) // divisor, _MOST))


def _clock_slow(text: str, divisor: int) -> str | None:
    return str(clock_us(text) // divisor)


def _utc_clock(text: str) -> str:
    at = max(text.rfind("+"), text.rfind("-"))
    moved = (clock_us(text[:at]) - zone_seconds(text[at:]) * 1_000_000) % DAY_US
    seconds, fraction = divmod(moved, 1_000_000)
    shown = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{shown}.{fraction:06}".rstrip("0") + "Z" if fraction else shown + "Z"


def _utc_stamp(text: str, fraction: int) -> str:
    if text.endswith("infinity"):
        return text
    day, clock, zone = _parsed(text)
    day, clock = divmod(day * DAY_US + clock - zone * 1_000_000, DAY_US)
    year, month, date = civil_date(day)
    seconds, left = divmod(clock, 1_000_000)
    time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    shown = f"{_java_year(year)}-{month:02}-{date:02}T{time}"
    return shown + (f".{left:06}"[: fraction + 1] if fraction else "") + "Z"


def _java_year(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"{year:04}" if year >= 0 else f"-{-year:04}"

"""Dates and times from fixed-width texts, by arithmetic on their digits, for the years 1 to 9999.

For databases that write every value of a column with the same number of digits: `yyyy-mm-dd`,
`hh:mm:ss[.f…]`, or both with a blank between; `f…` is one to nine digits. The calendar is proleptic
Gregorian. Raises ValueError for texts of another form.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.text import Bytes, Ints, Text, digits, join, rows_of, scalar, text_parts

if TYPE_CHECKING:
    from collections.abc import Callable

_DATE, _CLOCK, _STAMP = len("yyyy-mm-dd"), len("hh:mm:ss"), len("yyyy-mm-dd hh:mm:ss")
_ZONE = len(" +hh:mm")
_DAY = 86_400
_LEAST, _MOST = -(2**63), 2**63 - 1
_NANOS = 9


def stamps(texts: Text, digits_kept: int) -> Text:
    """Timestamps as units of 10**-`digits_kept` seconds since the epoch, rounded down.

    Values beyond 64 bits become the least or the greatest 64-bit number.
    """
    return _numbers(texts, partial(_stamp, kept=digits_kept))


def clocks(texts: Text, digits_kept: int) -> Text:
    """Times of day as units of 10**-`digits_kept` seconds since midnight, rounded down."""
    return _numbers(texts, partial(_clock, kept=digits_kept))


def stamp_values(texts: Text, digits_kept: int) -> Ints:
    """As `stamps`, but as numbers, and with an optional zone ` +hh:mm` at the end. 0 for null."""
    return _values(texts, partial(_zoned, kept=digits_kept))


def offset_stamps(texts: Text) -> Text:
    """Timestamps with a zone (` +hh:mm` at the end) as Java's `OffsetDateTime` writes them."""
    body = pc.replace_substring(pc.utf8_slice_codeunits(texts, 0, -_ZONE), " ", "T")
    zones = pc.utf8_slice_codeunits(texts, -_ZONE + 1)
    pointed = pc.match_substring(body, ".")
    if pc.any(pointed).as_py():
        body = pc.if_else(pointed, pc.utf8_rtrim(pc.utf8_rtrim(body, "0"), "."), body)
    return join([body, pc.if_else(pc.equal(zones, "+00:00"), scalar("Z"), zones)], len(texts))


def _numbers(texts: Text, read: Callable[[Bytes], Ints]) -> Text:
    values = _values(texts, read)
    missing = pc.is_null(texts).to_numpy(zero_copy_only=False) if texts.null_count else None
    return digits(pa.array(values, mask=missing))


def _values(texts: Text, read: Callable[[Bytes], Ints]) -> Ints:
    offsets, data = text_parts(texts)
    lengths = np.diff(offsets)
    if texts.null_count:
        lengths = np.where(pc.is_valid(texts).to_numpy(zero_copy_only=False), lengths, 0)
    out = np.zeros(len(texts), np.int64)
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        out[rows] = read(rows_of(data, offsets, rows, int(length)))
    return out


def _stamp(raw: Bytes, kept: int) -> Ints:
    if raw.shape[1] < _STAMP or not (raw[:, _DATE] == ord(" ")).all():
        raise ValueError("not an ISO timestamp")
    seconds = _days(raw[:, :_DATE]) * _DAY
    clock = raw[:, _DATE + 1 :]
    unit = 10**kept
    if kept < _NANOS:
        plain: Ints = seconds * unit + _clock(clock, kept)
        return plain
    whole = seconds + _clock(clock[:, :_CLOCK], 0)
    fraction = _fraction(clock, kept)
    most, rest = divmod(_MOST, unit)
    above = (whole > most) | ((whole == most) & (fraction > rest))
    below = (whole < -most - 1) | ((whole == -most - 1) & (fraction < unit - rest - 1))
    held: Ints = np.where(above, _MOST, np.where(below, _LEAST, whole * unit + fraction))
    return held


def _zoned(raw: Bytes, kept: int) -> Ints:
    if raw.shape[1] <= _STAMP + 1 or not (raw[:, -_ZONE] == ord(" ")).all():
        return _stamp(raw, kept)
    hours, minutes = _number(raw[:, -5:-3]), _number(raw[:, -2:])
    sign = np.where(raw[:, -6] == ord("-"), -1, 1)
    moved: Ints = _stamp(raw[:, :-_ZONE], kept) - sign * (hours * 60 + minutes) * 60 * 10**kept
    return moved


def _clock(raw: Bytes, kept: int) -> Ints:
    if raw.shape[1] < _CLOCK or not ((raw[:, 2] == ord(":")) & (raw[:, 5] == ord(":"))).all():
        raise ValueError("not a time of day")
    seconds = (_number(raw[:, 0:2]) * 60 + _number(raw[:, 3:5])) * 60 + _number(raw[:, 6:8])
    units: Ints = seconds * 10**kept + _fraction(raw, kept)
    return units


def _fraction(raw: Bytes, kept: int) -> Ints:
    """The first `kept` digits after the point."""
    given = raw.shape[1] - _CLOCK - 1
    if given < 0:
        return np.zeros(len(raw), np.int64)
    if given == 0 or not (raw[:, _CLOCK] == ord(".")).all():
        raise ValueError("not a time of day")
    used = min(given, kept)
    units: Ints = _number(raw[:, _CLOCK + 1 : _CLOCK + 1 + used]) * 10 ** (kept - used)
    return units


def days(texts: Text) -> Text:
    """Dates as days since 1970-01-01."""
    return _numbers(texts, _days)


def _days(raw: Bytes) -> Ints:
    if raw.shape[1] != _DATE or not ((raw[:, 4] == ord("-")) & (raw[:, 7] == ord("-"))).all():
        raise ValueError("not an ISO date")
    year, month, day = _number(raw[:, 0:4]), _number(raw[:, 5:7]), _number(raw[:, 8:10])
    year = year - (month <= 2)
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    since: Ints = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return since


def _number(raw: Bytes) -> Ints:
    """The digits of each row as a number."""
    out = np.zeros(len(raw), np.int64)
    for place in range(raw.shape[1]):
        digit = raw[:, place] - np.uint8(ord("0"))
        if (digit > 9).any():
            raise ValueError("a digit is expected")
        out = out * 10 + digit
    return out

"""The digits of columns of floats as Java before 19 computes them: the rule of `java_exact`, with numpy.

Values above 0 that Java writes with an exponent are of three kinds.

1. Integers below 2**63. They are rounded as in `java_exact`, in 64 bits.
2. Ratios whose numbers fit 32 or 64 bits in Java. They go through Java's loop, one digit of all rows at a
   time, in integers of the same width, so that they overflow where Java's do.
3. Ratios of larger numbers. There Java computes the fewest digits, and of those the nearest to the value. So
   does Arrow's cast. `java_exact` computes the three exceptions:
   - powers of two, whose `m` is too small on one side
   - subnormal values: some need one digit, but Java writes two
   - values with a tie: a decimal of at most 17 digits exactly halfway to a neighbour, which Arrow accepts or
     rejects by the fraction's parity. Such a decimal is d * 10**k, and half a unit is a power of two. So 5**k
     divides 2 * fraction + 1 or 2 * fraction - 1. Below 2**63 a halfway decimal has too many digits. The
     fraction of a 32-bit float is too small for the k that these numbers need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.floats.java_exact import (
    DOUBLE,
    FRACTION_BITS,
    LARGEST_INTEGER_EXPONENT,
    SURE_BITS,
    Precision,
    bits_of_five,
    digits,
)

if TYPE_CHECKING:
    from engine.events.values.text import Ints, Text

Doubles = npt.NDArray[np.float64]
_TENS = np.array([10**power for power in range(19)], np.int64)
_FIVES = np.array([5**power for power in range(28)], np.int64)
_BITS_OF_FIVE = np.array([bits_of_five(power) for power in range(400)], np.int64)
_WIDTHS = ((31, np.int32), (63, np.int64))
"""The most bits of Java's numbers that fit integers of each type."""
_MOST_DIGITS = 17
_LEAST_TIE = 63
"""The least exponent of values that can have a short decimal halfway to a neighbour."""


@dataclass(frozen=True, slots=True)
class Decimals:
    """Numbers `significands * 10**exponents`, whose significands may end in zeros."""

    significands: Ints
    exponents: Ints

    @classmethod
    def empty(cls, rows: int) -> Decimals:
        """An uninitialised column for this many rows."""
        return cls(np.empty(rows, np.int64), np.empty(rows, np.int64))

    def put(self, rows: npt.NDArray[np.generic], found: Decimals) -> None:
        """Set the numbers of these rows."""
        self.significands[rows], self.exponents[rows] = found.significands, found.exponents


@dataclass(frozen=True, slots=True)
class _Binary:
    """The values as `fraction * 2**(exponent - 52)`, with the fraction's highest bit set.

    `bits` is the number of the fraction's bits without trailing zeros, `tiny` of those after the point.
    """

    values: Doubles
    fraction: Ints
    exponent: Ints
    bits: Ints
    tiny: Ints

    @classmethod
    def of(cls, values: Doubles) -> _Binary:
        mantissas, above = np.frexp(values)
        fraction = np.ldexp(mantissas, FRACTION_BITS + 1).astype(np.int64)
        exponent = above.astype(np.int64) - 1
        bits = FRACTION_BITS + 2 - np.frexp((fraction & -fraction).astype(np.float64))[1].astype(np.int64)
        return cls(values, fraction, exponent, bits, np.maximum(0, bits - exponent - 1))

    def take(self, rows: npt.NDArray[np.generic]) -> _Binary:
        return _Binary(
            self.values[rows], self.fraction[rows], self.exponent[rows], self.bits[rows], self.tiny[rows]
        )


@dataclass(frozen=True, slots=True)
class _Ratios:
    """The parts of Java's `b`, `s` and `m`: powers of two and of five, and how many bits the numbers need.

    `point` is the decimal exponent of the first digit, or one more.
    """

    point: Ints
    twos_b: Ints
    twos_s: Ints
    twos_m: Ints
    most_bits: Ints

    @classmethod
    def of(cls, binary: _Binary, significant: Ints) -> _Ratios:
        mantissas = np.ldexp(binary.fraction, -FRACTION_BITS)
        tangent = (mantissas - 1.5) * 0.289529654 + 0.176091259
        point = np.floor(tangent + binary.exponent * 0.301029995663981).astype(np.int64)
        fives_b, fives_s = np.maximum(0, -point), np.maximum(0, point)
        twos_b, twos_s = fives_b + binary.tiny + binary.exponent, fives_s + binary.tiny
        twos_m = twos_b - significant - (binary.bits == 1)
        twos_b = twos_b - binary.bits + 1
        common = np.minimum(twos_b, twos_s)
        common = np.minimum(common, twos_m)  # what `m` lacks is added to all three
        twos_b, twos_s = twos_b - common, twos_s - common
        of_b = binary.bits + twos_b + _BITS_OF_FIVE[fives_b]
        of_s = twos_s + 1 + _BITS_OF_FIVE[fives_s + 1]
        return cls(point, twos_b, twos_s, twos_m - common, np.maximum(of_b, of_s))

    def loop(self, binary: _Binary, rows: npt.NDArray[np.bool_], width: type[np.signedinteger]) -> Decimals:
        """The digits of these rows, computed with integers of this width."""
        point = self.point[rows]
        fives_b, fives_s = _FIVES[np.maximum(0, -point)], _FIVES[np.maximum(0, point)]
        odd = binary.fraction[rows] >> (FRACTION_BITS + 1 - binary.bits[rows])
        b, s, m = (
            odd * fives_b << self.twos_b[rows],
            fives_s << self.twos_s[rows],
            fives_b << self.twos_m[rows],
        )
        return _divided(b.astype(width), s.astype(width), m.astype(width), point)


def decimals(values: Doubles, precision: Precision) -> Decimals:
    """Java's digits of finite values above 0 that Java writes with an exponent."""
    binary, found = _Binary.of(values), Decimals.empty(len(values))
    whole = (binary.tiny == 0) & (binary.exponent <= LARGEST_INTEGER_EXPONENT)
    if whole.any():
        found.put(whole, _integers(binary.take(whole), precision))
    if not whole.all():
        rows = np.flatnonzero(~whole)
        found.put(rows, _ratios(binary.take(rows), precision))
    return found


def _integers(binary: _Binary, precision: Precision) -> Decimals:
    beyond = binary.exponent - precision.bits - 1
    dropped = np.where(beyond > SURE_BITS, np.floor(beyond * np.log10(2)), 0).astype(np.int64)
    whole, powers = binary.values.astype(np.int64), _TENS[dropped]
    rounded_up = (whole % powers >= powers >> 1) & (dropped > 0)
    return Decimals(whole // powers + rounded_up, dropped)


def _ratios(binary: _Binary, precision: Precision) -> Decimals:
    significant = np.minimum(precision.bits, precision.bits + binary.exponent - precision.least_exponent)
    ratios, found = _Ratios.of(binary, significant), Decimals.empty(len(binary.values))
    least = 0
    for most, width in _WIDTHS:
        rows = (ratios.most_bits >= least) & (ratios.most_bits <= most)
        if rows.any():
            found.put(rows, ratios.loop(binary, rows, width))
        least = most + 1
    large = np.flatnonzero(ratios.most_bits >= least)
    if len(large):
        binary, subnormal = binary.take(large), significant[large] < precision.bits
        found.put(large, _shortest(binary.values, precision))
        other = subnormal | (binary.bits == 1)
        if precision is DOUBLE:
            other |= _has_tie(binary, ratios.point[large])
        if other.any():
            found.put(large[other], _one_by_one(binary.values[other], precision))
    return found


def _divided(b: Ints, s: Ints, m: Ints, point: Ints) -> Decimals:
    """Java's loop. A leading 0 does not count as a digit, unless it is rounded up."""
    ten = s * 10
    digit, b, m = b // s, b % s * 10, m * 10
    leading = (digit == 0) & (b + m <= ten)
    significands, exponents = digit.astype(np.int64), point.copy()
    rows, owed = np.arange(len(b)), leading.astype(np.int64)
    while len(rows):
        digit, b, m = b // s, b % s * 10, m * 10
        low, high = (b < m) | (m <= 0), (b + m > ten) | (m <= 0)
        significands[rows] = significands[rows] * 10 + digit
        exponents[rows] -= 1
        ends = (low | high) & (owed == 0)
        if ends.any():
            over = b + b - ten
            up = high & (~low | (over > 0) | ((over == 0) & (digit % 2 == 1)))
            significands[rows] += ends & up
            rows, owed, b, s, m, ten = (part[~ends] for part in (rows, owed, b, s, m, ten))
        owed = np.zeros_like(owed)
    return Decimals(significands, exponents)


def _has_tie(binary: _Binary, point: Ints) -> npt.NDArray[np.bool_]:
    """Where a decimal of 17 digits or fewer may lie halfway to a neighbour."""
    five, twice = _FIVES[np.clip(point + 1 - _MOST_DIGITS, 0, 20)], 2 * binary.fraction
    divides: npt.NDArray[np.bool_] = ((twice + 1) % five == 0) | ((twice - 1) % five == 0)
    return (binary.exponent >= _LEAST_TIE) & divides


def _shortest(values: Doubles, precision: Precision) -> Decimals:
    """The fewest digits that identify a value, parsed from Arrow's text."""
    numbers = pa.array(values if precision is DOUBLE else values.astype(np.float32))
    texts: Text = pc.replace_substring(pc.cast(numbers, pa.large_string()), "+", "")
    parts = pc.split_pattern(texts, "e")
    mantissas, exponents = pc.list_element(parts, 0), np.zeros(len(values), np.int64)
    marked = np.diff(parts.offsets.to_numpy()) == 2
    if marked.any():
        ends = parts.offsets.to_numpy()[1:][marked] - 1
        exponents[marked] = pc.cast(parts.flatten().take(pa.array(ends)), pa.int64()).to_numpy()
    point = pc.find_substring(mantissas, ".").to_numpy()
    exponents -= np.where(point < 0, 0, pc.binary_length(mantissas).to_numpy() - point - 1)
    significands = pc.cast(pc.replace_substring(mantissas, ".", "", max_replacements=1), pa.int64())
    return Decimals(significands.to_numpy(), exponents)


def _one_by_one(values: Doubles, precision: Precision) -> Decimals:
    """As `decimals`, but one value at a time."""
    found = [digits(value, precision) for value in values.tolist()]
    significands = np.array([int(text) for text, _ in found], np.int64)
    return Decimals(significands, np.array([point - len(text) for text, point in found], np.int64))

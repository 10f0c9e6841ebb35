"""A double's text as Java 17 writes it (`Double.toString`), not always with the fewest digits.

Java before 19 makes digits until the rest is less than half a unit in the last place, but measures it
by one error on both sides, and prints integers from 2^53 on by another rule. Most results are those of
`repr`, which are taken where that is sure; the others are made digit by digit, with whole numbers.
"""

from __future__ import annotations

from math import floor, log10
from struct import pack, unpack

_BIAS, _FRACTION = 1023, 52
_LEAST_SURE, _MOST_SURE = 1e-3, 1e7
"""Where Java writes no exponent, and the fewest digits, as `repr` does."""


def java_double(value: float) -> str:
    """Text of a finite double, such as `1.0`, `1.0E7`, `4.9E-324`."""
    text = repr(value)
    if _LEAST_SURE <= abs(value) < _MOST_SURE or value == 0:
        return text
    sign = "-" if value < 0 else ""
    digits, point = _digits(abs(value))
    if -3 < point <= 7:
        padded = digits.ljust(point, "0") if point > 0 else "0" * (1 - point) + digits
        cut = max(point, 1)
        return f"{sign}{padded[:cut]}.{padded[cut:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(value: float) -> tuple[str, int]:
    """Digits, and how many of them stand before the point."""
    bits = unpack("<Q", pack("<d", value))[0]
    exponent, fraction = bits >> _FRACTION, bits & ((1 << _FRACTION) - 1)
    if exponent:
        fraction |= 1 << _FRACTION
        significant = _FRACTION + 1
    else:
        significant = fraction.bit_length()
        shift = _FRACTION + 1 - significant
        fraction <<= shift
        exponent = 1 - shift
    return _develop(exponent - _BIAS, fraction, significant)


def _develop(exponent: int, fraction: int, significant: int) -> tuple[str, int]:
    zeros = (fraction & -fraction).bit_length() - 1
    bits = _FRACTION + 1 - zeros
    tiny = max(0, bits - exponent - 1)
    if tiny == 0 and exponent <= 62:
        return _integer(fraction, exponent, significant)
    ratio = _Ratio(fraction >> zeros, exponent, bits, tiny, significant)
    return ratio.digits()


def _integer(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    shift = exponent - _FRACTION
    whole = fraction << shift if shift >= 0 else fraction >> -shift
    beyond = exponent - significant - 1
    dropped = floor(beyond * log10(2)) if exponent > significant and beyond > 3 else 0
    if dropped:
        power = 10**dropped
        whole, rest = divmod(whole, power)
        whole += rest >= power >> 1
    digits = str(whole)
    return digits.rstrip("0"), len(digits) + dropped


class _Ratio:
    """The value as `b / s` in whole numbers, with `m` half a unit in the last place."""

    def __init__(self, fraction: int, exponent: int, bits: int, tiny: int, significant: int) -> None:
        self._point = _estimate(fraction, exponent, bits)
        fives_b, fives_s = max(0, -self._point), max(0, self._point)
        twos_b, twos_s = fives_b + tiny + exponent, fives_s + tiny
        twos_m = twos_b - significant
        twos_b -= bits - 1
        common = min(twos_b, twos_s)
        twos_b, twos_s, twos_m = twos_b - common, twos_s - common, twos_m - common
        if bits == 1:
            twos_m -= 1
        if twos_m < 0:
            twos_b, twos_s, twos_m = twos_b - twos_m, twos_s - twos_m, 0
        self._b = fraction * 5**fives_b << twos_b
        self._s = 5**fives_s << twos_s
        self._m = 5**fives_b << twos_m
        # Java takes 32 or 64 bits where the numbers fit; then sums wrap, and equality is no excess.
        most = max(bits + twos_b + _five_bits(fives_b), twos_s + 1 + _five_bits(fives_s + 1))
        self._width = 32 if most < 32 else 64 if most < 64 else 0

    def digits(self) -> tuple[str, int]:
        made: list[int] = []
        digit, low, high = self._next()
        if digit == 0 and not high:
            self._point -= 1
        else:
            made.append(digit)
        if self._point < -3 or self._point >= 8:
            low = high = False
        while not low and not high:
            digit, low, high = self._next()
            made.append(digit)
        if high and (not low or self._rounds_up(made[-1])):
            self._round_up(made)
        return "".join(map(str, made)), self._point + 1

    def _next(self) -> tuple[int, bool, bool]:
        digit, rest = divmod(self._b, self._s)
        self._b, self._m = 10 * rest, 10 * self._m
        if self._wrapped(self._m) < 0:
            return digit, True, True
        ten, reach = 10 * self._s, self._wrapped(self._b + self._m)
        return digit, self._b < self._m, reach > ten if self._width else reach >= ten

    def _wrapped(self, number: int) -> int:
        if not self._width or number < 1 << self._width - 1:
            return number
        return number - (1 << self._width)

    def _rounds_up(self, last: int) -> bool:
        difference = 2 * self._b - 10 * self._s
        return difference > 0 or (difference == 0 and last % 2 == 1)

    def _round_up(self, made: list[int]) -> None:
        at = len(made) - 1
        while made[at] == 9 and at > 0:
            made[at] = 0
            at -= 1
        if made[at] == 9:
            self._point += 1
            made[at] = 1
        else:
            made[at] += 1


def _five_bits(power: int) -> int:
    """Bits of 5^power, by the table that Java has for small powers and its estimate for others."""
    if power >= 27:
        return 3 * power
    return (5**power).bit_length() if power else 0


def _estimate(fraction: int, exponent: int, bits: int) -> int:
    """The decimal exponent, or one more, from the logarithm's tangent at 1.5."""
    mantissa = fraction / (1 << bits - 1)
    return floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)

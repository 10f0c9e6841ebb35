"""A float's digits as Java before 19 computes them, one value at a time, in integers of any size.

Owns the rule. `java_digits` applies it to columns where 64 bits suffice, `java_floats` turns digits into
text.

The rule (`jdk.internal.math.FloatingDecimal`, JDK-4511638): a value is treated as a ratio `b / s`, with `m`
as half a unit in its last place. Digits are divided off from the left until the remainder of `b` is less than
`m`, or less than `m` is missing to the next digit. Then the last digit is rounded. This differs in four ways
from the fewest digits that identify the value.

- One `m` holds for both sides, that of the nearer neighbour: a power of two may get a digit too many.
- With an exponent there are two digits at least: 4.9E-324, not 5E-324.
- If the numbers fit 32 or 64 bits, sums overflow, and a remainder equal to `m` counts as too large:
  1e23 is 9.999999999999999E22.
- Integers below 2**63 follow another rule. They are exact, except for digits beyond their precision:
  6.602055686667299E17 is 6.6020556866672986E17.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, frexp, isfinite, isnan, ldexp, log10

FRACTION_BITS = 52
"""The bits of a double's fraction. Values of every precision are stored as doubles."""
LARGEST_INTEGER_EXPONENT = 62
SURE_BITS = 3
"""An integer's last digits are dropped from this many bits beyond the precision on."""


@dataclass(frozen=True, slots=True)
class Precision:
    """A float format: the bits of a normal value's significand, the exponent of the least normal value."""

    bits: int
    least_exponent: int

    def significant(self, exponent: int) -> int:
        """The significant bits of a value with this exponent. Subnormal values have fewer."""
        return min(self.bits, self.bits + exponent - self.least_exponent)


DOUBLE = Precision(53, -1022)
FLOAT = Precision(24, -126)
LEAST_PLAIN, MOST_PLAIN = 1e-3, 1e7
"""Java writes no exponent from the first up to below the second, and for 0."""


def java_text(value: float) -> str:
    """The text of one double."""
    if LEAST_PLAIN <= abs(value) < MOST_PLAIN or value == 0:
        return repr(value)
    return other_text(value, DOUBLE)


def other_text(value: float, precision: Precision) -> str:
    """The text of a value with an exponent, of NaN or of an infinity."""
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shown, point = digits(abs(value), precision)
    shown = shown.rstrip("0")
    return f"{'-' if value < 0 else ''}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def digits(value: float, precision: Precision) -> tuple[str, int]:
    """The digits of a finite value above 0 that Java writes with an exponent, and how many precede the point.

    A 32-bit float is passed as the equal 64-bit number.
    """
    mantissa, above = frexp(value)
    fraction, exponent = int(ldexp(mantissa, FRACTION_BITS + 1)), above - 1
    zeros = (fraction & -fraction).bit_length() - 1
    bits = FRACTION_BITS + 1 - zeros
    tiny = max(0, bits - exponent - 1)
    if tiny == 0 and exponent <= LARGEST_INTEGER_EXPONENT:
        return _integer(int(value), exponent, precision)
    return _Ratio(fraction >> zeros, exponent, bits, tiny, precision).digits()


def _integer(whole: int, exponent: int, precision: Precision) -> tuple[str, int]:
    beyond = exponent - precision.bits - 1
    dropped = floor(beyond * log10(2)) if beyond > SURE_BITS else 0
    if dropped:
        power = 10**dropped
        whole, rest = divmod(whole, power)
        whole += rest >= power >> 1
    text = str(whole)
    return text.rstrip("0"), len(text) + dropped


class _Ratio:
    """The value as `b / s` in integers, with `m` as half a unit in the last place."""

    def __init__(self, fraction: int, exponent: int, bits: int, tiny: int, precision: Precision) -> None:
        self._point = _estimate(fraction, exponent, bits)
        fives_b, fives_s = max(0, -self._point), max(0, self._point)
        twos_b, twos_s = fives_b + tiny + exponent, fives_s + tiny
        twos_m = twos_b - precision.significant(exponent)
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
        # If the numbers fit, Java uses 32 or 64 bits. Then sums overflow, and equality is not an excess.
        most = max(bits + twos_b + bits_of_five(fives_b), twos_s + 1 + bits_of_five(fives_s + 1))
        self._width = 32 if most < 32 else 64 if most < 64 else 0

    def digits(self) -> tuple[str, int]:
        """The digits, at least two, and how many of them precede the point."""
        made: list[int] = []
        digit, low, high = self._next()
        if digit == 0 and not high:
            self._point -= 1
        else:
            made.append(digit)
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
        if self._wrapped(self._m) <= 0:
            return digit, True, True
        ten, reach = 10 * self._s, self._wrapped(self._b + self._wrapped(self._m))
        return digit, self._b < self._wrapped(self._m), reach > ten if self._width else reach >= ten

    def _wrapped(self, number: int) -> int:
        if not self._width:
            return number
        half = 1 << self._width - 1
        return (number + half) % (2 * half) - half

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


def bits_of_five(power: int) -> int:
    """The bits of 5**power, by Java's table for small powers and by its estimate for others."""
    if power >= 27:
        return 3 * power
    return (5**power).bit_length() if power else 0


def _estimate(fraction: int, exponent: int, bits: int) -> int:
    """The decimal exponent, or one more, from the logarithm's tangent at 1.5."""
    mantissa = fraction / (1 << bits - 1)
    return floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)

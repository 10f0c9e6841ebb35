"""Quantiles of what comes in without end, each within 1 %: counts in buckets that grow by a constant factor.

Memory does not grow with the number of values: from a millisecond to a year there are 1,220 buckets. Source:
DDSketch (arXiv 1908.10693).
"""

from __future__ import annotations

import math
from typing import Final

_ACCURACY: Final = 0.01
_GROWTH: Final = (1 + _ACCURACY) / (1 - _ACCURACY)
_LEAST: Final = 1e-3


class Quantiles:
    """Takes values of at least 0. One thread adds; any may ask."""

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count, self.total = 0, 0.0
        self.least, self.greatest = math.inf, 0.0

    def add(self, value: float, times: int = 1) -> None:
        """Take a value that came so many times."""
        bucket = math.ceil(math.log(max(value, _LEAST), _GROWTH))
        self._buckets[bucket] = self._buckets.get(bucket, 0) + times
        self.count += times
        self.total += value * times
        self.least, self.greatest = min(self.least, value), max(self.greatest, value)

    @property
    def average(self) -> float:
        """The mean; 0 if nothing came."""
        return self.total / self.count if self.count else 0.0

    def at(self, share: float) -> float:
        """The value that this share of all values does not exceed; 0 if nothing came."""
        buckets = sorted(self._buckets.copy().items())
        rank = share * (sum(times for _bucket, times in buckets) - 1)
        passed = 0
        for bucket, times in buckets:
            passed += times
            if passed > rank:
                middle = 2 * _GROWTH**bucket / (_GROWTH + 1)
                return min(max(middle, self.least), self.greatest)
        return 0.0

"""Quantiles are within one percent, in memory that does not grow."""

from __future__ import annotations

import random

import pytest

from engine.job.reports.quantiles import Quantiles


def test_quantiles_are_within_one_percent():
    drawn = random.Random(7)
    values = sorted(drawn.lognormvariate(3, 2) for _ in range(20_000))
    quantiles = Quantiles()
    for value in values:
        quantiles.add(value)

    for share in (0.0, 0.5, 0.95, 0.99, 1.0):
        expected = values[round(share * (len(values) - 1))]
        assert quantiles.at(share) == pytest.approx(expected, rel=0.0101)
    assert quantiles.average == pytest.approx(sum(values) / len(values))
    assert (quantiles.least, quantiles.greatest) == (values[0], values[-1])
    assert len(quantiles._buckets) < 2_000


def test_weights_count_and_nothing_is_zero():
    quantiles = Quantiles()
    assert (quantiles.at(0.5), quantiles.average) == (0.0, 0.0)
    quantiles.add(0.0, 99)
    quantiles.add(50.0)

    assert quantiles.at(0.5) <= 1e-3
    assert quantiles.at(1.0) == pytest.approx(50, rel=0.01)
    assert quantiles.average == 0.5

"""The last hour in memory: bounded, with rates between samples."""

from __future__ import annotations

from itertools import count

from adapters.http.history import EVERY_S, KEPT_S, History, Rates, Sample


def test_an_hour_is_kept_and_no_more():
    times = count(0, int(EVERY_S))
    history = History(lambda: Sample(float(next(times))))
    for _ in range(int(KEPT_S)):
        history.take()

    assert len(history.samples) == KEPT_S / EVERY_S
    assert history.samples[-1].at_s - history.samples[0].at_s < KEPT_S


def test_rates_are_those_between_samples():
    given = [Sample(0.0), Sample(0.0), Sample(5.0, sent=10, read=500), Sample(15.0, sent=10, read=600)]
    history = History(iter(given).__next__)
    for _ in range(3):
        history.take()

    assert list(history.rates()) == [Rates(5.0, 2.0, 100.0), Rates(15.0, 0.0, 10.0)]

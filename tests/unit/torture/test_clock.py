"""The driver's clock can be set, and nobody else's."""

from __future__ import annotations

import time

from tests.torture.clock import DriversClock


def test_it_is_ahead_while_it_is_shown():
    clock = DriversClock(3600.0)
    before, since_s = time.time(), time.monotonic()
    with clock.shown():
        ahead_s = time.time() - before
        clock.ahead_s = -3600.0
        behind_s = before - time.time()

    assert 3600 <= ahead_s < 3660
    assert 3540 < behind_s <= 3600
    assert time.monotonic() - since_s < 60
    assert time.time() - before < 60

"""A sample of `make fuzz`: whatever is parsed gives a value or an error of ours."""

from __future__ import annotations

import random
import time

import pytest

from tests.fuzz.targets import FUZZED, LONGEST_S, accepted

INPUTS, FEW = 600, 100
SLOW = {"properties", "json", "yaml"}
"""They look at some hundred settings each."""


@pytest.mark.parametrize("name", FUZZED)
def test_good_input_is_taken(name: str):
    assert any(accepted(FUZZED[name], seed) for seed in FUZZED[name].seeds)


@pytest.mark.parametrize("name", FUZZED)
def test_bad_input_gives_a_value_or_an_error_of_ours(name: str):
    fuzzed, chance = FUZZED[name], random.Random(23)

    for _ in range(FEW if name in SLOW else INPUTS):
        data = fuzzed.drawn(chance)
        started = time.thread_time()  # others may use the processor meanwhile
        try:
            accepted(fuzzed, data)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {data!r}") from error
        assert time.thread_time() - started < LONGEST_S, data

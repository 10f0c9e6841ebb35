"""Floats beside those of the Java that runs Spark; ten million patterns are compared by `make floats`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.java.floats import LAST_JAVA, differences, patterns
from tests.servers.java import java_version

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        java_version() > LAST_JAVA,
        reason="Java from 19 on writes other digits; those of Java 17 are recorded in the unit tests",
    ),
]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_hundred_thousand_patterns_are_written_as_java_writes_them(kind: type[np.floating]) -> None:
    assert list(differences(patterns(kind, 100_000, seed=24))) == []


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_numbers_of_ordinary_size_are_written_as_java_writes_them(kind: type[np.floating]) -> None:
    sizes = np.random.default_rng(24).uniform(-12, 28, 50_000)

    assert list(differences((10.0**sizes).astype(kind))) == []

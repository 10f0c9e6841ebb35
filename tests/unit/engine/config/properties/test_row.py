"""The name that a misspelt one most likely means: as difflib says, and sooner."""

from __future__ import annotations

import difflib
import random

from engine.config.catalogue import catalogue_of
from tests.fuzz.mutations import mutated
from tests.unit.engine.config.least import POSTGRES


def test_suggestions_are_those_of_difflib():
    catalogue = catalogue_of(POSTGRES)
    known = {row.name.lower().replace("_", ".").replace("-", "."): row.name for row in catalogue.rows}
    chance, seeds = random.Random(5), [name.encode() for name in known]
    found = 0
    for _ in range(300):
        word = mutated(seeds, chance).decode("latin-1")[:200]
        plain = word.strip().lower().replace("_", ".").replace("-", ".")
        close = difflib.get_close_matches(plain, known, n=1, cutoff=0.75)

        assert catalogue.suggestion(word) == (known[close[0]] if close else "")
        found += bool(close)
    assert 50 < found < 250

"""The record of Java's verdicts against the Java that is here, and expressions that nobody has recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import re2

from engine.patterns.java import re2_text
from engine.patterns.untranslatable import Untranslatable
from tests.java_verdicts import BROKEN, NAMES, WRONG, drawn, recorded, verdicts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.integration

SOME_NAMES = ("public.orders", "a", "A", "K", "\u212a", "s", "\u017f", "\r\n", "\u2028", "a1", "")


def test_java_says_what_was_recorded(spark: SparkSession):
    sample = recorded()[::25]
    places = [NAMES.index(name) for name in SOME_NAMES]

    said = verdicts(
        spark.sparkContext._jvm, [(expression, case) for expression, case, _ in sample], SOME_NAMES
    )

    for (expression, _case, before), now in zip(sample, said, strict=True):
        once = before if before in {WRONG, BROKEN} else "".join(before[place] for place in places)
        assert now == once, expression


def test_what_is_drawn_anew_is_matched_as_java_matches_it(spark: SparkSession):
    translated = {}
    for expression, ignore_case in drawn(2026, 300):
        try:
            translated[expression, ignore_case] = re2_text(expression, ignore_case=ignore_case)
        except Untranslatable:
            continue

    said = verdicts(spark.sparkContext._jvm, translated, SOME_NAMES)

    assert len(translated) > 80
    for ((expression, _case), found), digits in zip(translated.items(), said, strict=True):
        assert digits != WRONG, expression
        for name, digit in zip(SOME_NAMES, digits, strict=False):
            if digits != BROKEN and (name.isascii() or not found.ascii_only):
                assert (re2.compile(found.text).fullmatch(name) is not None) == (digit == "1"), expression

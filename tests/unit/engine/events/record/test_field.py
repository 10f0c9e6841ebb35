"""What stands for NULL, for a value that the schema can't hold, for one that the log left out."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from engine.events.record.field import Conversion, Field
from engine.events.record.schema import INT32, STRING, Schema
from engine.events.record.shaping import shape_of
from engine.events.settings import ColumnMask
from engine.events.values.json_strings import escape
from engine.events.values.numbers import decimal_base64
from engine.events.values.text import join

DECIMAL = Conversion(Schema("bytes"), partial(decimal_base64, scale=2), quoted=True, filler='"AA=="')
TEXT = Conversion(STRING, escape, quoted=True, filler='""', placeholder='"gone"', text=True)
NUMBER = Conversion(INT32, lambda texts: texts, quoted=False, filler="0")


def shown(field: Field, *texts: str | None, unchanged: list[bool] | None = None) -> list[str]:
    marks = None if unchanged is None else np.array(unchanged)
    column = pa.array(texts, pa.large_string())
    made: list[str] = join(field.pieces(column, marks), len(texts)).to_pylist()
    return made


@pytest.mark.parametrize("missing", ["null", '"AA=="'])
def test_nan_is_null_whatever_stands_for_null(missing):
    field = Field("n", 0, DECIMAL, DECIMAL.schema, missing)

    assert shown(field, "1.50", "NaN", None) == ['"AJY="', "null", missing]
    assert shown(field, None, None) == [missing] * 2


def test_null_becomes_what_is_missing():
    assert shown(Field("n", 0, NUMBER, INT32, "7"), "1", None) == ["1", "7"]
    assert shown(Field("t", 0, TEXT, STRING, "null"), 'a"', None) == ['"a\\""', "null"]


def test_an_unchanged_value_has_its_placeholder_or_none():
    text = Field("t", 0, TEXT, STRING, "null")
    number = Field("n", 0, NUMBER, INT32, "0")

    assert shown(text, "a", None, None, unchanged=[False, True, False]) == ['"a"', '"gone"', "null"]
    assert shown(number, "1", None, unchanged=[False, True]) == ["1", "0"]


def test_a_mask_hides_unchanged_values_too():
    hidden = replace(
        Field("t", 0, TEXT, STRING, '""'),
        shape=shape_of(ColumnMask((), length=2, truncate=True), None),
        raw_missing="",
        raw_placeholder="placeholder",
    )

    assert shown(hidden, "abc", None, None, unchanged=[False, True, False]) == ['"ab"', '"pl"', '""']

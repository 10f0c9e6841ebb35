"""Columns of floats as the text that Java before 19 writes: `1.0`, `1.0E7`, `4.9E-324`, `NaN`.

All sources write their floats here, so a value gives the same text from each. `java_digits` computes the
digits of values with an exponent. From 0.001 to below 10,000,000 Java writes no exponent, and its digits are
the fewest that identify the value, as Arrow and databases write them too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.floats.java_digits import Decimals, decimals
from engine.events.values.floats.java_exact import (
    DOUBLE,
    FLOAT,
    LEAST_PLAIN,
    MOST_PLAIN,
    Precision,
    java_text,
    other_text,
)
from engine.events.values.text import Text, join, scalar

if TYPE_CHECKING:
    from engine.events.values.floats.java_digits import Doubles

_MOST_PLAIN_FLOAT = 1e6
"""From this value on PostgreSQL writes 32-bit floats with an exponent."""
_FEW = 16
"""Up to this many values are written faster one by one."""


def float_texts(values: pa.Array) -> Text:
    """The texts of floats of 32 or 64 bits, null for null."""
    plain = is_plain(values)
    if plain.all():
        return with_point(pc.cast(values, pa.large_string()))
    precision = DOUBLE if values.type == pa.float64() else FLOAT
    if not plain.any():
        return _others(values, precision)
    others = pa.array(~plain)
    texts = pc.cast(pc.if_else(others, pa.scalar(1.5, values.type), values), pa.large_string())
    return pc.replace_with_mask(with_point(texts), others, _others(values.filter(others), precision))


def is_plain(values: pa.Array, most: float = MOST_PLAIN) -> npt.NDArray[np.bool_]:
    """Which floats are written without an exponent: null, 0, and those from `LEAST_PLAIN` to below `most`."""
    sizes = np.abs(values.fill_null(1).to_numpy())
    found: npt.NDArray[np.bool_] = ((sizes >= LEAST_PLAIN) & (sizes < most)) | (sizes == 0)
    return found


def with_point(texts: Text) -> Text:
    """Plain decimals, with `.0` added to those without a point."""
    pointed = pc.match_substring(texts, ".")
    if pc.all(pointed, min_count=0).as_py():
        return texts
    return pc.if_else(pointed, texts, join([texts, ".0"], len(texts)))


def doubles_as_java(texts: Text) -> Text:
    """Shortest decimal text of doubles in Java's form: `1.0`, `1.0E10`, and NaN in quotes."""
    return _as_java(texts, pc.cast(texts, pa.float64()), MOST_PLAIN)


def floats_as_java(texts: Text) -> Text:
    """As `doubles_as_java`, for 32 bits."""
    return _as_java(texts, pc.cast(texts, pa.float32()), _MOST_PLAIN_FLOAT)


def numbers_as_doubles(texts: Text) -> Text:
    """Decimal text as the nearest double, in Java's form."""
    return json_floats(pc.cast(texts, pa.float64()))


def numbers_as_floats(texts: Text) -> Text:
    """Text of a number as the nearest float of 32 bits, in Java's form."""
    return json_floats(pc.cast(texts, pa.float32()))


def json_floats(values: pa.Array) -> Text:
    """Floats in Java's form; Jackson puts NaN and the infinities into quotes."""
    texts, finite = float_texts(values), pc.is_finite(values)
    return (
        texts
        if pc.all(finite, min_count=0).as_py()
        else pc.if_else(finite, texts, join(['"', texts, '"'], len(texts)))
    )


def java_double(text: str) -> str:
    """One double's text as JSON in Java's form."""
    shown = java_text(float(text))
    return f'"{shown}"' if shown[-1] in "Ny" else shown


def _as_java(texts: Text, values: pa.Array, most: float) -> Text:
    """Keep texts of plain decimals below `most`, which have Java's digits. Write others from the values."""
    kept, texts = is_plain(values, most), with_point(texts)
    if kept.all():
        return texts
    others = pa.array(~kept)
    return pc.replace_with_mask(texts, others, json_floats(values.filter(others)))


def _others(values: pa.Array, precision: Precision) -> Text:
    """Values with an exponent, NaN and the infinities."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        doubles = values.to_numpy().astype(np.float64)
    if len(doubles) <= _FEW:
        return pa.array([other_text(value, precision) for value in doubles.tolist()], pa.large_string())
    finite = np.isfinite(doubles)
    if finite.all():
        return _with_exponent(doubles, precision)
    names = np.where(np.isnan(doubles), "NaN", np.where(doubles > 0, "Infinity", "-Infinity"))
    return pc.replace_with_mask(
        pa.array(names, pa.large_string()), pa.array(finite), _with_exponent(doubles[finite], precision)
    )


def _with_exponent(values: Doubles, precision: Precision) -> Text:
    """Each distinct value once."""
    distinct = pa.array(values).dictionary_encode()
    return _distinct(distinct.dictionary.to_numpy(), precision).take(distinct.indices)


def _distinct(values: Doubles, precision: Precision) -> Text:
    found = _without_zeros(decimals(np.abs(values), precision))
    shown = pc.cast(pa.array(found.significands), pa.large_string())
    behind = pc.binary_length(shown).to_numpy() - 1
    fractions = pc.if_else(pa.array(behind == 0), scalar("0"), pc.utf8_slice_codeunits(shown, 1))
    signs = pc.if_else(pa.array(np.signbit(values)), scalar("-"), scalar(""))
    exponents = pc.cast(pa.array(found.exponents + behind), pa.large_string())
    first = pc.utf8_slice_codeunits(shown, 0, 1)
    return join([signs, first, ".", fractions, "E", exponents], len(values))


def _without_zeros(found: Decimals) -> Decimals:
    significands, exponents = found.significands, found.exponents
    while (zeros := (significands % 10 == 0) & (significands != 0)).any():
        significands, exponents = np.where(zeros, significands // 10, significands), exponents + zeros
    return Decimals(significands, exponents)

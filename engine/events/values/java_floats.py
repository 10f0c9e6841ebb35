"""Columns of floats as the text that Java before 19 writes: `1.0`, `1.0E7`, `4.9E-324`, `NaN`.

All sources write their floats here, so a value gives the same text from each. `java_digits` computes the
digits of values with an exponent. From 0.001 to below 10,000,000 Java writes no exponent, and its digits are
the fewest that identify the value, as Arrow and databases write them too.
"""

from __future__ import annotations

from math import isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.events.values.java_digits import Decimals, decimals
from engine.events.values.java_exact import DOUBLE, FLOAT, Precision, digits
from engine.events.values.text import Text, join, scalar

if TYPE_CHECKING:
    from engine.events.values.java_digits import Doubles

LEAST_PLAIN, MOST_PLAIN = 1e-3, 1e7
"""Java writes no exponent from the first up to below the second, and for 0."""
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


def java_text(value: float) -> str:
    """The text of one double."""
    if LEAST_PLAIN <= abs(value) < MOST_PLAIN or value == 0:
        return repr(value)
    return _other_text(value, DOUBLE)


def _other_text(value: float, precision: Precision) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shown, point = digits(abs(value), precision)
    shown = shown.rstrip("0")
    return f"{'-' if value < 0 else ''}{shown[0]}.{shown[1:] or '0'}E{point - 1}"


def _others(values: pa.Array, precision: Precision) -> Text:
    """Values with an exponent, NaN and the infinities."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        doubles = values.to_numpy().astype(np.float64)
    if len(doubles) <= _FEW:
        return pa.array([_other_text(value, precision) for value in doubles.tolist()], pa.large_string())
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

"""Which types of columns have all values of which others, by their names in Spark's SQL. Pure."""

from __future__ import annotations

import re
from typing import Final

_WIDER: Final = {
    "smallint": ("int", "bigint"),
    "int": ("bigint",),
    "float": ("double",),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")


def holds(kind: str, values: str) -> bool:
    """Whether a column of a type holds all values of another type as they are."""
    if kind == values or kind in _WIDER.get(values, ()) or kind == "string":
        return True
    return wider_decimal(values, kind)


def wider_decimal(old: str, new: str, *, same_scale: bool = False) -> bool:
    """Whether a decimal type has all values of another."""
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before is None or after is None:
        return False
    digits, scale, more, finer = int(before[1]), int(before[2]), int(after[1]), int(after[2])
    return finer >= scale and more - finer >= digits - scale and (finer == scale or not same_scale)


def widens_simply(old: str, new: str) -> bool:
    """Whether a number's type can become a wider one of its kind, as both formats can."""
    return new in _WIDER.get(old, ())

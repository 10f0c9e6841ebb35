"""What the adapter's SQL conditions mean: those that `keyset.py` writes, run on rows in memory.

Only these forms occur: columns, literals with a type, comparisons of columns or rows, lists, NULL tests, AND,
OR and NOT. Whatever else comes is an error, never a guess.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LITERAL = re.compile(r""" ?E?'((?:[^']|'')*)'::"pg_catalog"\."(\w+)\"""")
_LIST = re.compile(r" IN \(((?:\([^()]*\)(?:, )?)+)\)")
_NAME = re.compile(r'"(\w+)"')
_WORDS = {" AND ": " and ", " OR ": " or ", "NOT ": "not ", "true": "True", "false": "False"}
_INTEGERS = {"int2", "int4", "int8"}


class _Null:
    """NULL: no comparison with it is true."""

    def _never(self, _other: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = _never
    __hash__ = None  # type: ignore[assignment]  # nothing compares equal


NULL = _Null()


def _value(found: re.Match[str]) -> str:
    text, kind = found[1].replace("''", "'"), found[2]
    if kind in _INTEGERS:
        return str(int(text))
    if kind == "tid":
        page, item = text[1:-1].split(",")
        return f"({int(page)}, {int(item)})"
    return repr(text)


@lru_cache(maxsize=5_000)
def condition(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """The condition as a function of a row."""
    python = _LITERAL.sub(_value, text)
    python = _LIST.sub(r" in [\1]", python)
    python = python.replace(" IS NOT DISTINCT FROM NULL", " is NULL").replace(
        " IS DISTINCT FROM NULL", " is not NULL"
    )
    python = re.sub(r"(?<![<>=!]) = ", " == ", python)
    for sql, word in _WORDS.items():
        python = python.replace(sql, word)
    python = _NAME.sub(r'row["\1"]', python)
    names = {"NULL": NULL, "coalesce": lambda value, _default: value, "__builtins__": {}}
    found: Callable[[Mapping[str, Any]], bool] = eval(f"lambda row: {python}", names)  # noqa: S307  our own text
    return found


def columns_of(order: str) -> tuple[list[str], bool]:
    """The columns of an ORDER BY, and whether it is descending."""
    return _NAME.findall(order), " DESC" in order


def table_of(relation: str) -> str:
    """The table's own name in a FROM clause."""
    return str(_NAME.findall(relation)[1])

"""What the adapter's T-SQL conditions mean: those that `keyset.py` writes, run on rows in memory.

Only these forms occur: columns, literals that are integers or simple texts, comparisons, NULL tests, AND and
OR. Whatever else comes is an error, never a guess.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tests.simulation.postgres.sql import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TEST = re.compile(r"\[(\w+)\] IS (NOT )?NULL")
_COMPARED = re.compile(r"\[(\w+)\] (=|<|>|<=|>=) CONVERT\(int, '(-?\d+)'\)")
_TEXT = re.compile(
    r"\[(\w+)\] (=|<|>|<=|>=) CONVERT\(varchar\(\d+\), N'([\w -]*)' COLLATE Latin1_General_BIN2\)"
)
_WORDS = {" AND ": " and ", " OR ": " or "}
_LEFT = re.compile(r"row\(\"\w+\"\) (==|<=|>=|<|>|is|is not) (-?\d+|'[\w -]*'|NULL)|1 == [01]|and|or|[() ]")


def _compared(found: re.Match[str]) -> str:
    operator = "==" if found[2] == "=" else found[2]
    literal = int(found[3]) if found.re is _COMPARED else repr(found[3])
    return f'row("{found[1]}") {operator} {literal}'


@lru_cache(maxsize=5_000)
def condition(text: str) -> Callable[[Mapping[str, Any]], bool]:
    """The condition as a function of a row. Raises ValueError for a form that is not known."""
    python = _TEST.sub(lambda found: f'row("{found[1]}") is {"not " if found[2] else ""}NULL', text)
    python = _TEXT.sub(_compared, _COMPARED.sub(_compared, python))
    python = re.sub(r"1 = ([01])", r"1 == \1", python)
    for sql, word in _WORDS.items():
        python = python.replace(sql, word)
    if _LEFT.sub("", python):
        raise ValueError(f"no known condition: {text}")
    names = {"NULL": NULL, "__builtins__": {}}
    test: Callable[[Any], bool] = eval(f"lambda row: {python}", names)  # noqa: S307  our own text
    return lambda values: test(lambda name: NULL if values[name] is None else values[name])

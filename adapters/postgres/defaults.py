"""The default of a column's schema from the text of the default's expression.

Only plain literals and calls of functions give one, and only for the types below; a function's
result is not known, so its type's empty value stands for it. Other than in Debezium 2.1.4 a doubled
quote is one quote, and a keyword such as CURRENT_USER is no default.
"""

from __future__ import annotations

import re

_LITERAL = re.compile(r"E?'((?:[^']|'')*)'", re.DOTALL)
_CALL = re.compile(r"[(]?[A-Za-z0-9_.\"]+\(.*\)", re.DOTALL)
_NUMBER = re.compile(r"[(]?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)[)]?(?:::.*)?", re.IGNORECASE)
_EPOCH = "1970-01-01 00:00:00"
_OF_CALLS = {
    "int2": "0",
    "int4": "0",
    "int8": "0",
    "float4": "0",
    "float8": "0",
    "numeric": "0.0",
    "bool": "f",
    "bpchar": "",
    "varchar": "",
    "text": "",
    "json": "{}",
    "jsonb": "{}",
    "xml": "",
    "uuid": "00000000-0000-0000-0000-000000000000",
    "date": "1970-01-01",
    "time": "00:00:00",
    "timestamp": _EPOCH,
    "timestamptz": f"{_EPOCH}+00",
    "interval": "00:00:00",
}
_LITERALS = frozenset({*_OF_CALLS, "bit", "varbit", "enum"})


def default_json(type_name: str, expression: str, typmod: int) -> str | None:
    """The default as the type's own text, ready for its conversion; None for no default.

    `type_name` is `enum` for any enumeration. Source: the rules of Debezium's default value converter.
    """
    if type_name not in _LITERALS or expression.upper().startswith("NULL::"):
        return None
    called = _CALL.fullmatch(_without_cast(expression))
    text = _OF_CALLS.get(type_name) if called else _literal(expression)
    if text is None:
        return None
    if type_name == "numeric":
        return _scaled(text, typmod)
    return text.rstrip(" ") if type_name == "bpchar" else text


def _scaled(text: str, typmod: int) -> str:
    """A decimal with as many digits of fraction as the column has."""
    scale = (typmod - 4) & 0x7FF
    whole, _, fraction = text.partition(".")
    if typmod == -1 or scale > 1000 or len(fraction) >= scale or not whole.lstrip("-").isdigit():
        return text
    return f"{whole}.{fraction.ljust(scale, '0')}"


def _without_cast(expression: str) -> str:
    return re.sub(r"::[\w\s\".]+(\(\d+(,-?\d+)?\))?(\[\])*$", "", expression)


def _literal(expression: str) -> str | None:
    if expression in {"true", "false"}:
        return expression[0]
    quoted = _LITERAL.match(expression.lstrip("(").removeprefix("B"))
    if quoted and "||" not in expression:
        return quoted[1].replace("''", "'")
    number = _NUMBER.fullmatch(expression)
    return number[1] if number else None

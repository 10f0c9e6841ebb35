"""The default of a column's schema, from the text of the default's expression.

Only plain literals, function calls and the clock's keywords yield a default, and only for the types below. A
function's result is unknown, so its type's empty value is used. Unlike Debezium 2.1.4, a doubled quote or
backslash counts as one character, and keywords such as CURRENT_USER and computed values yield no default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.postgres.server.table import PgType

_LITERAL = re.compile(r"\(*(?P<mark>[EB]?)'(?P<text>(?:[^']|'')*)'(?P<rest>.*)", re.DOTALL)
_CASTS = re.compile(r"(?:\)|::(?:\"(?:[^\"]|\"\")+\"|[\w\s.])+(?:\(\d+(?:,-?\d+)?\))?[\w\s]*)*")
_CLOCK = frozenset(("CURRENT_TIMESTAMP", "CURRENT_TIME", "CURRENT_DATE", "LOCALTIME", "LOCALTIMESTAMP"))
_CALL = re.compile(r"[(]?[A-Za-z0-9_.\"]+\(.*\)", re.DOTALL)
_NUMBER = re.compile(r"[(]?(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)[)]?(?:::.*)?", re.IGNORECASE)
_INTEGERS = frozenset(("int2", "int4", "int8"))
_WHOLE = re.compile(r"-?\d+")
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
    "bit": "0",
    "varbit": "0",
}
_TEXTS = frozenset(("bpchar", "varchar", "text", "json", "jsonb", "xml"))


def default_text(kind: PgType, expression: str, typmod: int, *, faulty: bool = False) -> str | None:
    """The default as the type's own text, ready for its conversion; None for no default.

    An enumeration's default must end in a cast to the type's plain name, as Debezium requires. `faulty`:
    texts as Debezium 2.1.4 takes them, including quotes and keywords.

    Source: the rules of Debezium's default value converter.
    """
    if kind.kind == "e":
        name = f"'::{kind.name}"
        if faulty and expression.startswith("'") and expression.endswith(name):
            return expression[1 : -len(name)]
        return _literal(expression) if expression.endswith(name) else None
    if kind.name not in _OF_CALLS or expression.upper().startswith("NULL::"):
        return None
    called = expression in _CLOCK or _CALL.fullmatch(_without_cast(expression))
    if faulty and not called and kind.name in _TEXTS:
        return _cut(expression)
    text = _OF_CALLS[kind.name] if called else _literal(expression)
    if text is not None and kind.name in _INTEGERS and not _WHOLE.fullmatch(text):
        return None  # such as 1.5: the server rounds it for each row
    return text if text is None or kind.name != "numeric" else _scaled(text, typmod)


def _cut(expression: str) -> str | None:
    """The text between the first two quotes, or the expression itself if it has no quotes."""
    found = re.search(r"'(.*?)'", expression)
    return found[1] if found else None if "'" in expression else expression


def _scaled(text: str, typmod: int) -> str:
    """A decimal padded to the column's number of fraction digits."""
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
    quoted = _LITERAL.fullmatch(expression)
    if quoted:
        text = quoted["text"].replace("''", "'")
        text = text.replace("\\\\", "\\") if quoted["mark"] == "E" else text
        return text if _CASTS.fullmatch(quoted["rest"]) else None
    number = _NUMBER.fullmatch(expression)
    return number[1] if number else None

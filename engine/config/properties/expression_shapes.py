"""The forms of properties that hold Java's regular expressions."""

from __future__ import annotations

import re

from engine.config.properties.shapes import Shape, names
from engine.expressions import checked, split_expressions


def _expressions(raw: str) -> tuple[str, ...]:
    return tuple(checked(expression) for expression in split_expressions(raw))


def _message_keys(raw: str) -> tuple[str, ...] | None:
    """An expression for each column, which matches the column's name with its table's.

    Debezium joins the two before it compiles them: `public.orders:*` is `public.orders.*`, all columns.
    Source: `Key.CustomKeyMapper` of Debezium 2.1.4.
    """
    found = [
        re.fullmatch(r"\s*([^\s:]+):([^:\s,][^:\s]*)\s*", entry) for entry in raw.split(";") if entry.strip()
    ]
    entries = [entry for entry in found if entry is not None]
    if len(entries) < len(found):
        return None
    return tuple(_column(entry[1], column) for entry in entries for column in names(entry[2]))


def _column(table: str, column: str) -> str:
    try:
        return checked(f"{table}.{column}")
    except ValueError as error:
        raise ValueError(f"{MESSAGE_KEYS.allowed}; '{table}:{column}': {error}") from error


EXPRESSIONS = Shape("a comma separated list of regular expressions", _expressions)
MESSAGE_KEYS = Shape("table:column,column pairs separated by semicolons", _message_keys)

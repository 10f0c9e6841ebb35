"""The forms of properties that hold Java's regular expressions."""

from __future__ import annotations

import re

from engine.config.properties.shapes import Shape, names
from engine.events.settings import MessageKey
from engine.expressions import checked, split_expressions


def _expressions(raw: str) -> tuple[str, ...]:
    return tuple(checked(expression) for expression in split_expressions(raw))


def _message_keys(raw: str) -> tuple[MessageKey, ...] | None:
    found = [
        re.fullmatch(r"\s*([^\s:]+):([^:\s,][^:\s]*)\s*", entry) for entry in raw.split(";") if entry.strip()
    ]
    entries = [entry for entry in found if entry is not None]
    if len(entries) < len(found):
        return None
    return tuple(MessageKey(checked(entry[1]), names(entry[2])) for entry in entries)


EXPRESSIONS = Shape("a comma separated list of regular expressions", _expressions)
MESSAGE_KEYS = Shape("table:column,column pairs separated by semicolons", _message_keys)

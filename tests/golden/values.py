"""Where two events differ: the first path whose values are not the same, with both.

Objects inside a schema keep the order of their fields, payloads need not. 1, 1.0, true and "1" are
four different values, as are 0.0 and -0.0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.golden.event import Event, Json, payload

if TYPE_CHECKING:
    from collections.abc import Sequence

_ABSENT = object()


def event_difference(expected: Event, actual: Event) -> str | None:
    """The first place where two masked events differ, as a path with both values."""
    if expected.topic != actual.topic:
        return f"expected {expected}, got {actual}"
    return (
        _document_difference("key", expected.key, actual.key)
        or _document_difference("value", expected.value, actual.value)
        or _value_difference("headers", list(expected.headers), list(actual.headers), ordered=True)
    )


def _document_difference(path: str, expected: Json, actual: Json) -> str | None:
    if payload(expected) is expected or payload(actual) is actual:
        return _value_difference(path, expected, actual, ordered=False)
    return _value_difference(
        f"{path}.payload", expected["payload"], actual["payload"], ordered=False
    ) or _value_difference(f"{path}.schema", expected["schema"], actual["schema"], ordered=True)


def _value_difference(path: str, expected: Json, actual: Json, *, ordered: bool) -> str | None:
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _object_difference(path, expected, actual, ordered=ordered)
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        return _list_difference(path, expected, actual, ordered=ordered)
    # by text, since 1 == 1.0 == True and 0.0 == -0.0
    return None if shown(expected) == shown(actual) else _unlike(path, expected, actual)


def _object_difference(
    path: str, expected: dict[str, Json], actual: dict[str, Json], *, ordered: bool
) -> str | None:
    for name in [*expected, *(name for name in actual if name not in expected)]:
        wanted, found = expected.get(name, _ABSENT), actual.get(name, _ABSENT)
        if wanted is _ABSENT or found is _ABSENT:
            return _unlike(f"{path}.{name}", wanted, found)
        inner = _value_difference(f"{path}.{name}", wanted, found, ordered=ordered)
        if inner is not None:
            return inner
    if ordered and list(expected) != list(actual):
        return _unlike(f"{path} (order of fields)", list(expected), list(actual))
    return None


def _list_difference(
    path: str, expected: Sequence[Json], actual: Sequence[Json], *, ordered: bool
) -> str | None:
    for number, (wanted, found) in enumerate(zip(expected, actual, strict=False)):
        inner = _value_difference(f"{path}[{_label(wanted, number)}]", wanted, found, ordered=ordered)
        if inner is not None:
            return inner
    if len(expected) != len(actual):
        return _unlike(f"{path} (length)", len(expected), len(actual))
    return None


def _label(item: Json, number: int) -> str:
    """A field of a schema is called by its name, anything else by its number."""
    return str(item["field"]) if isinstance(item, dict) and "field" in item else str(number)


def _unlike(path: str, expected: Json, actual: Json) -> str:
    return f"{path}: expected {shown(expected)}, got {shown(actual)}"


def shown(value: Json) -> str:
    """A value as JSON text, by which values are told apart."""
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)

"""The fields of a signal's data, read as the type that each must have. Errors name the field."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, TypeAlias

import orjson

from engine.errors import SignalError
from engine.saved import LARGEST
from signals.parse.budget import MAX_DATA, MAX_NOTES, check_depth
from signals.parse.kinds import kind, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

Fields: TypeAlias = dict[str, object]


def object_of(data: str | None, most: int = MAX_DATA) -> Fields:
    """The data as a JSON object of at most this many characters. Raises SignalError if it is none."""
    if data is None or not data.strip():
        what = "NULL" if data is None else "empty"
        raise SignalError(f"the data is {what}", hint="it must be a JSON object")
    if len(data) > most:
        raise SignalError(f"the data has {len(data)} characters, at most {most} are read")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        message = f"the data is no valid JSON: {exc.msg} at character {exc.pos + 1}"
        raise SignalError(message, hint="check quotes and braces") from exc
    check_depth(value, "the data")
    if not isinstance(value, dict):
        raise SignalError(f"the data must be a JSON object, not {kind(value)}")
    return value


def ignored(fields: Fields, known: tuple[str, ...]) -> tuple[str, ...]:
    """Notes on the fields that are not known."""
    stray = [name for name in fields if name not in known]
    return first_notes(
        [
            f"the field {shown(name)} has no effect{did_you_mean(name.lower(), known)}"
            for name in stray[:MAX_NOTES]
        ],
        len(stray),
    )


def first_notes(notes: list[str], total: int) -> tuple[str, ...]:
    """The first notes, and a note on how many more there are."""
    more = total - len(notes[:MAX_NOTES])
    return (*notes[:MAX_NOTES], *([f"{more} more such notes"] if more > 0 else []))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question to add if a word is like a known one; otherwise empty."""
    similar = difflib.get_close_matches(word[:100], list(known), n=1, cutoff=0.75)
    return f" (did you mean {similar[0]!r}?)" if similar else ""


def text_in(fields: Fields, name: str) -> str | None:
    """The text of a field; None if it is missing, null or blank."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise SignalError(f"{name!r} must be a string, not {kind(value)}")
    if "\0" in value:
        raise SignalError(f"{name!r} holds a NUL character")
    return value if value.strip() else None


def integer_in(fields: Fields, name: str, least: int, most: int = LARGEST) -> int | None:
    """A whole number from `least` to `most`; None if the field is missing or null."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise SignalError(f"{name!r} must be a whole number, not {kind(value)}")
    if not least <= value <= most:
        raise SignalError(f"{name!r} must be from {least} to {most}")
    return value


def flag_in(fields: Fields, name: str) -> bool:
    """True or false; false if the field is missing or null."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise SignalError(f"{name!r} must be true or false, not {kind(value)}")
    return bool(value)


def array_in(fields: Fields, name: str) -> list[object] | None:
    """The items of a field; None if it is missing or null."""
    value = fields.get(name)
    if value is not None and not isinstance(value, list):
        raise SignalError(f"{name!r} must be an array, not {kind(value)}")
    return value

"""The scope of a signal in a relational table: its keys from JSON to text, checked against the key's columns.

Owns what a value of a signal's key may be. How a database reads the text as a value of the column's type is
its adapter's concern.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

from engine.errors import SignalError
from engine.model import Range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import CollectionId, JsonKey, Key, Scope, Stretch


class JsonKind(StrEnum):
    """The JSON type of a column's values. A string stands for a value of any type."""

    NUMBER = "a number or a string"
    BOOLEAN = "a boolean or a string"
    STRING = "a string"


@dataclass(frozen=True, slots=True)
class ScopeColumn:
    """A column of the key that cuts a table."""

    name: str
    kind: JsonKind
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class ScopeTexts:
    """A scope with its values as text. The ranges may overlap, and lack the bounds that the signal lacks."""

    keys: tuple[Key, ...] = ()
    ranges: tuple[Range, ...] = ()

    @property
    def bounds(self) -> list[Key]:
        """The bounds that there are, in order."""
        return [bound for part in self.ranges for bound in (part.after, part.upto) if bound is not None]


def texts_of(scope: Scope, columns: Sequence[ScopeColumn], collection: CollectionId) -> ScopeTexts:
    """The scope as text. Raises SignalError, which never shows a value."""
    keys = dict.fromkeys(key_of(key, columns, collection) for key in scope.keys)
    return ScopeTexts(tuple(keys), tuple(_range(part, columns, collection) for part in scope.stretches))


def _range(part: Stretch, columns: Sequence[ScopeColumn], collection: CollectionId) -> Range:
    bounded = [column if not column.nullable else _filled(column) for column in columns]
    return Range(
        after=None if part.start is None else key_of(part.start, bounded, collection),
        upto=None if part.end is None else key_of(part.end, bounded, collection),
        holds_after=part.start is not None,
        lacks_upto=part.end is not None,
    )


def _filled(column: ScopeColumn) -> ScopeColumn:
    """The column for bounds, which are not NULL."""
    return ScopeColumn(column.name, column.kind)


def key_of(key: JsonKey, columns: Sequence[ScopeColumn], collection: CollectionId) -> Key:
    """A key as text, column by column. Raises SignalError if it does not fit the columns."""
    if len(key) != len(columns):
        names = ", ".join(column.name for column in columns)
        raise SignalError(
            f"a key of the signal has {len(key)} values, and the key that the table is read by has"
            f" {len(columns)}: {names}",
            where=collection,
        )
    return tuple(_value(text, column, collection) for text, column in zip(key, columns, strict=True))


def _value(text: str, column: ScopeColumn, collection: CollectionId) -> str | None:
    if text.startswith('"'):
        value: str = orjson.loads(text)
        return value
    if text == "null" and column.nullable:
        return None
    number = text[:1] == "-" or text[:1].isdigit()
    if number and column.kind is JsonKind.NUMBER:
        return text
    if text in {"true", "false"} and column.kind is JsonKind.BOOLEAN:
        return text
    raise SignalError(
        f"a value for the key column {column.name!r} must be {column.kind}, not {_kind(text, number=number)}",
        where=collection,
    )


def _kind(text: str, *, number: bool) -> str:
    if number:
        return "a number"
    return {"n": "null", "t": "a boolean", "f": "a boolean", "[": "an array"}.get(text[:1], "an object")

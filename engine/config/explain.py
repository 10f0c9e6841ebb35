"""What becomes of each property of a file, for an operator to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.config.catalogue import catalogue_of
from engine.config.properties.row import Kind, Property
from engine.config.text.hidden import is_secret, shown_value
from engine.config.text.mask import MASK, shown_name

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Explained:
    """A property as it may be printed; `given` is False for a default."""

    name: str
    value: str
    kind: Kind
    text: str
    given: bool


def explain(properties: Mapping[str, str], *, defaults: bool = False) -> tuple[Explained, ...]:
    """How each known property in the file is handled, and with `defaults` all others.

    Those in the file come first, in its order. Secrets are masked.
    """
    catalogue = catalogue_of(properties)
    given = tuple(_given(row, name, properties[name]) for name in properties if (row := catalogue.find(name)))
    if not defaults:
        return given
    return given + tuple(
        _default(row) for row in catalogue.rows if row.name not in properties and _has_default(row)
    )


def _given(row: Property, name: str, value: str) -> Explained:
    return Explained(shown_name(name), shown_value(name, value), _kind(row, value), row.text, given=True)


def _kind(row: Property, value: str) -> Kind:
    """The kind of a given property. One with a single allowed value is accepted if it has that value."""
    if row.kind not in {Kind.REFUSED, Kind.LATER_REFUSED}:
        return row.kind
    try:
        read = row.shape.read(value)
    except ValueError:
        return row.kind
    return Kind.ACCEPTED if read == row.standard() else row.kind


def _default(row: Property) -> Explained:
    value = MASK if is_secret(row.name, row.default) else row.default
    return Explained(row.name, value, row.kind, row.text, given=False)


def _has_default(row: Property) -> bool:
    return row.kind is Kind.APPLIED and not row.is_pattern and row.default != ""

"""The `column.truncate.*` and `column.mask.*` properties, whose names carry the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.config.properties.shapes import whole
from engine.config.text.mask import shown_name
from engine.events.settings import ColumnMask

if TYPE_CHECKING:
    from engine.config.properties.values import Values

ALGORITHMS = (
    *("MD5", "SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512", "SHA-512/224", "SHA-512/256"),
    *("SHA3-224", "SHA3-256", "SHA3-384", "SHA3-512"),
)
"""Java's names of the hash algorithms that Python has too."""


def column_masks(values: Values) -> tuple[ColumnMask, ...]:
    """The masks in Debezium's order, truncations first. Faults are added to the problems."""
    return (
        *_by_length(values, "column.truncate.to.<length>.chars", truncate=True),
        *_by_length(values, "column.mask.with.<length>.chars", truncate=False),
        *_hashes(values, "column.mask.hash.<algorithm>.with.salt.<salt>", version=1),
        *_hashes(values, "column.mask.hash.v2.<algorithm>.with.salt.<salt>", version=2),
    )


def _by_length(values: Values, pattern: str, *, truncate: bool) -> list[ColumnMask]:
    masks = []
    shape = whole(1 if truncate else 0, 2**31 - 1)
    for (length,), columns in values.group(pattern):
        characters = shape.convert(length)
        if isinstance(characters, int):
            masks.append(ColumnMask(_texts(columns), length=characters, truncate=truncate))
        else:
            name = pattern.replace("<length>", length)
            values.problems.append(f"{name!r}: the length {length!r} must be {shape.allowed}")
    return masks


def _hashes(values: Values, pattern: str, *, version: int) -> list[ColumnMask]:
    masks = []
    for (algorithm, salt), columns in values.group(pattern):
        known = {"SHA": "SHA-1"} | {name: name for name in ALGORITHMS}
        if algorithm.upper() in known:
            found = known[algorithm.upper()]
            masks.append(ColumnMask(_texts(columns), hash=found, salt=salt, version=version))
        else:
            name = shown_name(pattern.replace("<algorithm>", algorithm))
            values.problems.append(f"{name!r}: no hash {algorithm!r}; known: {', '.join(ALGORITHMS)}")
    return masks


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else ()

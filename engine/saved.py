"""Strict reading of what adapters and channels keep in the saved state. Pure.

`engine.job.saved.state` owns the document. The parts that others keep in it are theirs to interpret. They may
have been written by another release, edited by hand or damaged by a failing disk. So a value is accepted only
if it has the type that was saved.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from engine.errors import StateError, without_values
from engine.model import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST: Final = 2**63 - 1
"""The largest signed 64-bit number: for offsets, times, counters."""
Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""A whole number from 0 to LARGEST."""
_T = TypeVar("_T")
_WRONG: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException)


@contextmanager
def reading_saved(what: str) -> Iterator[None]:
    """Turn any fault in saved values into a StateError that quotes none of them."""
    try:
        yield
    except _WRONG as error:
        told = str(error) if isinstance(error, msgspec.ValidationError) else without_values(error)
        raise StateError(
            f"{what} can't be read: {told}",
            hint="was the state changed by hand, or saved by another release?",
        ) from error


def read_as(value: object, kind: type[_T]) -> _T:
    """A value of exactly this type, element by element. Raises ValueError with the place of the fault."""
    return msgspec.convert(value, kind)


def read_integer(value: object, *, most: int = LARGEST) -> int:
    """An integer from 0 to `most`. Raises TypeError or ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("not a number")
    if not 0 <= value <= most:
        raise ValueError("a number out of bounds")
    return value


def read_text(value: object) -> str:
    """A string. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def read_texts(value: object) -> tuple[str, ...]:
    """A list of strings. Raises TypeError."""
    if not isinstance(value, list | tuple):
        raise TypeError("not a list")
    return tuple(read_text(element) for element in value)


def read_position(value: object) -> Position | None:
    """A position in an adapter's memory. Only the adapter can tell whether its log has such positions."""
    if not value:
        return None
    if not isinstance(value, list | tuple):
        raise TypeError("not a position")
    return Position(tuple(value))


def saved_position(position: Position | None) -> list[int | str] | None:
    """The form of a position in an adapter's memory."""
    return None if position is None else list(position.order)


def read_mapping(value: object) -> dict[str, Any]:
    """An object with strings as names. Raises TypeError."""
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return {read_text(name): element for name, element in value.items()}

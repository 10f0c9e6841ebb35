"""Java's behaviour where it shows in events: the iteration order of a `HashMap`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def hash_order(items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """The items in the iteration order of a `HashMap` into which they were put one by one, by name."""
    entries = list(items)
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    return sorted(entries, key=lambda item: _spread(name(item)) & capacity - 1)


def _spread(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value ^ value >> 16

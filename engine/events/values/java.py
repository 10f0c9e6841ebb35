"""What Java does where its habits show in events: the order in which a `HashMap` gives its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


def hash_order(items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """The items as a `HashMap` gives them that they were put into one after the other, by name."""
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

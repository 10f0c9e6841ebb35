"""Shrinks a failing script, as long as what remains still fails. Pure except for the playing.

It may remove a whole round, half of a list, or one item. Tables keep their places, since steps refer to them,
but may become empty.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.torture.script import Round, Script, Transaction

Item = TypeVar("Item")
_LISTS = ("kills", "restarts", "breaks", "blows", "strikes", "signals", "writers")


def shrunk(script: Script, fails: Callable[[Script], bool]) -> Iterator[Script]:
    """Ever smaller scripts that still fail, each found from the last; ends when none does."""
    found: Script | None = script
    while found is not None:
        script = found
        found = next((candidate for candidate in smaller(script) if fails(candidate)), None)
        if found is not None:
            yield found


def smaller(script: Script) -> Iterator[Script]:
    """Scripts with something removed, the smallest first."""
    for rounds in _less(script.rounds):
        yield replace(script, rounds=rounds)
    for fuses in _less(script.fuses):
        yield replace(script, fuses=fuses)
    if script.slice_bytes:
        yield replace(script, slice_bytes=0)
    for place, round_ in enumerate(script.rounds):
        for less in _smaller_round(round_):
            yield replace(script, rounds=_with(script.rounds, place, less))
    for place, shape in enumerate(script.tables):
        if shape.rows:
            tables = _with(script.tables, place, replace(shape, rows=shape.rows // 4))
            yield replace(script, tables=tables)


def _smaller_round(one: Round) -> Iterator[Round]:
    if one.aims:
        yield replace(one, aims=0)
    if one.stalls:
        yield replace(one, stalls=0)
    for name in _LISTS:
        for less in _less(getattr(one, name)):
            changed: dict[str, Any] = {name: less}
            yield replace(one, **changed)
    for place, writer in enumerate(one.writers):
        for less in chain(_less(writer), _with_smaller(writer)):
            yield replace(one, writers=_with(one.writers, place, less))


def _with_smaller(writer: list[Transaction]) -> Iterator[list[Transaction]]:
    for place, transaction in enumerate(writer):
        for steps in _less(transaction.steps):
            if steps:
                less = replace(transaction, steps=steps, savepoint=None)
                yield _with(writer, place, less)


def _less(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The list without one half, then without each quarter, and so on down to single items."""
    size = len(items)
    while size:
        size = (size + 1) // 2
        for start in range(0, len(items), size):
            yield [*items[:start], *items[start + size :]]
        if size == 1:
            return


def _with(items: Sequence[Item], place: int, item: Item) -> list[Item]:
    return [*items[:place], item, *items[place + 1 :]]

"""Cuts a failing history down to the steps that matter: fewer steps first, then smaller ones.

The same invariant must stay violated, not with the very message: a smaller history may name other rows.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

from tests.simulation.script import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MOST_TRIES = 3_000


def shrunk(history: History, invariant_of: Callable[[History], object], most: int = _MOST_TRIES) -> History:
    """The smallest history found that still violates the same invariant, after `most` tries."""
    tries, wanted = 0, invariant_of(history)

    def still(candidate: History) -> bool:
        nonlocal tries
        tries += 1
        return tries <= most and invariant_of(candidate) == wanted

    before = None
    while before != history and tries < most:
        before = history
        history = _fewer(history, still)
        for candidate in _smaller(history):
            if len(candidate.steps) == len(history.steps) and still(candidate):
                history = candidate
    return history


def _fewer(history: History, fails: Callable[[History], bool]) -> History:
    """Leave out ever smaller pieces, from the end."""
    size = max(1, len(history.steps) // 2)
    while size:
        end = len(history.steps)
        while end > 0:
            begin = max(0, end - size)
            candidate = replace(history, steps=history.steps[:begin] + history.steps[end:])
            if fails(candidate):
                history = candidate
            end = begin
        size //= 2
    return history


def _smaller(history: History) -> Iterator[History]:
    """The history with one simpler setting, or one smaller step."""
    default = type(history.setup)()
    for field in fields(default):
        if getattr(history.setup, field.name) != getattr(default, field.name):
            yield replace(history, setup=replace(history.setup, **{field.name: getattr(default, field.name)}))
    for at, step in enumerate(history.steps):
        for less in _less(step):
            yield replace(history, steps=(*history.steps[:at], less, *history.steps[at + 1 :]))


def _less(step: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    if step[0] == "go" and isinstance(step[1], int) and step[1] > 1:
        yield ("go", step[1] // 2)
        yield ("go", step[1] - 1)
    changes = [at for at, part in enumerate(step) if isinstance(part, tuple)]
    if len(changes) > 1:
        for at in changes:
            yield step[:at] + step[at + 1 :]

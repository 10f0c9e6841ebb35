"""What replaces a guard is called as the guard is: a mutant that breaks the job by itself proves nothing."""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import Any

import pytest

from tests.torture.guards import GUARDS

PATCHES = [
    pytest.param(*patch, id=f"{source}: {name}")
    for source, known in GUARDS.items()
    for name, mutant in known.items()
    for patch in mutant.patches
    if inspect.isroutine(getattr(patch[0], patch[1]))
]


def arguments(function: Any) -> tuple[list[None], dict[str, None]]:
    """What callers pass to a function, by position and by name."""
    parameters = inspect.signature(function).parameters.values()
    positional = [None for parameter in parameters if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD]
    return positional, {
        parameter.name: None for parameter in parameters if parameter.kind is Parameter.KEYWORD_ONLY
    }


@pytest.mark.parametrize(("where", "attribute", "made"), PATCHES)
def test_a_replacement_takes_what_the_guard_takes_and_gives_something_where_it_does(
    where: Any, attribute: str, made: Any
):
    guard = getattr(where, attribute)
    replacement = inspect.signature(made(guard))
    positional, named = arguments(guard)
    replacement.bind(*positional, **named)

    gives_nothing = inspect.signature(guard).return_annotation == "None"
    assert gives_nothing or replacement.return_annotation != "None"

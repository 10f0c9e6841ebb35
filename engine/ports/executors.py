"""The port of executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Item = TypeVar("Item")


Result = TypeVar("Result")


class Executors(Protocol):
    """Where tasks run."""

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run a task on every item, in parallel if possible. Returns the results in the items' order."""

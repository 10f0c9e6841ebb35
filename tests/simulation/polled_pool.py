"""Reads a window in the calls that ask whether it is read, in the place of a thread."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class SimPool(Executor):
    """Runs a window's reading once it was asked for often enough whether it is done.

    That it is done is told `lingers` questions later.
    """

    def __init__(self, polls: int, lingers: int = 0) -> None:
        self._polls, self._lingers = polls, lingers

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Begin the reading; what comes behind it (the removal of its rows) is done at once."""
        if self._polls < 0:
            function(*arguments, **named)
            return Future()
        reading = _Reading(lambda: function(*arguments, **named), self._polls, self._lingers)
        self._polls = -1
        return reading

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  the port's
        """Nothing is left."""


class _Reading(Future[Any]):
    """A reading that ends when it is asked about often enough."""

    def __init__(self, read: Callable[[], Any], polls: int, lingers: int) -> None:
        super().__init__()
        self._read, self._polls, self._begun = read, polls, False
        self._lingers = lingers

    def done(self) -> bool:
        """Whether the rows are read; the last question before reads them."""
        self._polls -= 1
        if not super().done() and self._polls < 0 and not self._begun:
            self._begun = True
            try:
                self.set_result(self._read())
            except Exception as error:  # noqa: BLE001  as a thread does
                self.set_exception(error)
        return super().done() and self._polls < -self._lingers

    def result(self, timeout: float | None = None) -> Any:
        """The result; whoever waits for it has it read."""
        self._lingers = 0
        while not self.done():
            pass
        return super().result(timeout)

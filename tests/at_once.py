"""Runs in the thread that asks what runs in another otherwise, for tests that turn a job by hand."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class AtOnce(Executor):
    """Runs what is submitted before it returns."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Run it."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001  as a thread does
            done.set_exception(error)
        return done

"""A comparison that goes on in a thread of its own while the stream goes on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import repeat
from threading import Event
from typing import TYPE_CHECKING, Protocol, TypeVar

from engine.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from engine.verify.copy import Findings

Rows = TypeVar("Rows")


class Cancellable(Protocol):
    """A connection on which statements may go on."""

    def cancel(self) -> None:
        """Cancel the statement that goes on, from any thread."""

    def close(self) -> None:
        """Close it."""


class ThreadedComparison(ABC):
    """Implements `Comparison`. A subclass says what the thread does, which begins with `__init__`.

    The thread uses `connection`, if there is one, and closes it.
    """

    def __init__(self, connection: Cancellable | None = None) -> None:
        self._connection, self._given_up = connection, Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tidemark-verify")
        self._found: Future[Findings] = self._pool.submit(copy_context().run, self._run)

    @abstractmethod
    def _run(self) -> Findings:
        """Compare, in the thread."""

    def poll(self) -> Findings | None:
        """What was found, once it is."""
        return self._found.result() if self._found.done() else None

    def close(self) -> None:
        """Forget it, and cancel the statement that goes on. Tasks that run end by themselves."""
        self._given_up.set()
        never_began = self._found.cancel()
        if self._connection is not None:
            if never_began:
                self._connection.close()
            elif not self._found.done():
                self._connection.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _while_wanted(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        """The rows. Raises SourceError once the comparison was given up."""
        for some in rows:
            if self._given_up.is_set():
                raise SourceError("the comparison was given up")
            yield some

    def _moments(self, pause_s: float) -> Iterator[None]:
        """Yield at once, and again after each pause. Raises SourceError once the comparison was given up."""
        for _ in self._while_wanted(repeat(None)):
            yield
            self._given_up.wait(pause_s)

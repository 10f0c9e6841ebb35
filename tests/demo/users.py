"""The demo's users: threads that write at a rate until they are stopped. Databases say what."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

_THREADS = 2


class Customer(Protocol):
    """One user's choices."""

    statements: int
    """How many statements the last call of `act` executed."""

    def act(self) -> int:
        """Execute one transaction; gives the rows or documents written, 0 if it was rolled back."""


class Users:
    """A write load from entering the context until `stop`, at about `per_s` writes/s."""

    def __init__(self, customer: Callable[[int], AbstractContextManager[Customer]], per_s: float) -> None:
        self._customer = customer
        self._pause_s = _THREADS / per_s
        self._stop = threading.Event()
        self._faults: list[BaseException] = []
        self._written = [0] * _THREADS
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"user {number}", daemon=True)
            for number in range(_THREADS)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def written(self) -> int:
        """Rows or documents written and committed so far."""
        return sum(self._written)

    def stop(self) -> int:
        """End the load; gives what was written. Raises what a user died of."""
        self.__exit__()
        self.check()
        return self.written

    def check(self) -> None:
        """Raise what a user died of."""
        if self._faults:
            raise self._faults[0]

    def _run(self, number: int) -> None:
        try:
            with self._customer(number) as customer:
                self._write(number, customer)
        except BaseException as fault:  # noqa: BLE001  (told to whoever asks next)
            self._faults.append(fault)

    def _write(self, number: int, customer: Customer) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            self._written[number] += customer.act()
            due += self._pause_s * customer.statements
            self._stop.wait(max(0.0, due - time.monotonic()))

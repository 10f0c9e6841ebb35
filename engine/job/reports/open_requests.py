"""The requests of which something is left to read, each with its targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.model import Target
    from engine.snapshot.queue_entry import Request, Table

MOST_NAMED: Final = 1_000
"""How many collections a notification names; a snapshot of more would make them too large for a topic."""


@dataclass(slots=True)
class OpenRequests:
    """What is left of each request. A target leaves when its entry has left the queue."""

    _targets: dict[Request, dict[Target, None]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget all requests."""
        self._targets = {}

    def begin(self, request: Request, targets: Iterable[Target]) -> None:
        """Add a request, or begin it again."""
        self._targets[request] = dict.fromkeys(targets)

    def add(self, request: Request, target: Target) -> None:
        """Add a target to what is left of a request."""
        self._targets.setdefault(request, {})[target] = None

    def join(self, table: Table) -> None:
        """Add an entry to what is left of its requests."""
        for request in table.requests:
            self.add(request, table.target)

    def leave(self, table: Table) -> list[Request]:
        """Remove an entry. Returns the requests of which nothing is left now."""
        completed = []
        for request in table.requests:
            left = self._targets.get(request)
            if left is None:
                continue
            left.pop(table.target, None)
            if not left:
                del self._targets[request]
                completed.append(request)
        return completed

    def has(self, table: Table) -> bool:
        """Whether the entry is left of any of its requests."""
        return any(table.target in self._targets.get(request, ()) for request in table.requests)

    def names(self, request: Request) -> str:
        """The collections that are left of a request, as text."""
        return named(self._targets.get(request, ()))


def request_id(request: Request) -> str:
    """What its sender calls a signal; else its label."""
    return request.signal if request.id is None else request.id


def named(targets: Iterable[Target]) -> str:
    """The names of these collections as text, for as many as a notification may name."""
    return ",".join(str(target.collection) for target in islice(targets, MOST_NAMED))

"""Connections for the questions of threads beside the job's, kept for a while between windows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from adapters.source.spare_sessions import SpareSessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from adapters.sqlserver.server.questions import Questions

_Told = TypeVar("_Told")


class SpareConnections:
    """Connections to each of the databases; `open_one` opens one. Any thread may ask over them."""

    def __init__(
        self,
        databases: Iterable[str],
        open_one: Callable[[str], Questions],
        clock: Callable[[], float],
    ) -> None:
        self._spare = {name: SpareSessions(partial(open_one, name), clock, kept=1) for name in databases}

    def ask(self, databases: Sequence[str], asks: Callable[[Callable[[str], Questions]], _Told]) -> _Told:
        """Let `asks` ask these databases. Connections that a question failed on are closed."""
        taken: dict[str, Questions] = {}
        try:
            for name in databases:
                taken[name] = self._spare[name].take()
            told = asks(taken.__getitem__)
        except BaseException:
            for questions in taken.values():
                questions.close()
            raise
        for name, questions in taken.items():
            self._spare[name].give(questions)
        return told

    def trim(self) -> None:
        """Close connections that nobody has used for a while."""
        for spare in self._spare.values():
            spare.trim()

    def empty(self) -> None:
        """Close the connections that are kept."""
        for spare in self._spare.values():
            spare.empty()

    def close(self) -> None:
        """Keep no connections any more."""
        for spare in self._spare.values():
            spare.close()

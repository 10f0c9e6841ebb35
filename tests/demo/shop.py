"""What the demo needs of a database, whichever it is: rows, users who write, a signal, and a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from engine.job.saved.state import State
    from tests.demo.load import Load
    from tests.demo.users import Users
    from tests.replay import Compared, Figures


class Shop(Protocol):
    """The demo's database, before and while a job streams it."""

    names: tuple[str, ...]
    """What is to be read, as signals name it."""
    units: str
    """What its rows are called."""

    def prepare(self, load: Load) -> str:
        """Make everything; gives in words what the job may do."""

    def properties(self) -> dict[str, str]:
        """The properties of the job's source."""

    def streams(self, state: State | None) -> bool:
        """Whether the job has begun to stream."""

    def users(self, load: Load) -> Users:
        """The write load, not yet begun."""

    def signal(self, data: dict[str, Any]) -> str:
        """Send an execute-snapshot signal; gives what was done, in words that can be copied."""

    def lag(self) -> AbstractContextManager[Callable[[State | None], float]]:
        """Tells how many seconds the stream is behind the writers."""

    def end(self) -> tuple[str, Callable[[State | None], bool]]:
        """The log's end as it is now, in words, and whether a job has come to it."""

    def compared(self, events: Path) -> tuple[Figures, list[Compared], list[str]]:
        """The events replayed and laid beside the database; a few differences, for a reader."""

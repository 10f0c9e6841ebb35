"""What a sink keeps, as a copy of the source that verifications compare.

A sink that can be compared implements `KeepsCopy`, which is all that a verification knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from adapters.verify.events.copied_events import Traits
    from engine.clock import Clock
    from engine.ports.executors import Executors
    from engine.verify.copy import Copy

NOT_SHARED: Final = "executors must share the directories of the sink and of the staging"
"""Why a sink can't be compared whose tasks read the driver's files."""


@dataclass(frozen=True, slots=True)
class CopyTools:
    """What the copies of a job work with.

    - `executors` run their tasks, which read and write the driver's files if `shared_disk`
    - below `staging` files wait; what the job's next session goes on with is in the directory `verified`
    - `clock` is the job's
    - `database` has all collections, if their names don't have it
    """

    executors: Executors
    staging: str
    verified: str
    clock: Clock
    shared_disk: bool
    database: str = ""

    @property
    def work(self) -> str:
        """Where the files of the sink's own copy wait."""
        return f"{self.staging}/compared"


@runtime_checkable
class KeepsCopy(Protocol):
    """A sink whose content can be compared with its source."""

    def copy(self, tools: CopyTools, traits: Traits, /) -> Copy | str:
        """Its content as a copy, or why it can't be compared here.

        `traits` are those of the source's events.
        """

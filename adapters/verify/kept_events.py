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
    """What a copy works with.

    - `executors` run its tasks, which read and write the driver's files if `shared_disk`
    - below `work` files wait; what the job's next session goes on with is in the directory `verified`
    - `clock` is the job's
    - `traits` are those of the source's events
    - `database` has all collections, if their names don't have it
    """

    executors: Executors
    work: str
    verified: str
    clock: Clock
    shared_disk: bool
    traits: Traits
    database: str = ""


@runtime_checkable
class KeepsCopy(Protocol):
    """A sink whose content can be compared with its source."""

    def copy(self, tools: CopyTools) -> Copy | str:
        """Its content as a copy, or why it can't be compared here."""

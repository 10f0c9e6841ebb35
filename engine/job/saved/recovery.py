"""What a state knows of a loss of its log, as a value. Pure. `engine.job.recovery` has what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from engine.errors import Loss  # noqa: TC001  msgspec reads it

PREFIX: Final = "tidemark-recovery-"
"""How the label of a recovery's repairs begins; the number of a turn follows."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A loss of the log. Whatever turns up to `turn` have sent came from the log before.

    `why` is the source's reason. `since` is the position that the stream had reached, as the source shows it,
    or empty if that is not known. `begun` says whether a new log has begun.
    """

    loss: Loss
    why: str
    since: str
    turn: int
    begun: bool = False

    @property
    def label(self) -> str:
        """The label and id of its repairs."""
        return f"{PREFIX}{self.turn}"

    def __str__(self) -> str:
        since = f" after {self.since}" if self.since else ""
        return f"the log is lost{since} ({self.loss}): {self.why}"

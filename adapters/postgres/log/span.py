"""A span of the log: what a turn takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adapters.postgres.log.assembler import Commit, Cut
    from engine.model import Position


@dataclass(frozen=True, slots=True)
class Span:
    """The entries of `(start, end]`, in parts; `committed_at_s` is the last commit's time."""

    start: Position
    end: Position
    cuts: tuple[Cut, ...]
    committed_at_s: float
    last_commit_end: int | None
    last_commit: Commit | None = None

    @property
    def entries(self) -> int:
        """The number of row, truncate and message entries in the span."""
        return sum(cut.entries for cut in self.cuts)

    @property
    def silent(self) -> bool:
        """Whether only the position moved."""
        return not self.cuts

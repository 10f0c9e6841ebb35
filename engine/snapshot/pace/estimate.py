"""What a snapshot would read, and how long it would take: the plan that a dry run answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.snapshot.extent import Extent


@dataclass(frozen=True, slots=True)
class Speed:
    """Rows per second. It is `assumed` while no window was read and no limit is known to be lower."""

    rows_per_s: float
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a snapshot of a collection would read. `rows` and `bytes` are the database's estimates."""

    rows: int
    bytes: int
    chunks: int
    speed: Speed

    @property
    def seconds(self) -> float:
        """How long reading would take once it begins."""
        return self.rows / max(self.speed.rows_per_s, 1e-9)


def estimate(extent: Extent, chunk_rows: int, speed: Speed) -> Estimate:
    """The estimate for a collection that was measured."""
    rows = extent.asked_rows
    return Estimate(rows, extent.asked_bytes, ceil(rows / chunk_rows), speed)

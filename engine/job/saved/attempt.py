"""What a state knows of a turn that may have been sent without it, as a value. Pure.

Not every sink can tell after a restart whether it has taken a turn. Such a turn is sent again:

    state n-1 ───── turn n: taken by the sink ──x  its state was not promoted
              ───── turn n again, perhaps shorter ────► turn n+1 … ────► past the attempt: it is forgotten

Until the job has come past the attempt, the server may be restored, or replaced by a standby that lags. Then
consumers may hold changes that its log lacks, although the log reaches back to the state. So what the attempt
has reached is checked at each start like the state itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.model import Position  # noqa: TC001  msgspec reads it


@dataclass(frozen=True, slots=True)
class Attempt:
    """A turn that may have been sent: the position that it reached, and the source's memory there."""

    position: Position
    memory: dict[str, Any]

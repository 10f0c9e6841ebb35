"""Whether a job lives, and whether it is ready, each with the reasons. Pure.

The reasons name no host, no table and no value, since these checks are answered without a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.http.history import STALLED_S
from engine.job.reports.tally import JobPhase

if TYPE_CHECKING:
    from adapters.http.monitor import Monitor


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a check: it is good if there are no reasons against it."""

    reasons: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.reasons


_WAITS = {
    JobPhase.STARTING: "the job starts",
    JobPhase.STANDING_BY: "the job stands by: another one holds the lease",
    JobPhase.OPENING: "the log is not open",
    JobPhase.STOPPED: "the job has ended",
}


def alive(monitor: Monitor) -> Health:
    """Whether the job's loop advances. A job that stands by or tries again is alive."""
    if monitor.tally.standing is JobPhase.STOPPED:
        return Health((_WAITS[JobPhase.STOPPED],))
    still_s = monitor.history.still_s()
    if monitor.tally.standing is JobPhase.STREAMING and still_s >= STALLED_S:
        return Health((f"the job has made no step for {still_s:.0f} s",))
    return Health()


def ready(monitor: Monitor) -> Health:
    """Whether the job streams."""
    tally, reasons = monitor.tally, list(alive(monitor).reasons)
    if tally.standing in _WAITS and not reasons:
        reasons.append(_WAITS[tally.standing])
    if tally.failure:
        reasons.append(f"the job tries again after {tally.failure}; its log says why")
    return Health(tuple(reasons))

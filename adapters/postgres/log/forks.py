"""Where two timelines fork, and whether the server's log continues what was sent. Pure.

A promoted server continues under a new timeline from a place in the old one, the *fork*. It does not have
what was committed on the old timeline after the fork.

    timeline 1  ────── L ────── F ─ ─ ─ x ─ ─        L: the last commit sent   x: a commit that is lost
    timeline 2                  └──────────────►     continues if L ≤ F
"""

from __future__ import annotations

from dataclasses import dataclass

from adapters.postgres.server.visibility import format_lsn, parse_lsn
from engine.errors import Loss, PositionLost

_NO_TARGET = "no recovery target specified"
"""The reason that a history file gives where recovery went as far as the log did: a standby was promoted."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a timeline ends, and what made the server leave it."""

    lsn: int
    reason: str

    @property
    def loss(self) -> Loss:
        """What has happened if the log does not continue from what was sent."""
        return Loss.PROMOTED if not self.reason or self.reason == _NO_TARGET else Loss.RESTORED

    def __str__(self) -> str:
        return "promoted" if self.loss is Loss.PROMOTED else f"restored ({self.reason})"


def fork_of(history: str, timeline: int) -> Fork | None:
    """The end of a timeline, from the history file of a later one; None if it is no ancestor.

    A line is `parent <tab> lsn <tab> reason`; see "Timeline History" in PostgreSQL's documentation.
    """
    for line in history.splitlines():
        fields = line.split(None, 2)
        if len(fields) >= 2 and fields[0] == str(timeline):
            return Fork(parse_lsn(fields[1]), fields[2].strip() if len(fields) > 2 else "")
    return None


def check_fork(saved: int, now: int, history: str, sent: int) -> Fork:
    """The fork between a saved timeline and the current one.

    `sent` is where the last commit sent ends. Raises PositionLost if the log does not continue from there.
    """
    fork = fork_of(history, saved)
    if fork is None:
        raise PositionLost(
            f"the server's timeline is {now}, which does not come from timeline {saved}",
            hint=_BEGIN_ANEW,
            loss=Loss.RESTORED,
        )
    if sent > fork.lsn:
        raise PositionLost(
            f"the server was {fork} at {format_lsn(fork.lsn)} (timeline {saved} to {now}), and changes up to"
            f" {format_lsn(sent)} were sent that it does not have",
            hint="set synchronized_standby_slots on the primary, so that no standby lags behind;"
            f" {_BEGIN_ANEW}",
            loss=fork.loss,
        )
    return fork


def check_reach(position: int, server: int) -> None:
    """Raise PositionLost if the server's log ends before a position that it had reached earlier."""
    if position > server:
        raise PositionLost(
            f"the server's log ends at {format_lsn(server)}, before the saved position"
            f" {format_lsn(position)}: it was restored to an earlier time, or is a copy",
            hint=_BEGIN_ANEW,
            loss=Loss.RESTORED,
        )


_BEGIN_ANEW = "start with an empty checkpoint and an empty sink directory, and take snapshots again"

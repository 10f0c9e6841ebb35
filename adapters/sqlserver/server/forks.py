"""Whether a database's log continues what was sent: its recovery fork beside the saved one.

A database that is restored, or forced over to a replica that lags, goes on in a new *recovery fork*. It does
not have what was committed in the old one behind the fork point, and gives the same LSNs to other changes.

    fork a  ────── L ────── P ─ ─ ─ x ─ ─        L: the last commit sent   x: a commit that is lost
    fork b                  └──────────────►     continues if L < P

The server tells only which fork it left last. Where that is not the saved one, nothing says what the log
lacks, so it counts as lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import Loss, OtherHistory, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.questions import Questions

_BEGIN_ANEW = (
    "start with an empty checkpoint and an empty sink directory, and take snapshots again;"
    " or set tidemark.recovery=repair"
)


@dataclass(frozen=True, slots=True)
class Fork:
    """A database's recovery fork, with the fork that it left and the LSN where; both empty if not told."""

    id: str
    left: str = ""
    point: str = ""


@dataclass(frozen=True, slots=True)
class SentPosition:
    """What was sent of a database: the fork that the saved state names, if any, and the position reached.

    `grouped`: the database is in an availability group.
    """

    database: str
    fork: str
    position: LogPosition
    grouped: bool = False


class Forks:
    """The recovery forks of a job's databases.

    `told` are those on which the log was opened, None where the server does not tell. `streamed` are those of
    what is streamed, by id: the same or, where the server does not tell, the saved state's.
    """

    def __init__(self) -> None:
        self.told: dict[str, Fork | None] = {}
        self.streamed: dict[str, str] = {}

    def stream(self, database: str, saved: str) -> None:
        """Stream the fork that the server told, or else the saved one."""
        told = self.told.get(database)
        self.streamed[database] = told.id if told else saved


def saved_fork(memory: Mapping[str, Any], database: str) -> str:
    """The recovery fork that a state was saved on; empty if it does not say."""
    return str(memory.get("databases", {}).get(database, {}).get("fork", ""))


def check_fork(sent: SentPosition, now: Fork | None) -> str:
    """The message about a fork whose log continues what was sent; empty if it is the saved one.

    A fork that is not known is not compared. Raises PositionLost if the log does not continue.
    """
    if not sent.fork or now is None or now.id == sent.fork:
        return ""
    if now.left != sent.fork or not now.point:
        raise _lost(sent, f"which does not say where it left recovery fork {sent.fork}")
    if sent.position.commit >= now.point:
        raise _lost(sent, f"which left recovery fork {sent.fork} at {now.point}")
    return (
        f"database {sent.database!r} left recovery fork {sent.fork} at {now.point}, behind all that was sent"
        f" ({sent.position}): its log goes on"
    )


def check_same_fork(questions: Questions, opened: Fork | None) -> None:
    """Raise SourceError if the database is not on the recovery fork any more that its log was opened on.

    The next session opens the log again, and compares the new fork with what was sent.
    """
    if opened is None:
        return
    found = questions.catalog.fork()
    if found is None or found.id != opened.id:
        raise SourceError(
            "the database has changed to another recovery fork: it was failed over or restored",
            where=questions.database,
        )


def not_seen(database: str) -> str:
    """What is said where the server does not tell the recovery fork of a database."""
    return (
        f"the server does not show database {database!r} in sys.database_recovery_status: a forced failover"
        " that loses data, or a restore, is not noticed; grant VIEW ANY DATABASE to the login"
    )


def _lost(sent: SentPosition, why: str) -> OtherHistory:
    return OtherHistory(
        f"the database was forced over to a replica that lagged, or restored: it is on another recovery fork,"
        f" {why}, and changes up to {sent.position} were sent",
        where=sent.database,
        hint=_BEGIN_ANEW,
        loss=Loss.PROMOTED if sent.grouped else Loss.RESTORED,
    )

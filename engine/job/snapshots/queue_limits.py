"""What a signal may put into the queue: so much that the state stays small, whoever sends it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.job.parts import Pace
    from engine.model import ExecuteSnapshot, Target
    from engine.snapshot.queue import Snapshot

_LATER: Final = "send the signal again when the queue is shorter"


def refused(snapshot: Snapshot, command: ExecuteSnapshot, pace: Pace) -> SignalError | None:
    """Why a command is not obeyed, for all collections that it names; None if it is.

    A dry run is not queued, and a command that names no collection always fits.
    """
    targets = command.targets
    if command.blocking and not pace.blocking:
        return SignalError("blocking snapshots are not taken", hint="see tidemark.signals.blocking")
    if command.dry_run or not targets:
        return None
    if (queued := requests(snapshot)) + len(targets) > pace.most_queued:
        return SignalError(
            f"{queued} collections are queued, and none of the {len(targets)} named is taken on top",
            hint=f"tidemark.signals.max.queued allows {pace.most_queued}; {_LATER}",
        )
    known = [*(table.target for table in snapshot.tables), *(failed.target for failed in snapshot.failed)]
    if (keys := _keys(targets)) and _keys(known) + keys > pace.most_keys:
        return SignalError(
            f"the signals in the queue have given {_keys(known)} keys and ranges, and at most"
            f" {pace.most_keys} are kept",
            hint=_LATER,
        )
    conditioned = any(target.condition for target in targets)
    if conditioned and (long := _conditions([*known, *targets])) > pace.most_conditions:
        return SignalError(
            f"the conditions of the signals in the queue and of this one have {long} characters, and at"
            f" most {pace.most_conditions} are kept",
            hint=_LATER,
        )
    return None


def requests(snapshot: Snapshot) -> int:
    """How many requests of signals are in the queue."""
    return sum(1 + len(table.merged) for table in snapshot.tables if not table.initial)


def _keys(targets: Iterable[Target]) -> int:
    """How many keys and ranges these targets have."""
    return sum(target.scope.size for target in targets if target.scope is not None)


def _conditions(targets: Iterable[Target]) -> int:
    """The characters of the conditions of these targets, each once."""
    return sum(map(len, {target.condition for target in targets if target.condition}))

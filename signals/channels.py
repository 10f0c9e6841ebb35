"""What a channel beside the signal table is to the desk.

The signal table's rows come with the log and take effect at their place in it. Every other channel
keeps its own place, which is saved with the turn that obeyed what was received: so a signal is taken
once, whatever fails, and none is missed while the job is down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from signals.model import Message


class SignalChannel(Protocol):
    """One way in beside the log; every call returns at once, and a fault is told and waited out."""

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Go on from a saved place; empty at the first start. What was received since is received again."""

    def memory(self) -> Mapping[str, Any]:
        """The place behind everything that `receive` has given, as JSON; never empty after `resume`."""

    def pending(self) -> bool:
        """Whether there is something to receive, or a first place to save."""

    def receive(self) -> Sequence[Message]:
        """What has come since the last call, in the channel's order; each message once."""

    def close(self) -> None:
        """Let go of whatever is held. Twice is harmless."""

"""The port for signal channels other than the signal table.

The signal table's rows arrive with the log and take effect where they stand in it. Every other channel keeps
its own position. It is saved with the turn that obeyed the received signals, so each signal is taken exactly
once, whatever fails, and none is missed while the job is down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from signals.model import Message


class SignalChannel(Protocol):
    """A channel for signals beside the log. No call blocks. Faults are logged, and the channel retries."""

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Resume from a saved position, empty at the first start. Later messages are received again."""

    def memory(self) -> Mapping[str, Any]:
        """The position after everything that `receive` has returned, as JSON; never empty after `resume`."""

    def pending(self) -> bool:
        """Whether there is something to receive, or a first position to save."""

    def receive(self) -> Sequence[Message]:
        """The messages since the last call, in the channel's order, each once."""

    def close(self) -> None:
        """Release everything. Calling it twice is harmless."""

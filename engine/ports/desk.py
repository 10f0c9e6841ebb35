"""The ports of those who signal, and of those who are told what becomes of snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.errors import SignalError
    from engine.model import CollectionId, Command, ExecuteSnapshot, SignalRow
    from engine.snapshot.pace.estimate import Estimate
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict


class SnapshotListener(Protocol):
    """Is told what happens to collections of the queue, entry by entry."""

    def appeared(self, table: Table, label: str, why: str) -> None:
        """A collection is read under a label of the job's own; `why`, as a clause about it."""

    def started(self, table: Table) -> None:
        """The first rows of a collection were read."""

    def progress(self, table: Table, percent: int) -> None:
        """Another tenth of a collection is read."""

    def finished(self, table: Table, note: str = "") -> None:
        """A collection was read completely; a note may say more."""

    def failed(self, table: Table, error: Exception) -> None:
        """A collection could not be read, and why."""

    def verified(self, table: Table, verdict: Verdict) -> None:
        """A collection was compared with its copy."""


class Answers(SnapshotListener, Protocol):
    """Answers those who asked for a snapshot. Each answer waits for `SignalDesk.tell`."""

    def refused(self, command: ExecuteSnapshot, error: SignalError) -> None:
        """A signal is not obeyed for any of its collections, and why."""

    def queued(self, signal: str, name: str | None, collections: int, ahead: int) -> None:
        """A signal's collections wait behind others; `name` is what its sender calls it."""

    def planned(self, table: Table, estimate: Estimate) -> None:
        """What a snapshot of a collection would read, to a signal that asks only for that."""

    def stopped(self, table: Table, why: str = "") -> None:
        """A collection left the queue before its end; `why` if no signal asked for it."""

    def paused(self, table: Table) -> None:
        """A collection is read no further until it is resumed."""

    def resumed(self, table: Table) -> None:
        """A paused collection is read further."""


class SignalDesk(Protocol):
    """Receives signals and answers them. All answers are given here.

    Answers wait for `tell`, so nothing is promised that a failed turn would take back. They are saved with
    the turn, so a crash before `tell` loses none; a crash during `tell` repeats some.
    """

    @property
    def answers(self) -> Answers:
        """What becomes of snapshots is answered here."""

    def resume(self, saved: Mapping[str, Any], turn: int) -> None:
        """Resume from the state saved with `turn`, which holds the answers still to be told. Drop others."""

    def memory(self) -> Mapping[str, Any]:
        """What to save with the turn that obeyed the last commands."""

    def tell(self, turn: int) -> None:
        """Give the waiting answers; the turn that they belong to is saved. Raises StateError."""

    def pending(self) -> bool:
        """Whether a channel besides the signal table has received something, or something is to be saved."""

    def commands(
        self,
        rows: Sequence[SignalRow],
        known: Callable[[], Sequence[CollectionId]],
        position: Callable[[], str] | None = None,
        groups: Callable[[], Mapping[CollectionId, Sequence[CollectionId]]] = dict,
    ) -> Sequence[Command]:
        """The valid signals among these rows and from the other channels, in order.

        `known` lists the collections that may be named, `groups` the names that stand for several of them.
        `position` shows how far the stream is. All three are asked only if there are signals. A command has
        a group's collections in place of the group. Refused signals are answered and left out.
        """

"""What the stream has carried so far, as far as later turns, windows and starts depend on it."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass, field
from typing import TYPE_CHECKING, Self, cast

from adapters.postgres.log.pending_visibility import PendingVisibility
from adapters.postgres.saved import saved_of

if TYPE_CHECKING:
    from adapters.postgres.log.span import Span
    from adapters.postgres.log.timeline import TransactionContext
    from adapters.postgres.saved import OpenTransaction, StreamedMemory
    from engine.job.saved.state import State


@dataclass(slots=True)
class StreamState:
    """The transactions not visible yet, the last commit, and an open transaction's counters."""

    pending: PendingVisibility = field(default_factory=PendingVisibility)
    last_commit_end: int | None = None
    last_commit: tuple[int, int, int] | None = None
    context: TransactionContext | None = None

    @classmethod
    def up_to(cls, state: State) -> Self:
        """What a saved state remembers. Raises StateError for anything that was never saved that way."""
        saved = saved_of(state)
        return cls(saved.pending, saved.last_commit_end, saved.last_commit, saved.context)

    def note_span(self, span: Span, context: TransactionContext | None) -> None:
        """Note a span's last commit, and the counters at its end."""
        self.context = context or self.context
        self.last_commit_end = span.last_commit_end
        self.last_commit = astuple(span.last_commit) if span.last_commit else self.last_commit

    @property
    def committed_before_reads(self) -> int | None:
        """The LSN of the last commit before READ events of a window that opens now; None if there is none.

        They go out once the stream has passed what their snapshot contains, so an open transaction has been
        committed by then. Where its commit ends is unknown, but not where it begins.
        """
        if self.context is not None and self.context.xid is not None:
            return self.context.commit_lsn
        return self.last_commit_end

    def forget_last_commit(self) -> None:
        """Forget the last commit: the log goes on somewhere else."""
        self.last_commit = self.last_commit_end = self.context = None

    def memory(self) -> StreamedMemory:
        """What to save with a turn."""
        context = self.context
        return {
            "last_commit_end": self.last_commit_end,
            "last_commit": self.last_commit,
            "unsettled": self.pending.to_json(),
            "transaction": cast("OpenTransaction", asdict(context))
            if context and context.xid is not None
            else None,
        }

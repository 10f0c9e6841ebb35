"""The newest saved state, and the steps by which a turn becomes the next one.

The steps of turn n, and what the next start (`startup.py`) does if the process dies after a step:

                                            saved states     crash after it: the next start …
    take, encode, obey signals, emit        n-1              repeats the turn; nobody saw its events
    save state n as pending                 n-1, n pending   asks the sink (`resolve_commit`): no; repeats it
    commit turn n in the sink               n-1, n pending   asks the sink: yes; promotes n
    promote state n                         n                resumes after turn n
    acknowledge the log up to n             n                resumes after turn n
    open the next window                    n                resumes after turn n; the window is read again

Why no stop loses anything: the state moves only with the sink, because a pending state counts exactly if the
sink has committed its turn. The log is acknowledged last, so the database keeps every entry after the
newest promoted state. A sink that can't know after a restart whether it has committed answers no. The turn is
then sent again: at-least-once, where a sink that knows gives exactly-once. A repeated turn may end at another
position of the log than the first attempt; `saved/attempt.py` says what is kept of that one. A power failure
that undoes the promotion is a crash before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engine.job.saved import state_document as saved
from engine.job.saved.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.job.parts import JobParts, Pace
    from engine.model import Part


class Checkpoint:
    """Commits turns. `state` is the newest one that is saved, at `saved_s` of the job's clock."""

    def __init__(self, job_parts: JobParts, pace: Pace) -> None:
        self._parts, self._pace = job_parts, pace
        self.state: State = State()
        self.saved_s = 0.0

    def commit(self, after: State, parts: Sequence[Part]) -> State:
        """Save the state as pending, commit the turn, promote the state; each only while we hold the lease.

        A job may lose the lease between a check and the step after it. Then the step itself fails, because
        the new holder has taken away the file names that it needs: see `adapters/storage/lease.py`.
        """
        job_parts = self._parts
        job_parts.lease.check()
        after = replace(after, channels=dict(job_parts.desk.memory()), sink=job_parts.sink.memory())
        after = self._with_beside(after.past_attempt())
        job_parts.store.save_pending(after.turn, saved.to_json(after, self._pace.state_version))
        job_parts.lease.check()
        job_parts.sink.commit(after.turn, parts)
        job_parts.lease.check()
        job_parts.store.promote(after.turn)
        return after

    def keep_beginning(self, state: State) -> None:
        """Save where a new log begins, before anything of it is sent.

        A sink may have taken the first turn, or part of it, and not say so. Without this state the next start
        would begin at what is then the end of the log, and consumers would lack what came in between. Where
        all rows are read first, the next start reads them again. Where a lost log is recovered from, the next
        start begins another one, and the repairs find what it lacks.
        """
        job_parts = self._parts
        if self.state.position is not None or state.position is None:
            return
        if state.snapshot.initial or state.recovery is not None:
            return
        job_parts.lease.check()
        job_parts.store.save_pending(state.turn, saved.to_json(state, self._pace.state_version))
        job_parts.lease.check()
        job_parts.store.promote(state.turn)
        self.state = state

    def _with_beside(self, after: State) -> State:
        """The state, with a large part that rarely changes in a document of its own."""
        if self.state.beside and saved.same_beside(self.state, after):
            return replace(after, beside=self.state.beside)
        if not saved.is_long(after, self._pace.few_entries):
            return replace(after, beside="") if after.beside else after
        beside = self._parts.store.save_beside(after.turn, saved.beside_to_json(after))
        return replace(after, beside=beside)

    def is_due(self, state: State, *, between_windows: bool) -> bool:
        """Whether the queue or the sink changed since the last save, or the state has waited `save_s`.

        A job that has made no turn yet makes one, so that whoever watches it hears where it began.
        """
        if state.snapshot != self.state.snapshot and between_windows:
            return True
        if self._parts.sink.memory() != self.state.sink:
            return True
        waits = state is not self.state or (not state.turn and state.position is not None)
        return waits and self._parts.clock() - self.saved_s >= self._pace.save_s

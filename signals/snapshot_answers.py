"""Words what becomes of snapshots, as answers to the signals that asked for them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from engine.errors import SignalError, TidemarkError
from engine.model import Purpose
from signals.answers import Answer, Outcome, planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.model import ExecuteSnapshot
    from engine.snapshot.extent import Gap
    from engine.snapshot.pace.estimate import Estimate
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict
    from signals.waiting_answers import WaitingAnswers

_NAMED_GAPS: Final = 10


class SnapshotAnswers:
    """The engine's `Answers`. They wait for their turn."""

    def __init__(self, waiting: WaitingAnswers) -> None:
        self._waiting = waiting

    def finished(self, table: Table, note: str = "") -> None:
        """Answer that a collection was read completely, with an optional note."""
        rows, emitted = (table.progress.rows, table.progress.emitted) if table.progress else (0, 0)
        newer = f", {rows - emitted} of them superseded by the log" if rows != emitted else ""
        more = f"; {note}" if note else ""
        text = f"{table.target.collection} completed: {rows} rows read{newer}{_found(table)}{more}"
        facts = {"rows": rows, "superseded": rows - emitted, "emitted": emitted}
        self._say(table, Outcome.FINISHED, text, facts)

    def planned(self, table: Table, estimate: Estimate) -> None:
        """Answer what a snapshot of a collection would read."""
        self._say(table, Outcome.PLANNED, planned(table.target, estimate))

    def appeared(self, table: Table, label: str, why: str) -> None:
        """Answer, under a label of the job's own, that a collection is read; `why`, as a clause about it."""
        what = "repair" if table.target.purpose is Purpose.REPAIR else "incremental snapshot"
        text = f"{what} of {table.target.collection}, which {why}"
        self._waiting.add(Answer(label, label, Outcome.ACCEPTED, text))

    def stopped(self, table: Table, why: str = "") -> None:
        """Answer that a collection left the queue before its end; `why` if no signal asked for it."""
        rows = table.progress.rows if table.progress else 0
        because = f": {why}" if why else ""
        self._say(table, Outcome.STOPPED, f"{table.target.collection} stopped after {rows} rows{because}")

    def paused(self, table: Table) -> None:
        """Answer that a collection is read no further until it is resumed."""
        rows = table.progress.rows if table.progress else 0
        self._say(table, Outcome.PAUSED, f"{table.target.collection} paused after {rows} rows")

    def resumed(self, table: Table) -> None:
        """Answer that a paused collection is read further."""
        rows = table.progress.rows if table.progress else 0
        self._say(table, Outcome.RESUMED, f"{table.target.collection} goes on after {rows} rows")

    def failed(self, table: Table, error: Exception) -> None:
        """Answer that a collection could not be read, and what is missing."""
        lacks = table.progress.lacks if table.progress else ()
        missing = _missing(lacks)
        outcome = Outcome.REJECTED if isinstance(error, SignalError) else Outcome.FAILED
        said = str(error) if isinstance(error, TidemarkError) else type(error).__name__
        name = str(table.target.collection)
        facts = {"missing": [str(gap) for gap in lacks[:_NAMED_GAPS]], "ranges": len(lacks)} if lacks else {}
        self._say(table, outcome, f"{name} not read: {said.removeprefix(f'{name}: ')}{missing}", facts)

    def verified(self, table: Table, verdict: Verdict) -> None:
        """Answer what comparing a collection with its copy has shown."""
        outcome = Outcome.FINISHED if verdict.accepts else Outcome.FAILED
        self._say(table, outcome, f"{table.target.collection}: {verdict}", verdict.facts)

    def refused(self, command: ExecuteSnapshot, error: SignalError) -> None:
        """Answer that nothing of a signal is done, after all."""
        self._waiting.add(Answer(command.signal, command.id, Outcome.REJECTED, str(error)))

    def queued(self, signal: str, name: str | None, collections: int, ahead: int) -> None:
        """Note that a signal's collections wait behind others."""
        text = f"collections queued: {collections}, behind {ahead} of earlier signals"
        facts = {"collections": collections, "ahead": ahead}
        self._waiting.add(Answer(signal, name, Outcome.QUEUED, text, facts=facts))

    def started(self, table: Table) -> None:
        """Note that the first window of a collection was opened."""
        rows = table.progress.extent.rows if table.progress else 0
        text = f"{table.target.collection} is being read: about {rows} rows"
        self._say(table, Outcome.STARTED, text, {"rows": rows})

    def progress(self, table: Table, percent: int) -> None:
        """Note how much of a collection is read."""
        rows = table.progress.rows if table.progress else 0
        text = f"{table.target.collection} is read to {percent}%: {rows} rows"
        self._say(table, Outcome.PROGRESS, text, {"percent": percent, "rows": rows})

    def _say(
        self, table: Table, outcome: Outcome, text: str, facts: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        collection = str(table.target.collection)
        for request in table.requests:
            self._waiting.add(Answer(request.signal, request.id, outcome, text, collection, dict(facts)))


def _found(table: Table) -> str:
    """How many of the keys that the signal asked for were found."""
    scope, progress = table.target.scope, table.progress
    if scope is None or not scope.keys or progress is None:
        return ""
    if table.target.surrogate_key:
        return f", {progress.found} found under {len(scope.keys)} keys"
    return f", {progress.found} of {len(scope.keys)} keys found"


def _missing(gaps: Sequence[Gap]) -> str:
    """Text that names the first gaps by their keys, and says how to read all of them."""
    if not gaps:
        return ""
    named = ", ".join(str(gap) for gap in gaps[:_NAMED_GAPS])
    more = f" and {len(gaps) - _NAMED_GAPS} more ranges" if len(gaps) > _NAMED_GAPS else ""
    return f"; missing: {named}{more}; the same signal again reads just that"

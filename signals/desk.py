"""The desk: receives signals from every channel and answers them.

Turns a received signal into a command or a refusal, and words the answers. The channels find signals, `parse`
examines them, the engine obeys them.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from engine.errors import SignalError, TidemarkError
from engine.expressions import bounded_matcher
from engine.model import Purpose
from engine.saved import reading_saved
from signals.actions import acted
from signals.answers import (
    STEPS,
    Answer,
    Outcome,
    accepted,
    answers_in,
    log_answer,
    planned,
    rejected,
    rejected_together,
)
from signals.channels.table import signals_of
from signals.model import Message
from signals.parse.budget import MAX_AT_ONCE, Budget
from signals.parse.commands import parse
from signals.parse.message import signal_of
from signals.parse.names import Known

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.model import CollectionId, Command, SignalRow
    from engine.snapshot.extent import Gap
    from engine.snapshot.pace.estimate import Estimate
    from engine.snapshot.queue_entry import Table
    from engine.verify.verdict import Verdict
    from signals.actions import SignalAction
    from signals.channels.port import SignalChannel
    from signals.model import Signal

_log = logging.getLogger("signals")
_NAMED_GAPS: Final = 10
_ANSWERS: Final = "answers"


def nowhere(_turn: int, _answers: Sequence[Answer]) -> None:
    """Record no answers; the default."""


class Desk:
    """The engine's `SignalDesk`: parses signals and answers each once.

    `channels` are those besides the signal table. With `reads_table` off the table's rows are ignored.
    `record` gets all answers of a turn once the turn is saved, and possibly once more after a restart.
    `actions` are those of other packages, by signal type.
    """

    def __init__(
        self,
        answer: Callable[[Answer], None] = log_answer,
        channels: Mapping[str, SignalChannel] | None = None,
        *,
        reads_table: bool = True,
        record: Callable[[int, Sequence[Answer]], None] = nowhere,
        actions: Mapping[str, SignalAction] = MappingProxyType({}),
    ) -> None:
        self._answer, self._channels, self._reads_table = answer, channels or {}, reads_table
        self._record, self._actions = record, actions
        self._untold: list[Answer] = []
        self._told: tuple[Answer, ...] = ()
        self._noted = False
        self._saved: Mapping[str, Any] = {}

    def resume(self, saved: Mapping[str, Any], turn: int) -> None:
        """Return to the places saved with `turn`, and drop the answers of a turn that will be repeated.

        Saved answers that this process has not given yet are given with the next turn, because the previous
        process may not have given them. They are recorded as answers of their own turn.
        """
        with reading_saved("the saved answers"):
            answers = answers_in(saved.get(_ANSWERS, ()))
        if answers:
            self._record(turn, answers)
        self._untold = [answer for answer in answers if answer not in self._told]
        self._noted = bool(answers)
        self._saved = saved
        for name, channel in self._channels.items():
            with reading_saved(f"the saved place of the {name} channel"):
                channel.resume(saved.get(name, {}))

    def memory(self) -> Mapping[str, Any]:
        """Each channel's place, and the answers to be given once this is saved.

        The place of a channel that is currently off is kept.
        """
        self._noted = bool(self._untold)
        places = {str(name): channel.memory() for name, channel in self._channels.items()}
        kept = {name: place for name, place in self._saved.items() if name != _ANSWERS}
        answers = {_ANSWERS: [asdict(answer) for answer in self._untold]} if self._untold else {}
        return {**kept, **places, **answers}

    def tell(self, turn: int) -> None:
        """Record the waiting answers, which are saved with `turn`, and give them in order."""
        if self._untold:
            self._record(turn, self._untold)
        self._told, self._untold = tuple(self._untold), []
        for answer in self._told:
            if answer.outcome not in STEPS:
                self._answer(answer)

    def pending(self) -> bool:
        """Whether a channel has received something, or something is to be saved.

        To be saved are a channel's first place, and the fact that answers have been given.
        """
        return self._noted or any(channel.pending() for channel in self._channels.values())

    def commands(
        self,
        rows: Sequence[SignalRow],
        known: Callable[[], Sequence[CollectionId]],
        position: Callable[[], str] | None = None,
    ) -> Sequence[Command]:
        """The valid signals in order, those from the log first. All others are answered with their fault."""
        received: list[Signal | Message] = [
            *(signals_of(rows) if self._reads_table else ()),
            *(message for channel in self._channels.values() for message in channel.receive()),
        ]
        if not received:
            return []
        at = position() if position else None
        budget = Budget()
        named = Known(known(), bounded_matcher, budget.check)
        commands: list[Command] = []
        for number, signal in enumerate(received):
            if number == MAX_AT_ONCE or budget.spent:
                self._untold.append(rejected_together(received[number:]))
                break
            budget.begin()
            command = self._judged(signal, named, at)
            commands += [] if command is None else [command]
        return commands

    def close(self) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            channel.close()

    def _judged(self, received: Signal | Message, known: Known, position: str | None) -> Command | None:
        """What a signal asks for. No input can cause anything worse than a rejection."""
        try:
            signal = received = (
                replace(signal_of(received), position=position) if isinstance(received, Message) else received
            )
            action = self._actions.get((signal.type or "").strip())
            request = parse(signal, known) if action is None else acted(action, signal, known)
        except SignalError as error:
            self._untold.append(rejected(received, error))
            return None
        except Exception as error:  # noqa: BLE001  (a stranger's words must not end the job, whatever they are)
            _log.debug("the signal at %s can't be read", received.label, exc_info=error)
            self._untold.append(rejected(received, SignalError(f"it can't be read ({type(error).__name__})")))
            return None
        self._untold.append(accepted(signal, request))
        return request.command

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
        self._untold.append(Answer(label, label, Outcome.ACCEPTED, text))

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

    def queued(self, signal: str, name: str | None, collections: int, ahead: int) -> None:
        """Note that a signal's collections wait behind others."""
        text = f"collections queued: {collections}, behind {ahead} of earlier signals"
        facts = {"collections": collections, "ahead": ahead}
        self._untold.append(Answer(signal, name, Outcome.QUEUED, text, facts=facts))

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
        self._untold += (
            Answer(request.signal, request.id, outcome, text, collection, dict(facts))
            for request in table.requests
        )


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

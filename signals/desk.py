"""Where signals from every channel arrive, and where they are answered.

Owns the way from a received signal to a command or a refusal, and the wording of what became of it.
The channels find signals; `parse` judges them; the engine obeys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import SignalError, TidemarkError
from signals.answers import Answer, Outcome, accepted, log_answer, rejected
from signals.parse import parse
from signals.table import signals_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.model import CollectionId, Command, SignalRow
    from engine.snapshot import Table
    from signals.model import Signal


class Desk:
    """The engine's `SignalDesk`: parses, answers, and counts nothing twice."""

    def __init__(self, answer: Callable[[Answer], None] = log_answer) -> None:
        self._answer = answer
        self._untold: list[Answer] = []

    def resume(self, saved: Mapping[str, Any]) -> None:  # noqa: ARG002  the signal table's place is the log's
        """Forget the answers that were not told: their turn is done again."""
        self._untold.clear()

    def memory(self) -> Mapping[str, Any]:
        """Nothing: the signal table's place is the log's."""
        return {}

    def tell(self) -> None:
        """Say what has come up, in order."""
        untold, self._untold = self._untold, []
        for answer in untold:
            self._answer(answer)

    def pending(self) -> bool:
        """No channel but the signal table is read yet."""
        return False

    def commands(
        self, rows: Sequence[SignalRow], known: Callable[[], Sequence[CollectionId]]
    ) -> Sequence[Command]:
        """The valid signals, in order; the others are answered with what is wrong."""
        received = signals_of(rows)
        named = known() if received else ()
        judged = (self._judged(signal, named) for signal in received)
        return [command for command in judged if command is not None]

    def _judged(self, signal: Signal, known: Sequence[CollectionId]) -> Command | None:
        try:
            request = parse(signal, known)
        except SignalError as error:
            self._untold.append(rejected(signal, error))
            return None
        self._untold.append(accepted(signal, request))
        return request.command

    def finished(self, table: Table) -> None:
        """Answer that a collection was read to its end."""
        rows, emitted = (table.progress.rows, table.progress.emitted) if table.progress else (0, 0)
        newer = f", {rows - emitted} of them superseded by the log" if rows != emitted else ""
        self._say(table, Outcome.FINISHED, f"{table.target.collection} completed: {rows} rows read{newer}")

    def stopped(self, table: Table) -> None:
        """Answer that a collection left the queue before its end."""
        rows = table.progress.rows if table.progress else 0
        self._say(table, Outcome.STOPPED, f"{table.target.collection} stopped after {rows} rows")

    def failed(self, table: Table, error: Exception) -> None:
        """Answer that a collection could not be read, and from where it is missing."""
        done = table.progress.last if table.progress else None
        missing = f"; missing: everything after key {done}" if done else ""
        outcome = Outcome.REJECTED if isinstance(error, SignalError) else Outcome.FAILED
        said = str(error) if isinstance(error, TidemarkError) else repr(error)
        name = str(table.target.collection)
        self._say(table, outcome, f"{name} not read: {said.removeprefix(f'{name}: ')}{missing}")

    def _say(self, table: Table, outcome: Outcome, text: str) -> None:
        self._untold.append(Answer(table.signal, table.id, outcome, text))

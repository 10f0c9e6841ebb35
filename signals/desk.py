"""The desk: receives signals from every channel, and turns each into a command or a refusal.

The channels find signals, `parse` examines them, the engine obeys them. `snapshot_answers.py` words what
becomes of them, `waiting_answers.py` keeps the answers until their turn is saved.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from engine.errors import SignalError
from engine.expressions import bounded_matcher
from engine.saved import reading_saved
from signals.actions import run_action
from signals.answers import Answer, accepted, log_answer, rejected, rejected_together
from signals.channels.table import signals_of
from signals.model import Message
from signals.parse.budget import MAX_AT_ONCE, Budget
from signals.parse.commands import parse
from signals.parse.message import signal_of
from signals.parse.names import KnownNames
from signals.snapshot_answers import SnapshotAnswers
from signals.waiting_answers import WaitingAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.model import CollectionId, Command, SignalRow
    from signals.actions import SignalAction
    from signals.channels.port import SignalChannel
    from signals.model import Signal
    from signals.parse.names import Groups

_log = logging.getLogger("signals")
_ANSWERS: Final = "answers"
_TOO_LATE: Final = SignalError(
    "the signals before it took all the time that signals have at once", hint="send it again"
)


def nowhere(_turn: int, _answers: Sequence[Answer]) -> None:
    """Record no answers; the default."""


class Desk:
    """The engine's `SignalDesk`: parses signals and answers each once.

    `channels` are those besides the signal table. With `reads_table` off the table's rows are ignored.
    `record` gets all answers of a turn once the turn is saved, and possibly once more after a restart.
    `actions` are those of other packages, by signal type. `monotonic` bounds the time for signals.
    """

    def __init__(
        self,
        answer: Callable[[Answer], None] = log_answer,
        channels: Mapping[str, SignalChannel] | None = None,
        *,
        monotonic: Callable[[], float],
        reads_table: bool = True,
        record: Callable[[int, Sequence[Answer]], None] = nowhere,
        actions: Mapping[str, SignalAction] = MappingProxyType({}),
    ) -> None:
        self._channels, self._reads_table, self._actions = channels or {}, reads_table, actions
        self._monotonic, self._waiting = monotonic, WaitingAnswers(answer, record)
        self.answers = SnapshotAnswers(self._waiting)
        self._saved: Mapping[str, Any] = {}

    def resume(self, saved: Mapping[str, Any], turn: int) -> None:
        """Return to the positions saved with `turn`, and to the answers that waited then."""
        self._waiting.resume(saved.get(_ANSWERS, ()), turn)
        self._saved = saved
        for name, channel in self._channels.items():
            with reading_saved(f"the saved place of the {name} channel"):
                channel.resume(saved.get(name, {}))

    def memory(self) -> Mapping[str, Any]:
        """Each channel's position, and the answers to be given once this is saved.

        The position of a channel that is currently off is kept.
        """
        positions = {str(name): channel.memory() for name, channel in self._channels.items()}
        kept = {name: position for name, position in self._saved.items() if name != _ANSWERS}
        waiting = self._waiting.memory()
        return {**kept, **positions, **({_ANSWERS: waiting} if waiting else {})}

    def tell(self, turn: int) -> None:
        """Record the waiting answers, which are saved with `turn`, and give them in order."""
        self._waiting.tell(turn)

    def pending(self) -> bool:
        """Whether a channel has received something, or something is to be saved.

        To be saved are a channel's first position, and the fact that answers have been given.
        """
        return self._waiting.saved or any(channel.pending() for channel in self._channels.values())

    def commands(
        self,
        rows: Sequence[SignalRow],
        known: Callable[[], Sequence[CollectionId]],
        position: Callable[[], str] | None = None,
        groups: Callable[[], Groups] = dict,
    ) -> Sequence[Command]:
        """The valid signals in order, those from the log first. All others are answered with their fault."""
        received: list[Signal | Message] = [
            *(signals_of(rows) if self._reads_table else ()),
            *(message for channel in self._channels.values() for message in channel.receive()),
        ]
        if not received:
            return []
        at = position() if position else None
        collections, grouped = known(), groups()
        budget = Budget(self._monotonic)  # a server that answers late takes none of it
        named = KnownNames(collections, bounded_matcher, budget.check, grouped)
        commands: list[Command] = []
        for number, signal in enumerate(received):
            if number == MAX_AT_ONCE:
                self._waiting.add(rejected_together(received[number:]))
                break
            if budget.spent:
                self._waiting.add(rejected(signal, _TOO_LATE))
                continue
            budget.begin()
            command = self._command_of(signal, named, at)
            commands += [] if command is None else [command]
        return commands

    def close(self) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            channel.close()

    def _command_of(
        self, received: Signal | Message, known: KnownNames, position: str | None
    ) -> Command | None:
        """What a signal asks for. No input can cause anything worse than a rejection."""
        try:
            signal = received = (
                replace(signal_of(received), position=position) if isinstance(received, Message) else received
            )
            action = self._actions.get((signal.type or "").strip())
            request = parse(signal, known) if action is None else run_action(action, signal, known)
        except SignalError as error:
            self._waiting.add(rejected(received, error))
            return None
        except Exception as error:  # noqa: BLE001  (a stranger's words must not end the job, whatever they are)
            _log.debug("the signal at %s can't be read", received.label, exc_info=error)
            self._waiting.add(rejected(received, SignalError(f"it can't be read ({type(error).__name__})")))
            return None
        self._waiting.add(accepted(signal, request))
        return request.command

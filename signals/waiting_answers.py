"""The answers that wait until their turn is saved.

So nothing is promised that a failed turn would take back. They are saved with the turn, too: a crash before
they are given loses none.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from engine.saved import reading_saved
from signals.answers import STEPS, Answer, answers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_FIELDS: Final = tuple(field.name for field in fields(Answer))


class WaitingAnswers:
    """Keeps answers in order, and gives each once its turn is saved.

    `give` gets single answers. `record` gets all answers of a turn, and possibly once more after a restart.
    """

    def __init__(
        self, give: Callable[[Answer], None], record: Callable[[int, Sequence[Answer]], None]
    ) -> None:
        self._give, self._record = give, record
        self._waiting: list[Answer] = []
        self._given: tuple[Answer, ...] = ()
        self.saved = False
        """Whether answers are in the saved state, although they may have been given since."""

    def add(self, *answers: Answer) -> None:
        """Add answers behind those that wait."""
        self._waiting += answers

    def resume(self, saved: Iterable[Mapping[str, Any]], turn: int) -> None:
        """Wait with the answers saved with `turn`, and drop those of a turn that will be repeated.

        Answers that this process has given already are not given again. All are recorded as answers of their
        own turn.
        """
        with reading_saved("the saved answers"):
            answers = answers_in(saved)
        if answers:
            self._record(turn, answers)
        self._waiting = [answer for answer in answers if answer not in self._given]
        self.saved = bool(answers)

    def memory(self) -> list[Mapping[str, Any]]:
        """The answers to be given once this is saved."""
        self.saved = bool(self._waiting)
        return [_saved(answer) for answer in self._waiting]

    def tell(self, turn: int) -> None:
        """Record the waiting answers, which are saved with `turn`, and give them in order."""
        if self._waiting:
            self._record(turn, self._waiting)
        self._given, self._waiting = tuple(self._waiting), []
        for answer in self._given:
            if answer.outcome not in STEPS:
                self._give(answer)


def _saved(answer: Answer) -> Mapping[str, Any]:
    """An answer's fields by name; `answers_in` reads them."""
    return {name: getattr(answer, name) for name in _FIELDS}

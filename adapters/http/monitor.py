"""What the web server shows of a job: its numbers, its settings, the last hour, the last answers to signals.

It lives as long as the process, across sessions of the job, which `attach` to it.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adapters.http.history import History, Sample
from engine.job.reports.tally import Tally
from signals.answers import answers_in
from signals.channels.in_process import InProcessChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from engine.clock import Clock
    from engine.config.settings import Settings
    from engine.model import Position
    from signals.answers import Answer

ANSWERS_KEPT: Final = 200


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer to a signal, with its turn and its time in Unix seconds."""

    turn: int
    at_s: float
    answer: Answer


@dataclass(slots=True)
class Monitor:
    """A job as it is watched. `kept`, `show`, `numbers`, `figures` and `database` are the source's.

    `channel` takes signals from the page; None if it may not send any. `address` is the page's, empty if
    none is open.
    """

    settings: Settings
    clock: Clock
    tally: Tally = field(default_factory=lambda: Tally(watched=True))
    channel: InProcessChannel | None = None
    answers: deque[TimedAnswer] = field(default_factory=lambda: deque(maxlen=ANSWERS_KEPT))
    kept: Callable[[], int | None] = lambda: None
    show: Callable[[Position], str] = str
    numbers: Callable[[Position], Mapping[str, int]] = lambda _position: {}
    figures: Callable[[], Mapping[str, float]] = dict
    database: str = ""
    address: str = ""
    begun_s: float = field(init=False)
    history: History = field(init=False)
    _answered: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.begun_s = self.clock.now()
        self.history = History(self.sample)
        if self.settings.http.control and self.channel is None:
            self.channel = InProcessChannel()

    def attach(
        self,
        kept: Callable[[], int | None],
        show: Callable[[Position], str],
        numbers: Callable[[Position], Mapping[str, int]],
        figures: Callable[[], Mapping[str, float]] = dict,
        database: str = "",
    ) -> None:
        """Show the source of a session that begins."""
        self.kept, self.show, self.numbers, self.database = kept, show, numbers, database
        self.figures = figures

    def record(self, turn: int, answers: Sequence[Answer]) -> None:
        """Keep the answers of a turn."""
        now_s = self.clock.now()
        with self._answered:
            self.answers.extend(TimedAnswer(turn, now_s, answer) for answer in answers)
            self._answered.notify_all()

    def recall(self, journal: Iterable[Mapping[str, Any]]) -> None:
        """Keep the answers of earlier processes that the journal has. What can't be read is left out."""
        for fields in journal:
            with suppress(LookupError, TypeError, ValueError):
                (answer,) = answers_in([fields])
                self.answers.append(TimedAnswer(int(fields["turn"]), float(fields["at_s"]), answer))

    def await_answer(self, label: str, within_s: float) -> None:
        """Wait until a signal has an answer, for so many seconds at most."""
        with self._answered:
            self._answered.wait_for(lambda: self.answers_to(label), within_s)

    def answers_to(self, label: str) -> list[TimedAnswer]:
        """The kept answers to one signal, in order."""
        return [told for told in tuple(self.answers) if told.answer.label == label]

    def sample(self) -> Sample:
        """How the job does now."""
        tally = self.tally
        return Sample(
            self.clock.monotonic(),
            tally.passes,
            tally.sent,
            tally.read,
            self.lag_s,
            self.kept(),
            tally.staged_bytes,
        )

    @property
    def lag_s(self) -> float:
        """The age of the last commit when its events were sent, in the last turn."""
        return self.tally.seen.lag_s if self.tally.seen else 0.0

    @property
    def plugin(self) -> str:
        """The source, as Debezium's MBeans name it."""
        named = self.settings.runs.split(".")
        source = named[1] if named[0] == "adapters" and len(named) > 1 else named[0]
        return {"sqlserver": "sql_server"}.get(source, source)

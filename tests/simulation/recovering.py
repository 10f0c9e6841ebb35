"""A world whose log or checkpoint is lost now and then: a new log begins, and the copy is repaired.

Nobody tells what the old log had left to say: its entries are in the tables, and missing from the copy. So
the judge takes the tables as they are where the new log begins. From then on the order of the log counts as
ever, and the repair of every table must be answered. Its verdict is judged like any other (`verifying.py`),
with what the copy holds and what the source held.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from engine.errors import Loss, PositionLost
from engine.job.saved.recovery import PREFIX
from engine.model import Position
from signals.answers import Outcome
from tests.simulation import verifying
from tests.simulation.answers import Asked
from tests.simulation.database import TABLES, T, U
from tests.simulation.generator import Generator
from tests.simulation.script import History
from tests.simulation.source import SimLog, SimSource
from tests.simulation.storage import is_lease
from tests.simulation.verifying import VerifyingSetup, VerifyingWorld

if TYPE_CHECKING:
    from engine.job.loop import Job
    from engine.job.saved.state import State
    from signals.answers import Answer
    from tests.simulation.script import Step
    from tests.simulation.source import SimSpan
    from tests.simulation.world import Life

_LOSSES: Final = ("lose-log", "lose-log", "lose-checkpoint")


@dataclass(frozen=True, slots=True)
class RecoveringSetup(VerifyingSetup):
    """A job that recovers."""

    world: str = "recover"


def draw(seed: int) -> History:
    """The history of a seed: one with verifications, and one to three losses."""
    choose, drawn = Generator(seed ^ 0x10557), verifying.draw(seed)
    steps: list[Step] = list(drawn.steps)
    for _ in range(choose.between(1, 3)):
        at = choose.between(len(steps) // 4, len(steps))
        steps[at:at] = [(choose.pick(_LOSSES),), ("go", choose.between(1, 60))]
    # Only a sink that knows its turns says how far a lost checkpoint had come.
    changed = {"world": "recover", "knows": True, "beside": 0}
    return History(RecoveringSetup(**asdict(drawn.setup) | changed), tuple(steps))


class RecoveringLog(SimLog):
    """A session that ends where the log is lost."""

    def take(self, timeout_s: float) -> SimSpan | None:
        """The next entries. Raises PositionLost if they are gone."""
        _check(self._life, self.at)
        return super().take(timeout_s)


class RecoveringSource(SimSource):
    """A source that begins a new log where the old one is lost."""

    def open_log(self, state: State) -> tuple[State, SimLog]:
        """Begin at the saved position, or behind all that the log has if that is lost."""
        world: RecoveringWorld = self._life.world  # type: ignore[assignment]  # this world's own
        if state.position is not None:
            _check(self._life, int(state.position.order[0]))
        elif state.awaits_log:
            self._held = None
            state = replace(state, position=Position((world.log_begins_anew(self._life),)))
        state, log = super().open_log(state)
        return state, RecoveringLog(self._life, log.at, self)


def _check(life: Life, at: int) -> None:
    world: RecoveringWorld = life.world  # type: ignore[assignment]  # this world's own
    if at < world.kept:
        raise PositionLost("the log was removed", where="the database", loss=Loss.LOG_REMOVED)


class RecoveringWorld(VerifyingWorld):
    """The world that verifies, with losses that a job recovers from."""

    def __init__(self, history: History, *, story: bool = False) -> None:
        self.kept = 0
        """The first entry that the log still has."""
        self._awaits_repairs = False
        super().__init__(history, story=story)
        self.pace = replace(self.pace, recovers=True)

    def source_of(self, life: Life) -> RecoveringSource:
        """The source of a job that starts."""
        return RecoveringSource(life)

    def log_begins_anew(self, life: Life) -> int:
        """A new log begins behind all that was committed; returns where."""
        database, oracle = self.database, self.oracle
        begin = len(database.log)
        if life.epoch != self.sent.owner:
            return begin  # it has slept, and nothing that it makes lasts
        self._lose_signals(oracle.position, begin)
        database.acknowledged = database.slot = self.kept = begin
        database.delivered = max(database.delivered, begin)
        oracle.go_to(begin)
        oracle.furthest = begin
        oracle.whole.clear()
        oracle.due.clear()
        for table in (T, U):
            self._held[table] = dict(oracle.rows[table])
            oracle.consumer[table], oracle.touched[table] = dict(oracle.rows[table]), set()
        self._awaits_repairs = True
        self.happened["logs begun anew"] += 1
        self.note(f"a new log begins at {begin}", "job")
        return begin

    def _lose_signals(self, first: int, begin: int) -> None:
        """No log has these signals any more, and the repairs do what the initial snapshot had left."""
        for label, asked in self.answers.asked.items():
            if label == self.initial or (label.isdecimal() and first <= int(label) < begin):
                asked.lose()

    def hear(self, answer: Answer) -> None:
        """An answer. Those of a recovery's repairs were asked for by nobody."""
        if answer.label.startswith(PREFIX) and answer.label not in self.answers.asked:
            # Like the initial snapshot it has an answer for each table, and none as a whole.
            self.answers.ask(answer.label, Asked("initial", TABLES, self.kept, self.oracle.last_turn))
            self._awaits_repairs = False
        if answer.label.startswith(PREFIX) and answer.outcome is Outcome.ACCEPTED:
            self.note(f"{answer.label} {answer.outcome}: {answer.text}", "answer")
            return  # each table is announced by itself
        super().hear(answer)

    def _asks(self, label: str, type_: str) -> bool:
        if label.startswith(PREFIX):
            return type_ == "repair"
        return super()._asks(label, type_)

    def at_rest(self, job: Job) -> bool:
        """Whether everything was sent and answered, and every loss was made up for."""
        return super().at_rest(job) and not self._awaits_repairs

    # Steps.

    def _spoil(self, life: Life, table: str, kind: str, index: int) -> None:
        """Put a fault into the copy, unless a new log has begun and its repairs are not announced yet."""
        if not self._awaits_repairs:
            super()._spoil(life, table, kind, index)

    def _lose_log(self, _life: Life) -> None:
        """The log is removed as far as it goes."""
        if self.sent.turns:
            self.happened["logs lost"] += 1
            self.kept = len(self.database.log)

    def _lose_checkpoint(self, life: Life) -> None:
        """The checkpoint is gone, while no job runs."""
        if len(self._seats) > 1 or not self.sent.turns:
            return
        self.happened["checkpoints lost"] += 1
        self._crash(life)
        for name in [name for name in self.directory.files if not is_lease(name)]:
            del self.directory.files[name]
        for asked in self.answers.asked.values():
            asked.lose()


FLOORS: Final[dict[str, Any]] = {
    **verifying.FLOORS,
    "logs lost": 100,
    "checkpoints lost": 50,
    "logs begun anew": 150,
}
"""How often a thousand histories must have had it."""

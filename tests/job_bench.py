"""A job over a database in memory, whose log, openings and failures a test sets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import orjson

from adapters.spark.executors import LocalExecutors
from engine.errors import SchemaChanged, SignalError, SourceError, StateError, TableBusy
from engine.job.heartbeat import Heartbeat
from engine.job.loop import Job
from engine.job.parts import JobParts, Pace
from engine.job.reports.notices import Notices
from engine.job.reports.observation import Observation
from engine.job.reports.outbox import Outlet
from engine.job.saved.state import State
from engine.job.verify.verification import Verification
from engine.model import CollectionId, Position
from signals.desk import Desk
from signals.outcome import Fate
from tests.fakes import MemorySink, MemoryStateStore
from tests.memory_source import Change, MemoryDatabase, MemorySource, MemorySpan, batch_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from engine.job.verify.certificates import Certificates
    from engine.model import Target
    from engine.ports.source import EncodingResult
    from signals.answers import Answer
    from signals.channels.port import SignalChannel

T, U = CollectionId(("public", "t")), CollectionId(("public", "u"))
STEPS = ("take", "encode", "writer", "save_pending", "commit", "promote", "acknowledge", "open_window")
BOTH = '{"data-collections": ["public.t", "public.u"]}'


@dataclass
class StepRecorder:
    """Passes every call on, and notes the steps of a turn in the order they were taken."""

    behind: Any
    steps: list[str]

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.behind, name)
        if name not in STEPS:
            return call

        def noted(*args: Any) -> Any:
            self.steps.append(name)
            return call(*args)

        return noted


@dataclass
class ScriptedLog:
    """A log that says what it is told to, then nothing."""

    says: list[MemorySpan | SourceError | None]
    hurried: list[bool] = field(default_factory=list)
    acknowledged: list[Position] = field(default_factory=list)
    closed: bool = False

    def take(self, _timeout_s: float) -> MemorySpan | None:
        said = self.says.pop(0) if self.says else None
        if isinstance(said, SourceError):
            raise said
        return said

    def acknowledge(self, position: Position) -> None:
        self.acknowledged.append(position)

    def wake(self) -> None: ...

    def hurry(self, *, on: bool) -> None:
        self.hurried.append(on)

    def limit(self, share: float) -> None: ...

    def close(self) -> None:
        self.closed = True


@dataclass
class Scripted:
    """A MemorySource whose log, openings and measures are told what to do; `tells` is for the next span."""

    memory_source: MemorySource
    log: ScriptedLog | None = None
    openings: list[SourceError | StateError] = field(default_factory=list)
    refused: dict[CollectionId, SignalError | TableBusy] = field(default_factory=dict)
    vanish: dict[CollectionId, SignalError] = field(default_factory=dict)
    windows: list[SchemaChanged | SourceError] = field(default_factory=list)
    tells: dict[str, Any] = field(default_factory=dict)
    opened: int = 0
    measures: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory_source, name)

    def open_log(self, state: State) -> Any:
        self.opened += 1
        if self.openings:
            raise self.openings.pop(0)
        if self.log is None:
            return self.memory_source.open_log(state)
        return replace(state, position=state.position or Position((0,))), self.log

    def encode(self, span: MemorySpan, *more: Any) -> EncodingResult:
        """With what it is told to tell, once."""
        told, self.tells = self.tells, {}
        return replace(self.memory_source.encode(span, *more), **told)

    def tables(self) -> Scripted:
        return self

    def measure(self, targets: Sequence[Target], *, bounded: bool = False) -> list[Any]:
        self.measures += 1
        extents = self.memory_source.measure(targets, bounded=bounded)
        return [
            self.refused.get(target.collection) or extent
            for target, extent in zip(targets, extents, strict=True)
        ]

    def open_window(self, window: Any) -> Any:
        if self.windows:
            self.refused |= self.vanish
            raise self.windows.pop(0)
        return self.memory_source.open_window(window)


@dataclass
class CountedExecutors:
    """Runs tasks here, and counts those of each call."""

    tasks: list[int] = field(default_factory=list)

    def map(self, task: Any, items: Any) -> Any:
        self.tasks.append(len(items))
        return LocalExecutors().map(task, items)


def end(store: MemoryStateStore, turn: int) -> None:
    """Promote, and be no more."""
    MemoryStateStore.promote(store, turn)
    raise KeyboardInterrupt


class Bench:
    """A job in memory, with a clock that stands still until it is moved.

    The wall clock is wrong by `set_by_s`.
    """

    def __init__(self, staging: Path, **pace: Any) -> None:
        self.database = MemoryDatabase()
        for key in range(1, 6):
            self.database.commit(Change(T, key, f"t{key}"))
        for key in range(1, 4):
            self.database.commit(Change(U, key, f"u{key}"))
        self.database.acknowledged = len(self.database.log)
        self.source = Scripted(MemorySource(self.database, str(staging), span_rows=100))
        self.sink, self.store = MemorySink(), MemoryStateStore()
        self.steps: list[str] = []
        self.answers: list[Answer] = []
        self.recorded: dict[int, list[Answer]] = {}
        self.seen: list[Observation] = []
        self.slept: list[float] = []
        self.numbers = count(1)
        self.now_s, self.set_by_s = 1000.0, 0.0
        self.executors, self.local_rows = CountedExecutors(), 1000
        self.excluded: set[CollectionId] = set()
        self.partly: dict[CollectionId, str] = {}
        self.outlet: Outlet | None = None
        self.certificates: Certificates | None = None
        self.verification = Verification()
        self.channels: dict[str, SignalChannel] = {}
        self.pulse = Heartbeat(0.0, lambda now_ms: batch_of([("beat", None, str(now_ms))]), lambda: None)
        self.tasks: int = pace.pop("tasks", 2)
        self.pace = Pace(**{"chunk_rows": 2, "window_rows": 100, "max_lag_s": 1e12, "backoff_s": 1.0, **pace})
        self.job = self.new_job()

    def parts(self) -> JobParts:
        return JobParts(
            source=StepRecorder(self.source, self.steps),
            sink=StepRecorder(self.sink, self.steps),
            store=StepRecorder(self.store, self.steps),
            executors=self.executors,
            desk=Desk(self.answers.append, self.channels, monotonic=lambda: self.now_s, record=self.record),
            pulse=self.pulse,
            now=lambda: self.now_s + self.set_by_s,
            clock=lambda: self.now_s,
            sleep=self.sleep,
            new_id=lambda: f"window-{next(self.numbers)}",
            tasks=lambda: self.tasks,
            local_rows=self.local_rows,
            excluded=self.excluded.__contains__,
            copied_in_part=lambda collection: self.partly.get(collection, ""),
            notices=Notices(self.outlet),
            certificates=self.certificates,
            verification=self.verification,
        )

    def record(self, turn: int, answers: Sequence[Answer]) -> None:
        self.recorded[turn] = list(answers)

    def new_job(self) -> Job:
        self.job = Job(self.parts(), self.pace, self.seen.append)
        return self.job

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds

    def execute(self, data: str = '{"data-collections": ["public.t"]}') -> None:
        self.database.signal("s", "execute-snapshot", data)

    def turns(self, count: int) -> None:
        for _ in range(count):
            self.job.turn()

    def told(self) -> list[str]:
        """How each answer came out, and about which collection if it is about one."""
        firsts = ((answer.outcome, answer.text.split()[0]) for answer in self.answers)
        return [f"{how} {what}" if what.startswith("public.") else how for how, what in firsts]

    def fate(self, turn: int | None = None) -> Fate:
        """What became of the only signal by a turn, or by now."""
        fate = Fate()
        for number in sorted(self.recorded):
            if turn is None or number <= turn:
                for answer in self.recorded[number]:
                    fate = fate.after(asdict(answer))
        return fate

    def events(self) -> list[tuple[str, str, Any]]:
        """Operation, topic and key of what was sent."""
        return [
            (orjson.loads(event["value"])["op"], event["topic"], orjson.loads(event["key"]))
            for event in self.sink.events()
        ]

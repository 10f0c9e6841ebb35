"""A simulated sink: crashes, tears, stalls or refuses between any two steps; knows or forgets its turns.

files   knows after a restart which turns it has, and fences: a job that was relieved commits nothing
topics  forgets; a failed commit may leave the first of a turn's events, and the turn is sent again; may take
        rows beside the turns, whose events come out one by one between any two steps
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from engine.errors import InvariantError, SinkError
from engine.events.batch import EventForm
from engine.model import CollectionId, Part
from engine.staging.event_rows import EventRows
from tests.simulation.database import Entry
from tests.simulation.fallible_calls import ERRORS, fallible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from engine.job.snapshots.emission import Emission, EmissionResult
    from tests.simulation.database import Key
    from tests.simulation.fallible_calls import Process


class Read(NamedTuple):
    """A READ event: a row, and the number of the entry that changed it last before it was read.

    `ticket` is the entry of the queue that it was read for.
    """

    collection: CollectionId
    key: Key
    at: int
    value: str
    large: str | None
    ticket: int


Event: TypeAlias = "Entry | Read"


def read_text(at: int, value: str, large: str | None, place: int) -> str:
    """A row as what verifications compare."""
    return f"{at}|{value}|{'' if large is None else large}|{place}"


@dataclass
class Sent:
    """What the outside world holds: the turns, and the newest epoch that took the sink."""

    knows: bool
    judge: Callable[[int, int, Sequence[Event]], None]
    judge_beside: Callable[[int, Read, Counter[Key]], None]
    turns: dict[int, int] = field(default_factory=dict)
    owner: int = 0
    crashed: int = 0
    waits: int = 0

    def deliver(self, turn: int, process: int, events: Sequence[Event], *, whole: bool) -> None:
        """Make events visible; those of a turn that was torn count as another attempt of it."""
        self.judge(turn, process, events)
        if whole:
            self.turns[turn] = process


@dataclass
class SimRows:
    """Rows on their way: the READ events that are not out yet, and how it ends."""

    sent: Sent
    process: Process
    number: int
    emitted: EmissionResult
    left: list[Read]
    fault: str
    read: Counter[Key] = field(default_factory=Counter)

    def go_on(self) -> None:
        """The next event comes out, unless another process has taken the sink: producers are fenced."""
        if self.left and self.sent.owner != self.number:
            self.left.clear()
            self.fault = "fenced"
        if self.left:
            self.sent.judge_beside(self.number, self.left.pop(0), self.read)

    def done(self) -> bool:
        """Whether all are out that will be."""
        return not self.left

    def watch(self, changed: Any) -> None:
        """Nobody sleeps."""

    def poll(self) -> None:
        """Nothing is due."""

    def result(self) -> EmissionResult:
        """Wait, while time passes."""
        self.sent.waits += bool(self.left)
        while self.left:
            self.process.step("beside")
            self.go_on()
        if self.fault:
            raise ERRORS["beside"]()  # noqa: RSE102  it makes the error
        return self.emitted

    def stop(self) -> None:
        """Nothing more comes out."""
        self.left.clear()


class SimWriter:
    """Keeps the parts of a turn."""

    def __init__(self, process: Process) -> None:
        self.parts: dict[int, list[Event]] = {}
        self._process = process

    def write_entries(self, part: int, entries: Sequence[Entry]) -> Part:
        """Write a span's entries, whose events are themselves."""
        self.parts[part] = list(entries)
        return Part(part, len(entries))

    def write_reads(self, part: int, reads: Sequence[Read]) -> Part:
        """Write READ events."""
        with fallible(self._process, "write"):
            self.parts[part] = list(reads)
            return Part(part, len(reads))

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """No batches are rendered."""
        raise NotImplementedError

    def write_texts(self, part: int, texts: Any) -> Part:
        """No texts are rendered."""
        raise NotImplementedError

    def take(self, *_args: Any) -> Part:
        """No texts are rendered."""
        raise NotImplementedError


class SimSink:
    """The `Sink` of one process; with `beside` calls for each event it takes rows beside the turns.

    `number` is the epoch of the process's lease. `written` keeps the parts of a turn.
    """

    written: ClassVar[type[SimWriter]] = SimWriter
    form: ClassVar[EventForm] = EventForm.RECORDS
    row_form: ClassVar[EventRows] = EventRows()

    def __init__(self, sent: Sent, process: Process, number: int, beside: int = 0) -> None:
        self._sent, self._process, self._number = sent, process, number
        self._beside = 0 if sent.knows else beside
        self._on_their_way: list[SimRows] = []
        self._calls = 0
        self._begun: tuple[int, SimWriter] | None = None
        self._applied: set[int] = set()
        sent.owner = max(sent.owner, number)  # the epoch fences, not who comes last

    def writer(self, turn: int) -> SimWriter:
        """Begin a turn from scratch."""
        with fallible(self._process, "writer"):
            if self.resolve_commit(turn):
                raise InvariantError(f"turn {turn} is committed already")
            self._begun = (turn, self.written(self._process))
            return self._begun[1]

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterable[pa.RecordBatch]:  # noqa: ARG002
        """No topic is refused."""
        return ()

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Make a turn visible."""
        with fallible(self._process, "commit") as fault:
            if self.resolve_commit(turn):
                return
            if self._begun is None or self._begun[0] != turn:
                raise InvariantError(f"turn {turn} is committed without having been begun")
            written = self._begun[1].parts
            # A span may have been encoded again without a table: parts that are not named don't count.
            if any(len(written.get(part.number, ())) != part.events for part in parts):
                raise SinkError("the turn's parts are not those that were written")
            if self._sent.knows and self._sent.owner != self._number:
                raise SinkError("the turn's files were removed by a newer job")
            events = [
                event for number in sorted(part.number for part in parts) for event in written.get(number, ())
            ]
            if fault == "torn":
                if not self._sent.knows:
                    self._sent.deliver(turn, self._number, self.torn(events), whole=False)
            else:
                self._sent.deliver(turn, self._number, events, whole=True)
                self._applied.add(turn)
            self._begun = None

    def torn(self, events: list[Any]) -> list[Any]:
        """What is out of a turn that is sent in part."""
        return events[: len(events) // 2]

    @property
    def knows_turns(self) -> bool:
        """Whether it does after a restart."""
        return self._sent.knows

    @property
    def takes_rows(self) -> bool:
        """Whether it takes rows beside the turns."""
        return self._beside > 0

    def prepare_for_rows(self) -> bool:
        """It is always ready."""
        return True

    def take_rows(self, emission: Emission, topic: str) -> SimRows:
        """Begin to take rows. A fault strikes before any is out, after half of them, or after all."""
        self._process.step("beside")
        writer = self.written(self._process)
        emitted = emission.write(writer)
        events = [event for event in writer.parts[emission.part] if isinstance(event, Read)]
        if any(str(event.collection) != topic for event in events):
            raise InvariantError(f"not all of these rows go to {topic}")
        fault = self._process.fault("beside") if events else ""
        left = {"before": 0, "torn": len(events) // 2}.get(fault, len(events))
        rows = SimRows(self._sent, self._process, self._number, emitted, events[:left], fault)
        self._on_their_way.append(rows)
        return rows

    def go_on(self) -> None:
        """A call of any port: what is on its way goes on."""
        self._calls += 1
        if self._beside and self._calls % self._beside == 0:
            self._on_their_way = [rows for rows in self._on_their_way if rows.left]
            for rows in self._on_their_way:
                rows.go_on()

    def resolve_commit(self, turn: int) -> bool:
        """Whether the turn is committed, as far as this sink can know."""
        return turn in (self._sent.turns if self._sent.knows else self._applied)

    def newest_turn(self) -> int | None:
        """The newest committed turn, as far as this sink can know."""
        return max(self._sent.turns, default=None) if self._sent.knows else None

    def resume(self, saved: Mapping[str, str]) -> None:
        """Nothing is kept."""

    def memory(self) -> Mapping[str, str]:
        """Nothing is kept."""
        return {}

    def identity(self) -> str:
        """Nothing distinguishes it."""
        return ""

    def close(self) -> None:
        """Forget what was begun."""
        self._begun = None

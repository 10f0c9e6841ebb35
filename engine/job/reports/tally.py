"""What a running job counts of itself, for those who watch it: the metrics, the page, the checks.

The job's thread adds numbers, a few per turn and none per event. Other threads only read them, so nothing
waits for a lock. A number may be a turn ahead of another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.events.counts import NO_EVENTS, EventCounts
from engine.job.reports.quantiles import Quantiles
from engine.job.reports.snapshot_tally import SnapshotTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.job.reports.observation import Observation
    from engine.model import CollectionId, Window
    from engine.ports.log import LogReader
    from engine.ports.source import EncodingResult


class Phase(StrEnum):
    """What a window is doing."""

    OPEN = "open"
    READ = "read"
    WAIT = "wait"
    EMIT = "emit"


class JobPhase(StrEnum):
    """Where a job stands as a whole."""

    STARTING = "starting"
    STANDING_BY = "standing by"
    OPENING = "opening the log"
    STREAMING = "streaming"
    FAILING = "failing"
    STOPPED = "stopped"


@dataclass(slots=True)
class PhaseTime:
    """How many windows were in a phase, and for how many seconds altogether; `last_s` is the last one's."""

    windows: int = 0
    seconds: float = 0.0
    last_s: float = 0.0


@dataclass(slots=True)
class _Turn:
    """What the turn in hand has counted. It is dropped if the turn fails, since it is done again."""

    entries: int = 0
    counts: EventCounts = NO_EVENTS
    erroneous: int = 0


@dataclass(slots=True)
class Tally:
    """The numbers of one job since its process began.

    - `passes` counts passes of the loop, those without a turn, too
    - `sent` are the events of turns, `entries` those of the log, `counts` the change events by operation
    - `erroneous` are entries kept as dead letters, `disconnects` failures that ended a session of the log
    - `staged_bytes` are the rows of windows that wait to be emitted, `given_up` windows without result
    - `lag_ms` has the lag of each event, weighted by the events of a turn
    - `failures` counts errors by class, `failure` is the class of the last one until a turn succeeds
    - `captured` are the captured collections, as the log was opened; read only if `watched`
    - `windows` are those in progress
    """

    watched: bool = False
    standing: JobPhase = JobPhase.STARTING
    passes: int = 0
    turns: int = 0
    sent: int = 0
    entries: int = 0
    counts: EventCounts = NO_EVENTS
    erroneous: int = 0
    disconnects: int = 0
    staged_bytes: int = 0
    given_up: int = 0
    phases: dict[Phase, PhaseTime] = field(default_factory=lambda: {phase: PhaseTime() for phase in Phase})
    lag_ms: Quantiles = field(default_factory=Quantiles)
    failures: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    sessions: int = 0
    captured: frozenset[CollectionId] = frozenset()
    windows: tuple[Window, ...] = ()
    snapshots: SnapshotTally = field(default_factory=SnapshotTally)
    seen: Observation | None = None
    last_event_s: float | None = None
    log: LogReader | None = None
    _turn: _Turn = field(default_factory=_Turn)

    @property
    def read(self) -> int:
        """The rows that windows have read."""
        return self.snapshots.whole.read + self.snapshots.incremental.read

    @property
    def emitted(self) -> int:
        """The rows of them that were emitted."""
        return self.snapshots.whole.emitted + self.snapshots.incremental.emitted

    @property
    def superseded(self) -> int:
        """The rows of them that were not, because the stream had newer ones."""
        return self.read - self.emitted

    @property
    def filtered(self) -> int:
        """The entries of the log that became no event."""
        return max(0, self.entries - self.counts.changes)

    def note_opened(self, log: LogReader, captured: Iterable[CollectionId]) -> None:
        """Note that a session of the log is open."""
        self.sessions += 1
        self.log, self.standing = log, JobPhase.STREAMING
        self.captured = frozenset(captured)

    def note_closed(self) -> None:
        """Note that the session of the log has ended, and with it all windows."""
        self.log, self.windows, self.staged_bytes, self._turn = None, (), 0, _Turn()
        self.snapshots.drop()
        if self.standing is JobPhase.STREAMING:
            self.standing = JobPhase.OPENING

    def note_new_collections(self, collections: Iterable[CollectionId]) -> None:
        """Note collections that are captured from now on."""
        self.captured |= frozenset(collections)

    def count_error(self, error: Exception, *, ends: bool = False) -> None:
        """Count an error. `ends`: it has ended the session of the log."""
        self.failures[type(error).__name__] += 1
        if ends:
            self.disconnects += 1
            self.failure, self.standing = type(error).__name__, JobPhase.FAILING

    def count_span(self, entries: int, encoded: EncodingResult) -> None:
        """Count a span of the log, with the turn."""
        self._turn.entries += entries
        self._turn.counts += encoded.counts
        self._turn.erroneous += sum(letters.count for letters in encoded.letters.values())

    def count_turn(self, seen: Observation) -> None:
        """Count a turn that is saved."""
        turn, self._turn = self._turn, _Turn()
        self.turns += 1
        self.sent += seen.events
        self.entries += turn.entries
        self.counts += turn.counts
        self.erroneous += turn.erroneous
        self.failure = ""
        if self.log is not None:
            self.standing = JobPhase.STREAMING
        if seen.events:
            self.last_event_s = seen.now_s
            self.lag_ms.add(seen.lag_s * 1000, seen.events)
        self.snapshots.follow(seen.state.snapshot, seen.now_s)
        self.seen = seen

    # Windows.

    @property
    def opened_windows(self) -> int:
        """How many windows were opened."""
        return self.phases[Phase.OPEN].windows

    def add_time(self, phase: Phase, seconds: float) -> None:
        """Count how long a window was in a phase."""
        time = self.phases[phase]
        time.windows += 1
        time.seconds += seconds
        time.last_s = seconds

    def note_windows(self, windows: Sequence[Window], staged_bytes: int) -> None:
        """Note the windows in progress, and how much of them waits to be emitted."""
        self.windows, self.staged_bytes = tuple(windows), staged_bytes

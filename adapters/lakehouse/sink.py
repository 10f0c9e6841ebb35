"""The sinks `delta` and `iceberg`: tables that are kept equal to their sources, exactly once.

Owns the order of steps. A turn is committed once its typed events are in the journal, on disk and under their
final name (`journal.py`). From then on nothing takes it back: a thread merges it into the tables, and if the
process dies, the next one does (`merger.py`). So no turn is in one table and lost to another, and the stream
never waits for a merge, unless the journal grows beyond its bound.

What a table can't take is refused before the commit, as long as the turn can still be begun anew without it.
"""

from __future__ import annotations

import logging
import math
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from adapters.jdbc.folding.fold import Fold
from adapters.jdbc.folding.turn_events import PlacedBatch, TurnEvents
from adapters.jdbc.parts import packed, topic_of, unpacked
from adapters.jdbc.touched_keys import TouchedKeys
from adapters.lake.row_columns import changes_in, source_of
from adapters.lakehouse.batch import digested_keys
from adapters.lakehouse.removal import removal_of
from adapters.staging.turn_parts import ArrowPart, ArrowParts, number, written_files
from engine.errors import InvariantError, SinkError, SinkRefused, StateNotSaved, TopicsRefused
from engine.events.batch import EventForm
from engine.staging.column_rows import ColumnRows
from engine.verify.compared_digests import DIGEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from adapters.lake.table_name import TableNaming
    from adapters.lakehouse.journal import Journal
    from adapters.lakehouse.merger import Admission, Merger
    from adapters.system import SideTask, StartBeside
    from engine.clock import Clock
    from engine.errors import TopicRemade
    from engine.model import Part
    from engine.ports.sink import PartWriter

_log = logging.getLogger("adapters")
_MOST_WAITING: Final = 1 << 30
"""Bytes of parts that may wait to be merged."""
_MUCH: Final = 16 << 20
"""Bytes of parts that need not wait for more."""
_MOMENT_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_PATIENCE: Final = 3
"""Failures in a row before the job is told."""
_TIMES_LONGER: Final = 10
"""How many times as long as tending the tables took they are left alone at least."""
ENDING_S: Final = 5.0
"""How long a job that ends waits for merges. A process that is told to end has 8 s for all it does."""


class LakeSink:
    """Writes turns into a journal, and has a thread merge them. Without `start` `drain` does it."""

    form: Final = EventForm.COLUMNS
    row_form: Final = ColumnRows()

    def __init__(
        self,
        journal: Journal,
        merger: Merger,
        admission: Admission,
        naming: TableNaming,
        merging: MergeThread | None = None,
    ) -> None:
        self._journal, self._merger, self._admission, self.naming = journal, merger, admission, naming
        self._merging, self._placeholders = merging, merger.placeholders
        self._begun: tuple[int, Path] | None = None
        self._committed: int | None = None
        self._withheld: frozenset[str] = frozenset()
        self._told: dict[str, TopicRemade] = {}
        """What the job has heard that topics lack. It saves that with the next turn, before the commit."""
        self.newest_turn = journal.newest_turn
        self.touched = TouchedKeys(
            Path(f"{journal.location}-touched"), DIGEST, digested_keys, journal.newest_turn() or 0
        )

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn."""
        self._heed()
        if self.resolve_commit(turn):
            raise SinkRefused(
                f"turn {turn} is committed already",
                where=self._journal.location,
                hint="use the checkpoint that belongs to these tables",
            )
        self._withheld, self._committed = frozenset(), None
        self._begun = (turn, self._journal.begin(turn))
        return ArrowParts(self._begun[1])

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterator[pa.RecordBatch]:
        """Leave a topic's events out of the turn, and return them as records."""
        self._withheld |= {topic}
        found = [batch for batch in self._batches(parts) if topic_of(batch) == topic]
        return (packed(batch) for batch in found)

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Put the turn into the journal."""
        if turn == self._committed:
            return
        self._heed()
        self._refuse(parts)
        self._note_touched(turn, parts)
        self._journal.commit(self._attempt(turn), turn, parts, self._withheld)
        self._committed = turn
        self._merger.note_saved(self._told)
        self._told = {}
        self.touched.note_commit(turn)
        if self._merging is not None:
            self._merging.wake()

    def resolve_commit(self, turn: int) -> bool:
        """Find out whether the turn is in the journal, or merged."""
        return self._journal.resolve_commit(turn)

    def resume(self, saved: Mapping[str, str]) -> None:
        """Do nothing: what this sink keeps is in its journal."""

    def memory(self) -> Mapping[str, str]:
        """Save nothing. The job calls this in every pass, so errors of merges are raised here."""
        if self._merging is not None:
            self._merging.heed()
        return {}

    def identity(self) -> str:
        """The journal's own id. Another journal is another history of the same tables."""
        return self._journal.identity

    def drain(self) -> None:
        """Merge all that waits, in this thread."""
        while self._merger.step():
            pass

    def await_shown(self) -> bool:
        """Wait a moment while turns are to be merged; returns whether none is left."""
        if self._merging is not None and self._journal.waiting():
            self._merging.wait()
        return not self._journal.waiting()

    def merged(self, turn: int) -> bool:
        """Whether all turns up to this one are in the tables. Any thread may ask."""
        return all(waiting.turn > turn for waiting in self._journal.waiting())

    def close(self) -> None:
        """Let merges end that end soon, and remove what was not committed. The next start merges the rest."""
        if self._merging is not None:
            self._merging.close()
        self._journal.discard()
        self.touched.clear()

    def _attempt(self, turn: int) -> Path:
        if self._begun is None or self._begun[0] != turn:
            raise InvariantError(f"turn {turn} is committed without having been begun")
        return self._begun[1]

    def _batches(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """The typed events of the turn."""
        return (batch.events for batch in self._placed(parts))

    def _placed(self, parts: Sequence[Part]) -> Iterator[PlacedBatch]:
        """The same with their parts."""
        attempt = self._begun[1] if self._begun else None
        if attempt is None:
            raise InvariantError("no turn was begun")
        checksums = {part.number: part.checksum for part in parts}
        for path in written_files(attempt, parts):
            part = number(path)
            for batch in ArrowPart(path, checksums[part]).batches():
                if removal_of(batch) is None:
                    typed = [batch] if topic_of(batch) is not None else unpacked(batch)
                    yield from (PlacedBatch(part, events) for events in typed)

    def _note_touched(self, turn: int, parts: Sequence[Part]) -> None:
        """Note the keys of the topics that somebody compares."""
        self.touched.begin()
        if not self.touched.followed:
            return
        found: dict[str, list[PlacedBatch]] = {}
        for part, batch in self._placed(parts):
            topic, events = topic_of(batch) or "", changes_in(batch)
            if topic in self.touched.followed - self._withheld and events.num_rows:
                found.setdefault(topic, []).append(PlacedBatch(part, events))
        for topic, batches in found.items():
            try:
                self.touched.note(turn, [topic], Fold(TurnEvents(batches), self._placeholders))
            except SinkRefused:
                self.touched.note_all(turn, topic)  # its table can't take them

    def _refuse(self, parts: Sequence[Part]) -> None:
        """Raise TopicsRefused if the tables can't have some of the events."""
        reasons: dict[str, SinkError] = {}
        for batch in self._batches(parts):
            topic, events = topic_of(batch) or "", changes_in(batch)
            if topic in self._withheld or topic in reasons or not events.num_rows:
                continue
            remade = self._merger.remade.get(topic)
            if remade is not None and remade is not self._told.get(topic):
                self._admission.forget()
                reasons[topic] = self._told[topic] = remade
                continue
            try:
                self._admission.admit(self.naming.table(topic, source_of(events)), events)
            except SinkRefused as error:
                reasons[topic] = error
        if reasons:
            raise TopicsRefused(reasons)

    def _heed(self) -> None:
        """Raise what keeps turns from being merged; wait while too many wait."""
        if self._merging is None:
            return
        self._merging.heed()
        self._merging.wait_while(lambda: self._merger.waiting_bytes() > _MOST_WAITING)


@dataclass(frozen=True, slots=True)
class Pace:
    """When a thread does what.

    - `tends_s`: how often it tends the tables at most; 0: never
    - `gathers_s`: how long turns gather at least, so that there is not a small file for each of them
    - `ending_s`: how long its end is waited for
    """

    tends_s: float = 0.0
    gathers_s: float = 0.0
    ending_s: float = ENDING_S


_PACE: Final = Pace()


class MergeThread:
    """The thread that merges."""

    def __init__(
        self,
        merger: Merger,
        start: StartBeside,
        clock: Clock,
        pace: Pace = _PACE,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._merger, self._clock, self._pace, self._failed = merger, clock, pace, failed
        self._changed = threading.Condition()
        self._woken = True
        self._closing = False
        self._failures = 0
        self._error: Exception | None = None
        self._tends_s, self._ends_s = clock.monotonic() + pace.tends_s, math.inf
        self._thread: SideTask = start(self._run, "tidemark-merges")

    def wake(self) -> None:
        """Say that there is something to merge."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def heed(self) -> None:
        """Raise the error for which nothing is merged, if it does not pass or has come several times."""
        with self._changed:
            if (error := self._due_error()) is not None:
                self._failures = 0  # each further report takes as many failures again
                raise error

    def _due_error(self) -> Exception | None:
        """The error that the job has to hear of."""
        with self._changed:
            due = self._error is not None and (not _passes(self._error) or self._failures >= _PATIENCE)
            return self._error if due else None

    def wait(self) -> None:
        """Wait a moment, or until something is merged."""
        with self._changed:
            self._changed.wait(_MOMENT_S)

    def wait_while(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition ends, or the job is to stop. Raises what `heed` does."""
        while condition() and self._due_error() is None and not self._clock.sleep(_MOMENT_S):
            pass
        self.heed()

    def close(self) -> None:
        """Merge what waits, and end the thread, in time. A merge that takes longer ends with the process."""
        with self._changed:
            self._closing, self._ends_s = True, self._clock.monotonic() + self._pace.ending_s
            self._changed.notify_all()
        self._thread.join(self._pace.ending_s)

    def _run(self) -> None:
        while self._one():
            pass

    def _one(self) -> bool:
        """Merge a group, or wait for one; returns whether to go on."""
        begun_s = self._clock.monotonic()
        try:
            more = self._merger.step()
            self._tend()
        except Exception as error:  # noqa: BLE001  the job raises it
            return self._note(error)
        with self._changed:
            self._failures, self._error = 0, None
            self._changed.notify_all()
            if more:
                gathers_s = begun_s + self._pace.gathers_s - self._clock.monotonic()
                self._changed.wait_for(self._is_due, max(0.0, gathers_s))
                return self._clock.monotonic() < self._ends_s
            if self._closing:
                return False
            if not self._woken:
                self._changed.wait(1.0)
            self._woken = False
        return True

    def _is_due(self) -> bool:
        return self._closing or self._merger.waiting_bytes() >= _MUCH

    def _tend(self) -> None:
        """Tend the tables when it is time, between merges that may never pause."""
        begun_s = self._clock.monotonic()
        if self._pace.tends_s and begun_s >= self._tends_s and not self._closing:
            try:
                self._merger.tend()
            finally:
                ended_s = self._clock.monotonic()
                self._tends_s = ended_s + max(self._pace.tends_s, _TIMES_LONGER * (ended_s - begun_s))

    def _note(self, error: Exception) -> bool:
        """Wait before the next attempt; returns whether there is one."""
        self._failed()
        with self._changed:
            self._failures, self._error = self._failures + 1, error
            self._changed.notify_all()
            if self._closing:
                _log.warning("%s; what waits is merged by the next start", error)
                return False
            if not _passes(error):
                return False  # the job hears of it, and begins anew or ends
            pause_s = min(_LONGEST_PAUSE_S, 2.0 ** min(self._failures - 1, 10))
            _log.warning("%s; merging again in %.0f s", error, pause_s)
            self._changed.wait_for(lambda: self._closing, pause_s)
        return True


def _passes(error: Exception) -> bool:
    """Whether a failure may pass by itself."""
    return isinstance(error, SinkError | StateNotSaved) and not isinstance(error, SinkRefused)

"""Rows of a window that the sink takes beside the turns: what is on its way, and who must wait for it.

A sink that can take rows by itself (`TakesRows`) is given the runs of a window once the stream has passed the
window's watermark. Turns go on meanwhile. Their changes wait only if they touch a row that is on its way:

    turn             7       8       9            10      11
    changes of       x   y   z       k            k, m    x
    run A (k, l)         ├── on its way ──┤ taken
    run B (m, n)         ├── on its way ─────────────┤ taken
                                     ▲            ▲
                         turn 9 waits for A       turn 10 saves the progress of A, and waits for B

The rules, and why they hold:

- A run starts after a turn, never inside one. So the sink has all changes up to the state's position, which
  the merge rule asks for, and the superseded rows are those superseded up to there.
- A turn whose changes name a key of a run on its way is committed only once the sink has all of the run. All
  of these changes are newer than the rows: the stream had passed what the rows contain. So a READ never
  follows a newer change of its key, and never precedes an older one. Where the keys are on executors, their
  hashes are compared, so a turn may wait without need, but never fails to wait.
- Progress is saved with the turn after the run was taken, in the runs' order. A state never says that rows
  were sent before they were.
- A window that is given up, and a session that ends, wait for what is on its way. So no READ of an earlier
  window or session arrives later. What nobody waits for is left by a killed process alone; who sends ends
  with it (`adapters/kafka/beside/senders.py`).

What the next start does if the process dies while runs are on their way: the state does not know of them, so
their rows are read again, under a new window. A consumer gets each of these rows once more, newer or equal.
At most `most` runs are on their way, so a crash repeats at most these, and the turn.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.errors import TidemarkError
from engine.snapshot.extent import Advance
from engine.staging.port import TellsKeys

if TYPE_CHECKING:
    import pyarrow as pa

    from engine.job.snapshots.emission import EmissionResult
    from engine.model import Position, Run, StagedRun
    from engine.ports.sink import RowsOnTheirWay
    from engine.snapshot.merge import NewerKeys, SupersededKeys
    from engine.snapshot.queue import Snapshot


@dataclass(frozen=True, slots=True)
class RunInFlight:
    """A staged run on its way to the sink.

    `runs` are the window's runs whose progress it is: its own, and those before it that have no rows. `end`
    is the number of the run behind them. `position` is where the stream was when it started.
    """

    staged: StagedRun
    runs: tuple[Run, ...]
    end: int
    position: Position
    way: RowsOnTheirWay
    _keys: list[pa.ChunkedArray | None] = field(default_factory=list)

    def behind(self, snapshot: Snapshot) -> Snapshot:
        """The queue as it will be behind it, if nothing has to be read again."""
        for ticket in dict.fromkeys(run.ticket for run in self.runs):
            runs = tuple(run for run in self.runs if run.ticket == ticket)
            rows = self.staged.rows if ticket == self.staged.ticket else 0
            snapshot = snapshot.advanced(Advance(ticket, runs, rows=rows))
        return snapshot

    def is_touched_by(self, newer: NewerKeys) -> bool:
        """Whether changes concern any of the rows; True if that can't be told here."""
        if newer.truncated or newer.taken.num_rows:
            return True
        if not len(newer.keys):
            return False
        keys = self._merge_keys()
        if keys is not None:
            return newer.survivors(keys) is not None
        return self.staged.hashes is None or self.staged.hashes.may_have(newer.keys)

    def _merge_keys(self) -> pa.ChunkedArray | None:
        """The rows' merge keys, looked up once."""
        if not self._keys:
            content = self.staged.content
            self._keys.append(content.merge_keys() if isinstance(content, TellsKeys) else None)
        return self._keys[0]


@dataclass(slots=True)
class RowsBeside:
    """What of one window is on its way, in the order of its runs.

    `started` is the number of the run behind the last one that was started.
    """

    started: int = 0
    _on_their_way: deque[RunInFlight] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self._on_their_way)

    def start(self, taking: RunInFlight) -> None:
        """Note what has started."""
        self._on_their_way.append(taking)
        self.started = taking.end

    def behind(self, snapshot: Snapshot) -> Snapshot:
        """The queue as it will be behind everything on its way."""
        for taking in self._on_their_way:
            snapshot = taking.behind(snapshot)
        return snapshot

    def poll(self) -> None:
        """Let the sink do what is due for the first one."""
        if self._on_their_way:
            self._on_their_way[0].way.poll()

    @property
    def any_taken(self) -> bool:
        """Whether the first one is taken, or has failed."""
        return bool(self._on_their_way) and self._on_their_way[0].way.done()

    def take_finished(self) -> list[tuple[RunInFlight, EmissionResult]]:
        """Take out the first ones that the sink has. Raises SinkError or SourceError if one has failed."""
        found = []
        while self.any_taken:
            first = self._on_their_way[0]
            emitted = first.way.result()
            self._on_their_way.popleft()
            found.append((first, emitted))
        return found

    def wait_for(self, touching: SupersededKeys) -> None:
        """Wait until the sink has every run that these changes touch. Raises as `take_finished` does."""
        for taking in self._on_their_way:
            if not taking.way.done() and taking.is_touched_by(touching.of(taking.staged.collection)):
                taking.way.result()

    def stop(self) -> None:
        """Let nothing be on its way any more, taken or not."""
        while self._on_their_way:
            with suppress(TidemarkError):  # whatever failed, its rows are read again
                self._on_their_way.popleft().way.stop()

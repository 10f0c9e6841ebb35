"""What a job is made of: the implementations of its ports, and its pace.

Values only. The adapter that assembles a job fills them, or a test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.job.reports.listeners import Listeners
from engine.job.reports.notices import Notices
from engine.job.reports.tally import Tally
from engine.job.saved.forms import PREVIOUS
from engine.job.verify.verification import Verification
from engine.model import NO_LIMIT, Limit
from engine.snapshot.markers import Marker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    import pyarrow as pa

    from engine.isolation.kept_events import Bundle
    from engine.job.heartbeat import Heartbeat
    from engine.job.saved.state import State
    from engine.job.verify.certificates import Certificates
    from engine.model import Arrival, CollectionId, Position
    from engine.ports.desk import SignalDesk, SnapshotListener
    from engine.ports.executors import Executors
    from engine.ports.sink import Sink
    from engine.ports.source import Source
    from engine.ports.state_store import DeadLetters, Lease, StateStore


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the job turns and how much a window reads. Times are in seconds.

    Windows: `window_rows` bounds the first window, before a rate is known. `window_bytes` bounds each of
    them, or `task_bytes` for each task if that is more. `max_chunks` None means no bound.
    `longest_window_s` is for sources whose windows hold nothing in the database: see `rate.reading_s`. A
    window is emitted in slices that take about `slice_s` each; the first has `slice_bytes` of staged rows.
    With `spreads`, a slice that executors write has a run for each of their tasks, so that none is idle. A
    window is read and emitted in runs: `pieces`, `piece_rows` and `piece_bytes` are those of `Budget`. No
    window opens while the stream lags more than `max_lag_s`. A collection with more than `most_reread` rows
    to read again is read from the beginning.

    Waits: a silent log is waited for up to `idle_s`, and beside a window up to `waiting_s`, unless something
    becomes of the window. While the source holds the log, windows are looked at every `held_s`.

    Retries: after a SourceError the log is reopened `retries` times (None: no bound), with pauses that double
    from `backoff_s` up to `longest_backoff_s`. Until the log has been open once, `first_retries` and
    `first_backoff_s` are the bounds for a SourceError. A silent log's position is saved every `save_s`.

    Sinks: with `repeats_behind_sink` the job continues behind turns that the sink holds and the state does
    not know. With `recovers` a new log begins once the log is lost, and the copy is repaired. With `moves`
    events may go to another destination than before. A topic that refuses events is offered its kept events
    after `probe_s`, then after pauses that double up to `longest_probe_s`.

    Signals may queue up to `most_queued` collections; each request counts. All of them have at most
    `most_keys` keys and ranges, and `most_conditions` characters of conditions. Without `blocking` no signal
    may ask for a blocking snapshot. `limit` is what all windows together may read per second. `state_version`
    is the version of the documents that are saved. Up to `few_entries` of the queue, its requests and the
    sink's memory stay in the turn's own document.
    """

    chunk_rows: int = 1024
    window_s: float = 2.0
    longest_window_s: float = 0.0
    window_rows: int = 200_000
    window_bytes: int = 256 << 20
    task_bytes: int = 0
    max_chunks: int | None = None
    slice_s: float = 0.05
    slice_bytes: int = 8 << 20
    spreads: bool = False
    pieces: int = 12
    piece_rows: int = 25_000
    piece_bytes: int = 0
    max_lag_s: float = 5.0
    idle_s: float = 0.1
    waiting_s: float = 0.1
    held_s: float = 0.01
    save_s: float = 1.0
    retries: int | None = None
    first_retries: int = 6
    window_retries: int = 5
    reread_rounds: int = 10
    most_reread: int = 100_000
    backoff_s: float = 0.5
    longest_backoff_s: float = 10.0
    first_backoff_s: float = 10.0
    repeats_behind_sink: bool = False
    recovers: bool = False
    moves: bool = False
    probe_s: float = 10.0
    longest_probe_s: float = 600.0
    isolates: bool = True
    letters_bytes: int = 1 << 30
    most_queued: int = 10_000
    most_keys: int = 100_000
    most_conditions: int = 16 << 20
    blocking: bool = True
    limit: Limit = NO_LIMIT
    state_version: int = PREVIOUS
    few_entries: int = 50

    def pause_s(self, failures: int, *, was_open: bool = True) -> float:
        """How long to wait after this many failures in a row."""
        longest_s = self.longest_backoff_s if was_open else min(self.longest_backoff_s, self.first_backoff_s)
        return min(longest_s, self.backoff_s * 2.0 ** min(failures - 1, 20))


class NoLease:
    """The lease of a job that no other job can disturb."""

    def check(self) -> None:
        """Do nothing: the lease is always held."""

    def confirm(self) -> None:
        """Do nothing: the lease is always held."""


class NoLetters:
    """Discards all dead letters."""

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """Discard the lines."""

    def drop(self, collection: CollectionId) -> None:
        """Do nothing: no letters are kept."""

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """Do nothing: no letters are kept."""

    epoch = 0

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        """Discard the bundle."""

    def bundles(self, collection: CollectionId) -> Sequence[Bundle]:  # noqa: ARG002  of no collection
        """No bundles."""
        return ()

    def lines_of(self, bundle: Bundle) -> Sequence[bytes]:  # noqa: ARG002  of no bundle
        """No lines."""
        return ()

    def drop_bundle(self, bundle: Bundle) -> None:
        """Do nothing: no bundles are kept."""


@dataclass(frozen=True, slots=True)
class JobParts:
    """Everything the job works with.

    - `now` is Unix time in seconds, for events and logs. `clock` counts seconds and never goes back.
    - `executors` write staged rows to the sink if a slice has more than `local_rows`; else the driver does.
    - `tasks` tells how many tasks a window should be read by.
    - `sleep` may return early when the job is to stop.
    - `new_id` makes the ids of windows.
    - `show` formats a position the way its database does.
    - `topic` gives the topic of a collection's events.
    - `destination` identifies where events go, by names of settings.
    - `copied_in_part` says why a collection's copy does not have all of its rows; empty: it has.
    - `excluded` says whether the settings' filters exclude a collection.
    - `done` says whether nothing is left to do.
    - `take_appeared` returns the collections that are captured only since its last call, or since the state
      was saved. With `reads_new` their rows are read.
    - `take_added` returns the events that signals have made the source add to the turn that takes them.
    - `notices` makes the notifications, `tally` counts for those who watch.
    - `certificates` issues those of snapshots; None: there are none.
    - `verification` compares collections with their copies.
    - `marks` are the snapshot markers that the events of an initial snapshot may carry.
    """

    source: Source
    sink: Sink
    store: StateStore
    executors: Executors
    desk: SignalDesk
    pulse: Heartbeat
    now: Callable[[], float]
    clock: Callable[[], float]
    sleep: Callable[[float], object]
    new_id: Callable[[], str]
    tasks: Callable[[], int] = lambda: 2
    local_rows: int = 20_000
    show: Callable[[Position], str] = str
    done: Callable[[State], bool] = lambda _state: False
    take_appeared: Callable[[], Sequence[Arrival]] = tuple
    take_added: Callable[[], Sequence[pa.RecordBatch]] = tuple
    reads_new: bool = False
    marks: frozenset[Marker] = frozenset(Marker)
    lease: Lease = field(default_factory=NoLease)
    letters: DeadLetters = field(default_factory=NoLetters)
    topic: Callable[[CollectionId], str] = str
    destination: Callable[[], Mapping[str, str]] = dict
    copied_in_part: Callable[[CollectionId], str] = lambda _collection: ""
    excluded: Callable[[CollectionId], bool] = lambda _collection: False
    notices: Notices = field(default_factory=Notices)
    tally: Tally = field(default_factory=Tally)
    certificates: Certificates | None = None
    verification: Verification = field(default_factory=Verification)

    def shown(self, position: Position | None) -> str:
        """A position as its database shows it."""
        return self.show(position) if position else "no position"

    @property
    def listener(self) -> SnapshotListener:
        """Whoever is told what happens to collections of the queue."""
        return Listeners((self.desk.answers, self.notices.collections, self.tally.snapshots))

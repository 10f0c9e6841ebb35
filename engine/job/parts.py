"""What a job is made of: everything behind a port, and the pace at which it goes.

Values only; who fills them is the adapter that puts a job together, or a test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.snapshot.markers import Marker

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from engine.isolation.kept_events import Bundle
    from engine.job.heartbeat import Heartbeat
    from engine.job.state import State
    from engine.model import CollectionId, Position
    from engine.ports import DeadLetters, Executors, Lease, SignalDesk, Sink, Source, StateStore


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the job turns and how much a window reads; times in seconds.

    `window_rows` bounds the first window, before a rate is known; `max_chunks` None is no bound.
    `longest_window_s` is for sources whose windows hold nothing in the database: see `rate.reading_s`.
    A window's rows go out in slices that take a turn about `slice_s`, the first of `slice_bytes` as staged.
    No window opens while the stream lags more than `max_lag_s`. A silent log's position is saved
    every `save_s`. After a SourceError the log is opened again `retries` times (None: no bound; as long
    as it has never been open, `first_retries` times), with pauses that double up to the longest, and
    before it has been open to no more than `first_backoff_s`. `repeats_behind_sink`: where the sink holds
    turns that the state does not know, the job goes on behind them. A collection of which more than
    `most_reread` rows are to be read again is begun anew.
    A topic that refuses events is offered what is kept for it after `probe_s`, then after pauses that double
    up to the longest. `moves`: events may go elsewhere than those before. Signals queue `most_queued`
    collections, each as often as it is asked for.
    """

    chunk_rows: int = 1024
    window_s: float = 2.0
    longest_window_s: float = 0.0
    window_rows: int = 200_000
    window_bytes: int = 256 << 20
    max_chunks: int | None = None
    tasks: int = 2
    slice_s: float = 0.05
    slice_bytes: int = 8 << 20
    max_lag_s: float = 5.0
    idle_s: float = 0.1
    waiting_s: float = 0.01
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
    moves: bool = False
    probe_s: float = 10.0
    longest_probe_s: float = 600.0
    isolates: bool = True
    letters_bytes: int = 1 << 30
    most_queued: int = 10_000

    def pause_s(self, failures: int, *, was_open: bool = True) -> float:
        """How long to wait after so many failures in a row."""
        longest_s = self.longest_backoff_s if was_open else min(self.longest_backoff_s, self.first_backoff_s)
        return min(longest_s, self.backoff_s * 2.0 ** min(failures - 1, 20))


class NoLease:
    """The lease of a job that nobody can disturb."""

    def check(self) -> None:
        """It is always held."""

    def confirm(self) -> None:
        """It is held whatever fails."""


class NoLetters:
    """Keeps no dead letters."""

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """They are gone."""

    def drop(self, collection: CollectionId) -> None:
        """There are none."""

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """There are none."""

    epoch = 0

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        """They are gone."""

    def bundles(self, collection: CollectionId) -> Sequence[Bundle]:  # noqa: ARG002  of no collection
        """There are none."""
        return ()

    def lines_of(self, bundle: Bundle) -> Sequence[bytes]:  # noqa: ARG002  of no bundle
        """There are none."""
        return ()

    def drop_bundle(self, bundle: Bundle) -> None:
        """There are none."""


@dataclass(frozen=True, slots=True)
class JobParts:
    """Everything the job works with, behind its ports.

    `now` is Unix time in seconds, for what is told; `clock` counts seconds and never goes back.
    `executors` give staged rows to the sink, more than `local_rows` at once.
    `sleep` may return early when the job is to stop; `show` gives a position as its database writes it;
    `topic` is that of a collection's events; `destination` tells where events go from every other place, by
    what the settings name; `excluded` is whether the settings' filters leave a collection out; `done` says
    that nothing is left to do; `marks` are those that an initial snapshot's events know.
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
    local_rows: int = 20_000
    show: Callable[[Position], str] = str
    done: Callable[[State], bool] = lambda _state: False
    marks: frozenset[Marker] = frozenset(Marker)
    lease: Lease = field(default_factory=NoLease)
    letters: DeadLetters = field(default_factory=NoLetters)
    topic: Callable[[CollectionId], str] = str
    destination: Callable[[], Mapping[str, str]] = dict
    excluded: Callable[[CollectionId], bool] = lambda _collection: False

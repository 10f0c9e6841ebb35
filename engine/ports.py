"""The ports: what the engine requires of a source, a sink, the state store and the executors.

Owns the Protocols, the values that cross them, and what an implementation must guarantee. The suites in
`tests/conformance` check every implementation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, runtime_checkable

from engine.events.counts import NO_EVENTS, EventCounts
from engine.model import CollectionId
from engine.snapshot.merge import Superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from engine.errors import SignalError, TableBusy
    from engine.events.batch import EventForm
    from engine.isolation.incomplete import Incomplete, Letters
    from engine.isolation.kept_events import Bundle
    from engine.job.saved.state import State
    from engine.model import Checksum, Command, Key, Part, Position, Range, SignalRow, Staged, Target, Window
    from engine.snapshot.extent import Extent
    from engine.snapshot.pace.estimate import Estimate
    from engine.snapshot.queue import Table
    from engine.staging.port import RowForm
    from engine.verify.verdict import Verdict

Item = TypeVar("Item")
Result = TypeVar("Result")
Reading: TypeAlias = Mapping[CollectionId, Collection[tuple[str, ...]]]
"""The collections being read, each with the keys that cut it (`Extent.key`), one per snapshot of it."""
Moved: TypeAlias = Mapping[CollectionId, Collection[tuple[bytes | None, bytes]]]
"""By collection, pairs of merge keys before and after; see `Encoded.moved`."""


class PartWriter(Protocol):
    """Writes parts of one turn. Goes to the executors, so it must pickle and hold nothing open."""

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write the events of one part, in order. Parts are ordered by number, from 0.

        The returned Part must reach `Sink.commit`, otherwise the turn is not committed. Writing the same part
        again replaces it. Raises SinkError.

        Columns: `topic` dictionary<int32, string>; `key`, `value` (null = tombstone) and `headers`
        large_string, nullable. Key and value are JSON text without raw line breaks. Headers are the text of a
        JSON list, null for none.
        """


class Render(Protocol):
    """How a sink writes events as text. Goes to the executors, so it must pickle."""

    def __call__(self, events: pa.RecordBatch, /, around: tuple[str, str] = ("", "")) -> pa.LargeStringArray:
        """The text of each event, ending in a line break. The sink must allow blanks before each text.

        `around` is put before and after each value; no value is null then.
        """


class TextWriter(PartWriter, Protocol):
    """The writer of a sink that accepts rendered events."""

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> Part:
        """Write a part of rendered events, as `write` does."""

    def take(self, part: int, path: str, events: int, checksum: Checksum) -> Part:
        """Make a file of rendered events a part, as it is.

        The file is on disk, is never written to again, and has this many events and this checksum. Its name
        may be removed before the turn is committed. Raises SinkError.
        """


class Sink(Protocol):
    """Where events go, one turn at a time, in the order of turn numbers.

    One job uses it at a time: creating the sink takes away whatever an earlier job's next step would need.
    Nobody sees a turn's events before `commit`; afterwards everybody sees all of them.
    """

    @property
    def form(self) -> EventForm:
        """The form in which the sink takes events. It never changes."""

    @property
    def row_form(self) -> RowForm:
        """The form in which the rows of windows wait for this sink, which its writers take. Never changes."""

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn from scratch. What an earlier attempt left is removed and never committed.

        A task of an earlier attempt that is still running can't add to this one. Raises SinkError if the turn
        is already committed, or if there is no room.
        """

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterable[pa.RecordBatch]:
        """Take a topic's events out of the begun turn, whose parts these are, and return them in order.

        A sink that refuses no topic takes none out.
        """

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Make a begun turn visible, atomically and durably. Repeating it for the same turn does nothing.

        `parts` are all parts written. Raises SinkError if the sink finds others, or if it fails; the turn is
        then either complete or absent. Raises InvariantError for a turn that was not begun here.
        """

    def applied(self, turn: int) -> bool:
        """Whether the turn is committed, possibly by an earlier process.

        Asked only about the newest turn begun. A sink that can't know after a restart says False, and the
        turn is sent again.
        """

    def newest(self) -> int | None:
        """The newest committed turn; None if there is none, or if the sink can't know."""

    def resume(self, saved: Mapping[str, str]) -> None:
        """Resume from the sink's part of the saved state, unless the sink knows something newer."""

    def memory(self) -> Mapping[str, str]:
        """What the sink wants saved with the state. If it has changed, a turn is made to save it."""

    def identity(self) -> str:
        """What distinguishes this sink from all others of its kind; empty if nothing does.

        Raises SinkError while it can't be reached, ConfigError if it never can be with these settings.
        """

    def close(self) -> None:
        """Release everything. A turn begun and not committed is lost. Calling it twice is harmless."""


class Lease(Protocol):
    """The right to write to a checkpoint and a sink. One job at a time holds it, from its start on."""

    def check(self) -> None:
        """Raise LeaseLost if another job holds the lease, or may hold it."""

    def confirm(self) -> None:
        """As `check`, but look at the lease itself. Called after a failure, since a takeover causes some."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A saved document, with the turn after which it holds."""

    turn: int
    document: bytes


@dataclass(frozen=True, slots=True)
class SavedStates:
    """The states in a store: the newest promoted one, and a pending one if it is newer."""

    promoted: SavedState | None
    pending: SavedState | None


class StateStore(Protocol):
    """Stores the job's state, one document per turn. Used by one job at a time.

    Saving a document is atomic, whenever the process or the machine dies. Every method raises StateError if
    the storage fails or holds something unreadable.
    """

    def load(self) -> SavedStates:
        """Load the newest states. What an interrupted save left is removed, not read."""

    def save_pending(self, turn: int, document: bytes) -> None:
        """Save the state that will hold once `turn` is sent. Replaces a pending state of the same turn."""

    def save_beside(self, turn: int, document: bytes) -> str:
        """Save a document for the states from this turn on; returns the name by which they refer to it.

        It is kept as long as any state refers to it. Saving for the same turn again replaces it.
        """

    def load_beside(self, name: str) -> bytes:
        """Load the document of this name."""

    def promote(self, turn: int) -> None:
        """Make the pending state of `turn` the newest. Repeating it for the same turn does nothing.

        Raises InvariantError if no state of this turn was saved.
        """

    def discard(self, turn: int) -> None:
        """Delete the pending state of `turn`, if there is one."""


class Span(Protocol):
    """The entries of `(start, end]` of the log, as an adapter holds them."""

    @property
    def end(self) -> Position:
        """The position after the last entry."""

    @property
    def entries(self) -> int:
        """The number of entries."""

    @property
    def silent(self) -> bool:
        """Whether nothing but the position moved, not even an empty transaction."""

    @property
    def committed_at_s(self) -> float:
        """When the last transaction was committed, in Unix seconds by the database's clock."""


@runtime_checkable
class ReadsAhead(Protocol):
    """A log that tells how much it has read and nobody has taken yet."""

    @property
    def ahead(self) -> tuple[int, int]:
        """Entries and bytes. Any thread may ask; the numbers may be a moment old."""


class LogReader(Protocol):
    """One session of the change log, from a position on. After a SourceError it must be reopened."""

    def take(self, timeout_s: float) -> Span | None:
        """The entries since the last call, in order and without gaps, bounded in rows and bytes.

        Waits up to `timeout_s` while there is nothing. None if no entries came and the position did not move.
        """

    def acknowledge(self, position: Position) -> None:
        """Allow the database to discard the log before `position`. Idempotent; never goes back."""

    def hurry(self, *, on: bool) -> None:
        """While on, the position follows the database within milliseconds even if the log is idle."""

    def limit(self, share: float) -> None:
        """From now on, spans use at most this share of their bounds, but at least one entry."""

    def close(self) -> None:
        """End the session. The next one gets again what was taken and not acknowledged."""


@dataclass(frozen=True, slots=True)
class SourceNotice:
    """What a notification says besides its id, its time and `connector_name`."""

    aggregate_type: str
    type: str
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of encoding a span. The events went to the writer as `parts`.

    - `parts` are numbered from 0; numbers may be missing.
    - `superseded` applies to every open window, `superseded_in` to single windows, by id.
    - `signals` are the inserts into the signal table.
    - `moved` holds merge keys before and after, for collections being read: of rows that lack a value and may
      have moved out of the ranges still to be read. None before: the row did not belong to the collection.
    - `replaced` are collections whose rows were replaced outside the log, each with the place in the log
      (`Extent.as_of`). What was read of them before is read again.
    - `lag_s` is the age of the last commit by the database's own clock, None if it was not asked.
    - `counts` are the change events by operation.
    - `notices` are what programs are told of the source itself.
    """

    parts: tuple[Part, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    letters: Mapping[CollectionId, Letters] = field(default_factory=dict)
    signals: tuple[SignalRow, ...] = ()
    superseded: Superseded = field(default_factory=Superseded)
    superseded_in: Mapping[str, Superseded] = field(default_factory=dict)
    moved: Moved = field(default_factory=dict)
    replaced: Mapping[CollectionId, tuple[int, ...]] = field(default_factory=dict)
    lag_s: float | None = None
    counts: EventCounts = NO_EVENTS
    notices: tuple[SourceNotice, ...] = ()


class OpenWindow(Protocol):
    """A window whose rows are read in the background, until it is closed."""

    @property
    def superseded(self) -> Superseded:
        """Keys superseded by entries that were streamed before the window opened."""

    def poll(self) -> Sequence[Staged] | None:
        """The staged rows once all are read; None until then.

        Raises SchemaChanged if the window must be given up and read again, SourceError if rows could not be
        read, SinkError if there was no room to stage them.
        """

    def reached(self, position: Position) -> bool:
        """Whether a stream at `position` has passed every change that the rows may contain.

        Asked several times a turn, so it only looks: what brings a stream there is done in `Source.tick`.
        """

    def close(self) -> None:
        """Stop reading, release what the database holds for the window, and remove the staged rows, soon."""


@runtime_checkable
class TellsVisibility(Protocol):
    """A window that tells what its rows were read in."""

    @property
    def visible(self) -> str:
        """What the window's snapshot could see, as the source writes it."""


class Source(Protocol):
    """One database: its log, its collections, its windows."""

    def open_log(self, state: State) -> tuple[State, LogReader]:
        """Open the log at the state's position, or begin it; returns the state, completed.

        Raises PositionLost, StateError or ConfigError if no retry helps, otherwise SourceError.
        """

    def encode(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),
    ) -> Encoded:
        """Encode a span's events into the writer, in order, with parts numbered from 0.

        Entries of collections in `aside`, and of collections that can't be decoded, become dead letters.
        `reading` are the collections being read.
        """

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Do what is due, once a turn, before a span is taken. Returns collections found to lack changes.

        This is the source's moment to act: to check on its server, to release what an initial snapshot needs
        no longer, and to bring an idle log to the watermarks of windows that wait for it. Raises SourceError.
        """

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait because initial entries are still read as of its first position.

        Like all questions about the source, it only looks, at what `tick` has left.
        """

    def memory(self) -> Mapping[str, Any]:
        """What the source wants saved with a turn. Called after the turn's span is encoded."""

    def hidden_moves(self, reading: Reading) -> Moved:
        """The `Encoded.moved` of streamed entries that new snapshots may not see yet."""

    def tables(self) -> Tables:
        """The collections of the source."""

    def open_window(self, window: Window) -> OpenWindow:
        """Open a window under a watermark and start reading its rows."""


class Tables(Protocol):
    """The catalog and the keys of one source."""

    def captured(self) -> Sequence[CollectionId]:
        """The collections whose changes are captured, by name."""

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """Names that stand for several captured collections and are not captured themselves."""

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> Sequence[Extent | SignalError | TableBusy]:
        """The extent of each target, or why it can't be snapshotted (SignalError), or not now (TableBusy).

        With `bounded` no extent is `whole`, so that all can be cut. That of a target with a scope is never
        whole, and has the scope (`Extent.scoped`).
        """

    def boundaries(self, target: Target, left: Range, step_rows: int, count: int) -> Sequence[Key]:
        """See `engine.snapshot.plan.Boundaries`."""


class DeadLetters(Protocol):
    """Stores the entries and events of collections that are set aside, by turn."""

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """Store a turn's lines, replacing those of the same turn. Raises StateError."""

    def drop(self, collection: CollectionId) -> None:
        """Delete everything stored for a collection."""

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """Delete what later turns stored, and everything of collections not listed."""

    @property
    def epoch(self) -> int:
        """The epoch of the lease under which bundles are stored."""

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        """Store a bundle of a collection's events, replacing the same bundle. Raises StateError."""

    def bundles(self, collection: CollectionId) -> Sequence[Bundle]:
        """The bundles stored for a collection, in order."""

    def lines_of(self, bundle: Bundle) -> Sequence[bytes]:
        """The lines of a bundle. Raises StateError."""

    def drop_bundle(self, bundle: Bundle) -> None:
        """Delete a bundle, if it exists."""


class Executors(Protocol):
    """Where tasks run."""

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run a task on every item, in parallel if possible. Returns the results in the items' order."""


class SnapshotListener(Protocol):
    """Is told what happens to collections of the queue, entry by entry."""

    def appeared(self, table: Table, label: str, why: str) -> None:
        """A collection is read under a label of the job's own; `why`, as a clause about it."""

    def started(self, table: Table) -> None:
        """The first rows of a collection were read."""

    def progress(self, table: Table, percent: int) -> None:
        """Another tenth of a collection is read."""

    def finished(self, table: Table, note: str = "") -> None:
        """A collection was read completely; a note may say more."""

    def failed(self, table: Table, error: Exception) -> None:
        """A collection could not be read, and why."""

    def verified(self, table: Table, verdict: Verdict) -> None:
        """A collection was compared with its copy."""


class SignalDesk(Protocol):
    """Receives signals and answers them. All answers are given here.

    Answers wait for `tell`, so nothing is promised that a failed turn would take back. They are saved with
    the turn, so a crash before `tell` loses none; a crash during `tell` repeats some.
    """

    def resume(self, saved: Mapping[str, Any], turn: int) -> None:
        """Resume from the state saved with `turn`, which holds the answers still to be told. Drop others."""

    def memory(self) -> Mapping[str, Any]:
        """What to save with the turn that obeyed the last commands."""

    def tell(self, turn: int) -> None:
        """Give the waiting answers; the turn that they belong to is saved. Raises StateError."""

    def pending(self) -> bool:
        """Whether a channel besides the signal table has received something, or something is to be saved."""

    def commands(
        self,
        rows: Sequence[SignalRow],
        known: Callable[[], Sequence[CollectionId]],
        position: Callable[[], str] | None = None,
    ) -> Sequence[Command]:
        """The valid signals among these rows and from the other channels, in order.

        `known` lists the collections that may be named. `position` shows how far the stream is; it is asked
        only if there are signals. Refused signals are answered and left out.
        """

    def finished(self, table: Table, note: str = "") -> None:
        """Answer that a collection was read completely, with an optional note."""

    def queued(self, signal: str, name: str | None, collections: int, ahead: int) -> None:
        """Note that a signal's collections wait behind others; `name` is what its sender calls it."""

    def started(self, table: Table) -> None:
        """Note that the first window of a collection was opened."""

    def progress(self, table: Table, percent: int) -> None:
        """Note how much of a collection is read."""

    def appeared(self, table: Table, label: str, why: str) -> None:
        """Answer, under a label of the job's own, that a collection is read; `why`, as a clause about it."""

    def planned(self, table: Table, estimate: Estimate) -> None:
        """Answer what a snapshot of a collection would read, to a signal that asks only for that."""

    def stopped(self, table: Table, why: str = "") -> None:
        """Answer that a collection left the queue before its end; `why` if no signal asked for it."""

    def paused(self, table: Table) -> None:
        """Answer that a collection is read no further until it is resumed."""

    def resumed(self, table: Table) -> None:
        """Answer that a paused collection is read further."""

    def failed(self, table: Table, error: Exception) -> None:
        """Answer that a collection could not be read, and why."""

    def verified(self, table: Table, verdict: Verdict) -> None:
        """Answer what comparing a collection with its copy has shown."""

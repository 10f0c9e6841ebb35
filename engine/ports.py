"""The seams: what the engine asks of a source, a sink, the store of its state and the executors.

Owns the Protocols and the values that cross them, with what an implementation must promise; the
suites in `tests/conformance` hold every implementation to it. Nothing here does any work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from engine.model import CollectionId
from engine.snapshot.merge import Superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from engine.errors import SignalError, TableBusy
    from engine.isolation.incomplete import Incomplete, Letters
    from engine.isolation.kept_events import Bundle
    from engine.job.state import State
    from engine.model import Checksum, Command, Key, Part, Position, SignalRow, Staged, Target, Window
    from engine.snapshot.extent import Extent
    from engine.snapshot.queue import Table

Item = TypeVar("Item")
Result = TypeVar("Result")
Reading: TypeAlias = Mapping[CollectionId, Collection[tuple[str, ...]]]
"""Collections being read, each with the keys that cut it (`Extent.key`), one for each snapshot of it."""
Moved: TypeAlias = Mapping[CollectionId, Collection[tuple[bytes | None, bytes]]]
"""By collection, merge keys before and after; see `Encoded.moved`."""


class PartWriter(Protocol):
    """Writes parts of one turn. Goes to the executors, so it must pickle and hold no open thing."""

    def write(self, part: int, batches: Iterable[pa.RecordBatch]) -> Part:
        """Write the events of one part, in order; parts order a turn by their number, from 0.

        What was written must reach `Sink.commit`, by whichever way, else the turn is not committed.

        Columns: `topic` dictionary<int32, string>; `key`, `value` (null = tombstone) and `headers`
        large_string, nullable. Key and value are JSON text without raw line breaks; headers are the
        text of a JSON list, null for none. The same part written again replaces what it had
        written. Raises SinkError.
        """


class Render(Protocol):
    """How a sink writes events as text. Goes to the executors, so it must pickle."""

    def __call__(self, events: pa.RecordBatch, /, around: tuple[str, str] = ("", "")) -> pa.LargeStringArray:
        """The text of each event, with a line break at its end; before each the sink allows blanks.

        `around` stands before and behind each value, of which none is null then.
        """


class TextWriter(PartWriter, Protocol):
    """The writer of a sink that takes texts which were rendered beforehand."""

    def write_texts(self, part: int, texts: Iterable[pa.LargeStringArray]) -> Part:
        """Write a part, as `write` does, of events that are rendered."""

    def take(self, part: int, path: str, events: int, checksum: Checksum) -> Part:
        """Make a file of rendered events a part as it is; it is on disk, and nobody writes to it any more.

        It has so many events and this checksum. Its name may be removed before the turn is committed. Raises
        SinkError.
        """


class Sink(Protocol):
    """Where events go, a turn at a time; turns are begun in the order of their numbers.

    One job uses it at a time: who made it has taken whatever an earlier job's next step would need. What a
    turn wrote is seen by nobody before `commit`, and by everybody after it, whole.
    """

    def writer(self, turn: int) -> PartWriter:
        """Begin a turn, afresh: whatever an earlier attempt left is removed and never committed.

        A task of an earlier attempt that is still running can't add to this one. Raises SinkError
        for a turn that is already committed, or where there is no place to write.
        """

    def withhold(self, parts: Sequence[Part], topic: str) -> Iterable[pa.RecordBatch]:
        """Leave the events of a topic out of the begun turn, whose parts these are; gives them, in order.

        A sink that refuses no topic leaves none out.
        """

    def commit(self, turn: int, parts: Sequence[Part]) -> None:
        """Make a begun turn visible, at once and for good; again for the same turn does nothing.

        `parts` are all that were written of it. Raises SinkError where something else is found, and wherever
        else it fails; then the turn is either whole or absent. InvariantError for a turn that was not begun
        here.
        """

    def applied(self, turn: int) -> bool:
        """Whether the turn is committed, be it by an earlier process.

        Asked only of the newest turn begun. A sink that can't know after a restart says False, and
        the turn is sent again.
        """

    def newest(self) -> int | None:
        """The newest turn that is committed; None if there is none, or if a sink can't know."""

    def resume(self, saved: Mapping[str, str]) -> None:
        """Go on with what the saved state keeps for the sink, where it knows nothing newer."""

    def memory(self) -> Mapping[str, str]:
        """What it wants kept with the state; a turn is made to save it where it has changed."""

    def identity(self) -> str:
        """What tells it from every other sink of its kind; empty where nothing does.

        Raises SinkError while it can't be reached, ConfigError where it never will be with these settings.
        """

    def close(self) -> None:
        """Give up everything held; a turn begun and not committed is lost. Twice is harmless."""


class Lease(Protocol):
    """The right to write to a checkpoint and a sink. One job at a time holds it, from its begin on."""

    def check(self) -> None:
        """Raise LeaseLost once another job has it, or may have it."""

    def confirm(self) -> None:
        """The same, but look: something has failed, as it does to whoever has lost the lease."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A document as it was saved, with the turn after which it holds."""

    turn: int
    document: bytes


@dataclass(frozen=True, slots=True)
class SavedStates:
    """What a store holds: the newest promoted state, and a pending one if it is newer."""

    promoted: SavedState | None
    pending: SavedState | None


class StateStore(Protocol):
    """Keeps the job's state, one document per turn; used by one job at a time.

    A document is all there or not there, whenever the process or the machine dies. Every method
    raises StateError when the storage fails or holds something unreadable.
    """

    def load(self) -> SavedStates:
        """Read the newest states; what an interrupted save left is removed, not read."""

    def save_pending(self, turn: int, document: bytes) -> None:
        """Keep the state that will hold when `turn` has been sent; replaces one of the same turn."""

    def save_beside(self, turn: int, document: bytes) -> str:
        """Keep a document for the states from this turn on; gives its name, for them to tell.

        It is kept as long as a state of theirs; one that is given to the same turn again replaces it.
        """

    def load_beside(self, name: str) -> bytes:
        """The document of this name."""

    def promote(self, turn: int) -> None:
        """Make the pending state of `turn` the newest; again for the same turn does nothing.

        Raises InvariantError if no state of this turn was saved.
        """

    def discard(self, turn: int) -> None:
        """Forget the pending state of `turn`; does nothing if there is none."""


class Span(Protocol):
    """The entries of `(start, end]` of the log, as an adapter holds them."""

    @property
    def end(self) -> Position:
        """The position after the last entry."""

    @property
    def entries(self) -> int:
        """How many entries."""

    @property
    def silent(self) -> bool:
        """Whether nothing but the position moved, not even an empty transaction."""

    @property
    def committed_at_s(self) -> float:
        """When the last transaction was committed, in Unix seconds by the database's clock."""


class LogReader(Protocol):
    """One session of the change log, from a position on. A SourceError ends it: open another."""

    def take(self, timeout_s: float) -> Span | None:
        """What came since the last call, in order and without gaps; bounded in rows and bytes.

        Waits up to `timeout_s` while there is nothing; None if neither entries came nor the
        position moved.
        """

    def acknowledge(self, position: Position) -> None:
        """Let the database forget the log before `position`. Idempotent; never goes back."""

    def hurry(self, *, on: bool) -> None:
        """While on, have the position follow the database within milliseconds on an idle log."""

    def limit(self, share: float) -> None:
        """From now on, have spans use no more than this share of their bounds; at least an entry goes."""

    def close(self) -> None:
        """End the session. What was taken and not acknowledged is sent again to the next."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """What encoding a span told, beside the events that went to the writer as `parts`, numbered from 0.

    Numbers may be left out. `superseded` is counted for every open window, `superseded_in` for one, by its
    id; `signals` are the signal table's inserts. `moved` holds the merge keys, before and after, of rows that
    lack a value and may have moved out of the ranges to be read of a collection that is being read; None
    before: the row was none of the collection's. `replaced` are collections that got other rows outside the
    log, with the place in the log where (`Extent.as_of`): what was read of them before is read anew. `lag_s`
    is how old the last commit is by the database's own clock, None where it was not asked.
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


class OpenWindow(Protocol):
    """A window while its rows are read, in the background, until it closes."""

    @property
    def superseded(self) -> Superseded:
        """Keys superseded by entries that were streamed before the window opened."""

    def poll(self) -> Sequence[Staged] | None:
        """The rows read, as staged; None while reading goes on.

        Raises SchemaChanged if the window must be given up and read again, SourceError if rows
        could not be read, SinkError if there was no place to stage them.
        """

    def reached(self, position: Position) -> bool:
        """Whether the stream has passed every change that the rows may contain."""

    def close(self) -> None:
        """Stop reading, let go of what the database holds for the window, drop what was staged, soon."""


class Source(Protocol):
    """One database: its log, its collections, its windows."""

    def open_log(self, state: State) -> tuple[State, LogReader]:
        """Check that the log can go on from the state, or begin it; gives the state completed.

        Raises PositionLost, StateError or ConfigError, which no retry mends; else SourceError.
        """

    def encode(
        self,
        span: Span,
        writer: PartWriter,
        aside: Collection[CollectionId] = (),
        reading: Reading = MappingProxyType({}),
    ) -> Encoded:
        """Encode a span's events into the writer, in order, parts counted from 0.

        Entries of the collections in `aside`, and of such that can't be decoded, become letters. `reading`
        are those being read.
        """

    def tick(self, state: State) -> Sequence[Incomplete]:
        """Look after what the source holds, once a turn; gives the collections found to lack changes."""

    def holds_log(self, state: State) -> bool:
        """Whether the log must wait: initial entries are still read as of the position where it begins."""

    def memory(self) -> Mapping[str, Any]:
        """What the source wants saved with a turn; asked when the turn's span, if it has one, is encoded."""

    def hidden_moves(self, reading: Reading) -> Moved:
        """`Encoded.moved` of entries that were streamed and may still be hidden from new snapshots."""

    def tables(self) -> Tables:
        """The collections that can be asked for."""

    def open_window(self, window: Window) -> OpenWindow:
        """Open a window under a watermark and begin to read its rows."""


class Tables(Protocol):
    """The catalog and the keys of one source."""

    def captured(self) -> Sequence[CollectionId]:
        """The collections whose changes are captured, by name."""

    def groups(self) -> Mapping[CollectionId, Sequence[CollectionId]]:
        """Names that stand for several captured collections, and are none themselves."""

    def measure(
        self, targets: Sequence[Target], *, bounded: bool = False
    ) -> Sequence[Extent | SignalError | TableBusy]:
        """The extent of each target, or why it can't be snapshotted, or not now.

        With `bounded` none is `whole`: all can be cut.
        """

    def boundaries(
        self, target: Target, after: Key | None, upto: Key, step_rows: int, count: int
    ) -> Sequence[Key]:
        """See `engine.snapshot.plan.Boundaries`."""


class DeadLetters(Protocol):
    """Where entries of collections that are set aside are kept, by turn."""

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """Keep the lines of a turn; replaces those of the same turn. Raises StateError."""

    def drop(self, collection: CollectionId) -> None:
        """Drop all that is kept of a collection."""

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """Drop what was kept by turns after this one, and of any other collections."""

    @property
    def epoch(self) -> int:
        """That of the lease under which bundles are kept."""

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        """Keep events of a collection; replaces a bundle of the same place. Raises StateError."""

    def bundles(self, collection: CollectionId) -> Sequence[Bundle]:
        """What is kept of a collection's events, in order."""

    def lines_of(self, bundle: Bundle) -> Sequence[bytes]:
        """What a bundle holds. Raises StateError."""

    def drop_bundle(self, bundle: Bundle) -> None:
        """Drop a bundle, if it is there."""


class Executors(Protocol):
    """Where tasks run."""

    def map(self, task: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Run a task on every item, at once where possible; results in the items' order."""


class SignalDesk(Protocol):
    """Takes signals in and answers them; every signal gets its answers here and nowhere else.

    Answers wait for `tell`, so that nothing is promised that a failed turn takes back; they are saved with
    the turn, so that a crash before they are told loses none (and one amid the telling repeats some).
    """

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Go on where the saved state stands, which says what is still to be told; forget the rest."""

    def memory(self) -> Mapping[str, Any]:
        """What to save with the turn that obeyed the last commands."""

    def tell(self) -> None:
        """Say the answers that have come up: the turn they belong to is saved."""

    def pending(self) -> bool:
        """Whether a channel other than the log has received something."""

    def commands(
        self, rows: Sequence[SignalRow], known: Callable[[], Sequence[CollectionId]]
    ) -> Sequence[Command]:
        """The valid signals among these rows and what the other channels received, in order.

        `known` lists what may be named. What is refused is answered at once, and left out.
        """

    def finished(self, table: Table, note: str = "") -> None:
        """Answer that a collection was read to its end, and what else is to be said of it."""

    def stopped(self, table: Table, why: str = "") -> None:
        """Answer that a collection was taken out of the queue before its end; why, if by no signal."""

    def failed(self, table: Table, error: Exception) -> None:
        """Answer that a collection could not be read, and why."""

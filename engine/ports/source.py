"""The ports of sources: the log is opened, its spans become events, tables are read in windows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from engine.events.counts import NO_EVENTS, EventCounts
from engine.model import CollectionId
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.errors import SignalError, TableBusy
    from engine.isolation.incomplete import Incomplete, Letters
    from engine.job.saved.state import State
    from engine.model import Key, Part, Position, Range, SignalRow, StagedRun, Target, Window
    from engine.ports.log import LogReader, Span
    from engine.ports.sink import PartWriter
    from engine.snapshot.extent import Extent

Reading: TypeAlias = Mapping[CollectionId, Collection[tuple[str, ...]]]
"""The collections being read, each with the keys that cut it (`Extent.key`), one per snapshot of it."""
Moved: TypeAlias = Mapping[tuple[CollectionId, tuple[str, ...]], Collection[tuple[bytes | None, bytes]]]
"""Pairs of merge keys before and after, by collection and a key that cuts it; see `EncodingResult.moved`."""


@dataclass(frozen=True, slots=True)
class SourceNotice:
    """What a notification says besides its id, its time and `connector_name`."""

    aggregate_type: str
    type: str
    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EncodingResult:
    """The result of encoding a span. The events went to the writer as `parts`.

    - `parts` are numbered from 0; numbers may be missing.
    - `superseded` applies to every open window, `superseded_in` to single windows, by id.
    - `signals` are the inserts into the signal table.
    - `moved` holds merge keys before and after, for collections being read: of rows that lack a value and may
      have moved out of the ranges still to be read. None before: the row did not belong to the collection.
    - `replaced` are collections whose rows were replaced outside the log, each with the position in the log
      (`Extent.as_of`). What was read of them before is read again.
    - `unsent` are collections that have lost or changed rows in the span, of which no event tells.
    - `lag_s` is the age of the last commit by the database's own clock, None if it was not asked.
    - `counts` are the change events by operation.
    - `notices` are what programs are told of the source itself.
    """

    parts: tuple[Part, ...] = ()
    incomplete: tuple[Incomplete, ...] = ()
    letters: Mapping[CollectionId, Letters] = field(default_factory=dict)
    signals: tuple[SignalRow, ...] = ()
    superseded: SupersededKeys = field(default_factory=SupersededKeys)
    superseded_in: Mapping[str, SupersededKeys] = field(default_factory=dict)
    moved: Moved = field(default_factory=dict)
    replaced: Mapping[CollectionId, tuple[int, ...]] = field(default_factory=dict)
    unsent: frozenset[CollectionId] = frozenset()
    lag_s: float | None = None
    counts: EventCounts = NO_EVENTS
    notices: tuple[SourceNotice, ...] = ()


class OpenWindow(Protocol):
    """A window whose rows are read in the background, until it is closed.

    It may still open when it is given out, while the stream goes on. Then `poll` opens it.
    """

    @property
    def superseded(self) -> SupersededKeys | None:
        """Keys superseded by entries that were streamed before the window was open; None until it is."""

    def poll(self) -> Sequence[StagedRun] | None:
        """The staged rows once all are read; None until then.

        While the window opens, raises what `Source.open_window` raises. Then raises SchemaChanged if the
        window must be given up and read again, SourceError if rows could not be read, SinkError if there was
        no room to stage them.
        """

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed`, from any thread, once `poll` will open the window, and once its rows are read."""

    def reached(self, position: Position) -> bool:
        """Whether a stream at `position` has passed every change that the rows may contain.

        Asked several times a turn, so it only looks: what brings a stream there is done in `Source.tick`.
        """

    def close(self) -> None:
        """Stop reading, release what the database holds for the window, and remove the staged rows, soon."""


class Source(Protocol):
    """One database: its log, its collections, its windows."""

    @property
    def lasting(self) -> Collection[str]:
        """The names in `memory` of what tells of the database and not of its log. A lost log leaves it."""

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
    ) -> EncodingResult:
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
        """The `EncodingResult.moved` of streamed entries that a measurement may not have seen."""

    def tables(self) -> Tables:
        """The collections of the source."""

    def open_window(self, window: Window) -> OpenWindow:
        """Open a window under a watermark and start reading its rows, or begin to.

        Raises TableBusy, SchemaChanged or SourceError if it does not open.
        """


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
        """Up to `count` keys, in order, that cut what is left of a target into steps of `step_rows` rows."""

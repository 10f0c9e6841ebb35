"""The ports of sinks: parts of a turn are written, and committed together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from engine.events.batch import EventForm
    from engine.job.snapshots.emission import Emission, EmissionResult
    from engine.model import Checksum, Part
    from engine.staging.port import RowForm


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

    def __call__(self, events: pa.RecordBatch, /, affixes: tuple[str, str] = ("", "")) -> pa.LargeStringArray:
        """The text of each event, ending in a line break. The sink must allow blanks before each text.

        `affixes` is put before and after each value; no value is null then.
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


class RowsOnTheirWay(Protocol):
    """Rows that a sink takes beside the turns. Used by the thread of the turns alone."""

    def done(self) -> bool:
        """Whether the sink has them all, or has failed."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Call `changed`, from any thread, whenever they are sent or something is due for them."""

    def poll(self) -> None:
        """Do what is due for them, such as sending again what went out in too large pieces. Does not wait."""

    def result(self) -> EmissionResult:
        """Wait until the sink has them all. May be repeated.

        Raises SinkError if it fails; part of the rows may have been sent then. Raises SourceError if the
        staged rows are gone.
        """

    def stop(self) -> None:
        """Return once nothing of them is sent any more, taken or not."""


@runtime_checkable
class TakesRows(Protocol):
    """A sink that can take rows of windows beside the turns, in parallel."""

    @property
    def takes_rows(self) -> bool:
        """Whether it does so as it is set up."""

    def prepare_for_rows(self) -> bool:
        """Get ready to take one more, in the background; returns whether it is ready. Raises SinkError.

        False as well while it takes as many as it can at once. The job makes sure of its lease after this,
        and before it calls `take_rows`.
        """

    def take_rows(self, emission: Emission, topic: str) -> RowsOnTheirWay:
        """Begin to send an emission's survivors, which all go to this topic and have distinct keys.

        Returns at once. Raises SinkError, as `Sink.commit` does.
        """


@runtime_checkable
class KnowsTurns(Protocol):
    """A sink that knows all committed turns (`resolve_commit`, `newest_turn`), even after a power failure."""

    @property
    def knows_turns(self) -> bool:
        """Whether they do so as the sink is set up."""


@runtime_checkable
class ShowsLater(Protocol):
    """A sink that shows committed turns later, from what is durable."""

    def await_shown(self) -> bool:
        """Wait a moment for committed turns that do not show yet; returns whether all show.

        A job that has nothing left to do asks again and again.
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
        """Make a begun turn durable and visible, atomically. Repeating it for the same turn does nothing.

        What takes long to show may show it later, in the order of turns, from what is durable alone.

        `parts` are all parts written. Raises SinkError if the sink finds others, or if it fails; the turn is
        then either complete or absent. Raises InvariantError for a turn that was not begun here.
        """

    def resolve_commit(self, turn: int) -> bool:
        """Find out whether the turn is committed, possibly by an earlier process.

        Asked only about the newest turn begun. A sink that can't know after a restart says False, and the
        turn is sent again.
        """

    def newest_turn(self) -> int | None:
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

"""The snapshot before the log: what each `snapshot.mode` asks for, and how a start goes about it. Pure.

Who decides is a *snapshotter*: a mode, or the user's own class. It says whether to read the tables and
whether to stream; how that is done follows from what is there: a saved position, the log that the source
keeps for the job, what an earlier start left unread. Carrying it out is the source's affair.

    AT_LOG      begin the log anew, read everything as of its first position, then stream
    BESIDE      queue everything, and read it in windows while the log is streamed from where it is
    STREAM      stream; what an earlier start left is read in windows
    ALONE       read everything as of one moment, and end; no log is kept
    END         nothing to do
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from engine.config.settings import SnapshotMode
from engine.expressions import first_found, matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.config.settings import CaptureSettings
    from engine.model import CollectionId


class Log(StrEnum):
    """What the source keeps of its log for the job."""

    NONE = "none"
    KEPT = "kept"
    LOST = "lost"
    """There is a saved position, or something that kept the log, and what follows it is gone."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a start finds the job.

    `saved`: there is a saved position. `left`: an earlier initial snapshot has tables unread. `streamed`:
    the log has been streamed past the position where it began. `begun`: this run has begun its
    initial snapshot already, and opens the log once more.
    """

    saved: bool = False
    log: Log = Log.NONE
    left: bool = False
    streamed: bool = False
    begun: bool = False


class Snapshotter(Protocol):
    """Decides on the snapshot before the log; `snapshot.mode=custom` names one of the user's."""

    def should_snapshot(self, standing: Standing) -> bool:
        """Whether to read the tables; with a lost log, whether to begin it anew and read them."""

    def should_stream(self) -> bool:
        """Whether to stream the log; without, the job ends when the tables have been read."""

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT that gives a table's rows; None for all of them."""


class Start(StrEnum):
    """How a start goes about it."""

    AT_LOG = "at_log"
    BESIDE = "beside"
    STREAM = "stream"
    ALONE = "alone"
    END = "end"
    LOST = "lost"
    """The log can't go on, and nobody has asked to begin anew."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode of Debezium's as a snapshotter."""

    mode: SnapshotMode

    def should_snapshot(self, standing: Standing) -> bool:
        """Whether the mode reads the tables."""
        match self.mode:
            case SnapshotMode.ALWAYS:
                return True
            case SnapshotMode.NEVER | SnapshotMode.NO_DATA:
                return False
            case SnapshotMode.WHEN_NEEDED:
                return not standing.saved or standing.log is Log.LOST
            case _:
                return not standing.saved and standing.log is not Log.LOST

    def should_stream(self) -> bool:
        """Whether the mode goes on with the log."""
        return self.mode is not SnapshotMode.INITIAL_ONLY

    def statement(self, collection: CollectionId) -> str | None:  # noqa: ARG002  the Protocol's
        """A mode reads all rows."""
        return None


def start(snapshotter: Snapshotter, standing: Standing, *, redo: bool = False) -> Start:
    """How to start; with `redo` an interrupted initial snapshot is taken anew, not gone on with."""
    wanted = snapshotter.should_snapshot(standing)
    if not snapshotter.should_stream():
        # Without a log nothing could mend rows that were read at another moment.
        return Start.ALONE if wanted or standing.left else Start.END
    if standing.log is Log.LOST:
        # A snapshot that was to begin anew drops the slot before it has another one.
        begins = wanted or (redo and standing.left and not standing.streamed)
        return Start.AT_LOG if begins else Start.LOST
    if standing.left:
        anew = redo and not standing.begun
        return _again(standing) if anew else Start.STREAM
    if not wanted or standing.begun:
        return Start.STREAM
    return Start.BESIDE if standing.saved or standing.log is Log.KEPT else Start.AT_LOG


def _again(standing: Standing) -> Start:
    """Of a log that was streamed nothing may be lost; one that was not can be begun anew."""
    return Start.BESIDE if standing.streamed else Start.AT_LOG


def to_read(
    collections: Iterable[CollectionId], capture: CaptureSettings, only: Sequence[str]
) -> list[CollectionId]:
    """The tables of an initial snapshot, in Debezium's order.

    That is the order of `table.include.list` where there is one: a table comes with the first expression
    that is found anywhere in its name. Then by the whole name, compared as Java compares text. `only`
    are the expressions of `snapshot.include.collection.list`; none picks all.
    """
    chosen = [
        one for one in collections if capture.captures(*one.parts) and (not only or matches(only, str(one)))
    ]
    return sorted(chosen, key=lambda one: (first_found(capture.include_tables, str(one)), _utf16(str(one))))


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")

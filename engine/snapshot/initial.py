"""The initial snapshot: what each `snapshot.mode` asks for, and what a start does about it. Pure.

A *snapshotter* (a mode, or the user's own class) says whether to read the tables and whether to stream. How
that is done follows from what exists: a saved position, the log that the source keeps for the job, and what
an earlier start left unread. The source carries it out.

    AT_LOG      begin a new log, read everything as of its first position, then stream
    BESIDE      queue everything, and read it in windows while the log is streamed from its position
    STREAM      stream; read in windows what an earlier start left
    ALONE       read everything as of one moment, then end; no log is kept
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

    from engine.config.sources.selection import CaptureSettings
    from engine.model import CollectionId


class Log(StrEnum):
    """What the source keeps of its log for the job."""

    NONE = "none"
    KEPT = "kept"
    LOST = "lost"
    """There is a saved position, or something that kept the log, but the log after it is gone."""


@dataclass(frozen=True, slots=True)
class StartSituation:
    """The situation that a start finds.

    `saved`: there is a saved position. `left`: an earlier initial snapshot has unread tables. `streamed`:
    the log has been streamed beyond the position where it began. `begun`: this run has already begun its
    initial snapshot and is reopening the log.
    """

    saved: bool = False
    log: Log = Log.NONE
    left: bool = False
    streamed: bool = False
    begun: bool = False


class Snapshotter(Protocol):
    """Decides on the initial snapshot. `snapshot.mode=custom` names one of the user's own."""

    def should_snapshot(self, standing: StartSituation) -> bool:
        """Whether to read the tables. If the log is lost: whether to begin a new one and read them."""

    def should_stream(self) -> bool:
        """Whether to stream the log. If not, the job ends once the tables are read."""

    def statement(self, collection: CollectionId) -> str | None:
        """The SELECT for a table's rows; None reads all of them. MongoDB refuses any other answer."""


class Start(StrEnum):
    """What a start does; see the top of this module."""

    AT_LOG = "at_log"
    BESIDE = "beside"
    STREAM = "stream"
    ALONE = "alone"
    END = "end"
    LOST = "lost"
    """The log can't be resumed, and the snapshotter does not ask for a new one."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One of Debezium's modes as a snapshotter."""

    mode: SnapshotMode

    def should_snapshot(self, standing: StartSituation) -> bool:
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
        """Whether the mode streams the log."""
        return self.mode is not SnapshotMode.INITIAL_ONLY

    def statement(self, collection: CollectionId) -> str | None:  # noqa: ARG002  the Protocol's
        """None: a mode reads all rows."""
        return None


@dataclass(frozen=True, slots=True)
class RecoveringSnapshotter:
    """A snapshotter whose copy is repaired once the log is lost, so it never reads the tables anew then."""

    chosen: Snapshotter

    def should_snapshot(self, standing: StartSituation) -> bool:
        """As chosen, while there is a log."""
        return standing.log is not Log.LOST and self.chosen.should_snapshot(standing)

    def should_stream(self) -> bool:
        """As chosen."""
        return self.chosen.should_stream()

    def statement(self, collection: CollectionId) -> str | None:
        """As chosen."""
        return self.chosen.statement(collection)


def start(snapshotter: Snapshotter, standing: StartSituation, *, redo: bool = False) -> Start:
    """What to do at this start. With `redo` an interrupted initial snapshot is repeated, not resumed."""
    wanted = snapshotter.should_snapshot(standing)
    if not snapshotter.should_stream():
        # Without a log, rows read at another moment could not be corrected.
        return Start.ALONE if wanted or standing.left else Start.END
    if standing.log is Log.LOST:
        # A repeated snapshot drops its slot before it has a new one, so its log may look lost.
        begins = wanted or (redo and standing.left and not standing.streamed)
        return Start.AT_LOG if begins else Start.LOST
    if standing.left:
        anew = redo and not standing.begun
        return _again(standing) if anew else Start.STREAM
    if not wanted or standing.begun:
        return Start.STREAM
    return Start.BESIDE if standing.saved or standing.log is Log.KEPT else Start.AT_LOG


def _again(standing: StartSituation) -> Start:
    """A log that was streamed must be kept; one that was not can be replaced by a new one."""
    return Start.BESIDE if standing.streamed else Start.AT_LOG


def to_read(
    collections: Iterable[CollectionId], capture: CaptureSettings, only: Sequence[str]
) -> list[CollectionId]:
    """The tables of an initial snapshot, in Debezium's order.

    Tables are ordered by the first expression of `table.include.list` that is found anywhere in their name,
    then by the whole name, compared as Java compares strings. `only` holds the expressions of
    `snapshot.include.collection.list`; empty means all.
    """
    chosen = [
        collection
        for collection in collections
        if capture.captures(*collection.parts) and (not only or matches(only, str(collection)))
    ]
    return sorted(
        chosen, key=lambda table: (first_found(capture.include_tables, str(table)), _utf16(str(table)))
    )


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")

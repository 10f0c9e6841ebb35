"""The values that all other modules use. They are frozen and contain no logic.

The terms:

- *position*: a place in the change log
- *entry*: one change read from the log
- *span*: the entries of `(start, end]`
- *run*: a range of keys read by one task
- *window*: the runs read together under one watermark
- *signal*: a request as received
- *command*: a valid request
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from engine.staging.port import StagedRows

Key: TypeAlias = tuple[str | None, ...]
"""A row's merge key, column by column, as the database's own text (None for NULL)."""


@dataclass(frozen=True, slots=True, order=True)
class CollectionId:
    """The name of a table or MongoDB collection: `(schema, table)`, `(database, schema, table)`…"""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def database(self) -> str:
        """The database, if the source has several with schemas of their own; else empty."""
        return self.parts[0] if len(self.parts) > 2 else ""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the change log of one source, compared element by element.

    Only the adapter knows what the elements mean. The engine compares, saves and returns them.
    """

    order: tuple[int | str, ...]


class Channel(StrEnum):
    """Where a signal came from."""

    SOURCE = "source"
    KAFKA = "kafka"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A row inserted into the signal table: its log position as text, and its three columns."""

    position_label: str
    id: str | None
    type: str | None
    data: str | None


@dataclass(frozen=True, slots=True)
class Target:
    """One collection that a command names, with the rows it asks for.

    An `initial` target belongs to the initial snapshot: it may lack a key, and it is read by the SELECT that
    the settings give for it.
    """

    collection: CollectionId
    condition: str | None = None
    surrogate_key: str | None = None
    initial: bool = False


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Read these collections. `signal` is the label for answers and logs, `id` the sender's name for it."""

    signal: str
    targets: tuple[Target, ...]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Stop these collections, or everything when `collections` is None."""

    signal: str
    collections: tuple[CollectionId, ...] | None


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Pause these collections until they are resumed, or everything when `collections` is None."""

    signal: str
    collections: tuple[CollectionId, ...] | None


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Resume these collections, or everything when `collections` is None."""

    signal: str
    collections: tuple[CollectionId, ...] | None


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Write this line to the job's log, so that a log can be marked from the database."""

    signal: str
    message: str


Command: TypeAlias = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot | LogMessage


@dataclass(frozen=True, slots=True)
class Range:
    """Keys `(after, upto]` in the database's own order.

    `after` None starts at the least key. `upto` None means no upper bound, which is allowed only for a
    collection that one window reads whole.
    """

    after: Key | None = None
    upto: Key | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A range of keys read by one task, with bounds as in Range.

    `ticket` names its entry in the queue. `chunks` is its size in units of
    `incremental.snapshot.chunk.size`. With `keys` it is not a range: just the rows under these merge keys are
    read again. `key` identifies the key that the bounds belong to (`Extent.key`).
    """

    ticket: int
    target: Target
    after: Key | None
    upto: Key | None
    chunks: int = 1
    keys: tuple[Key, ...] = ()
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Runs of one or several collections, read together under one watermark; at least one run."""

    id: str
    runs: tuple[Run, ...]

    @property
    def initial(self) -> bool:
        """Whether it belongs to the initial snapshot. Such runs don't mix with others."""
        return self.runs[0].target.initial

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets of the window's runs, each once, in order."""
        return tuple(dict.fromkeys(run.target for run in self.runs))


@dataclass(frozen=True, slots=True)
class Checksum:
    """A file's size in bytes, and the 64-bit XXH3 digest of its content in hexadecimal."""

    bytes: int
    digest: str


NO_FILE = Checksum(0, "")
"""Stands for no file."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows of one run that one task read, staged as `content` until they are emitted.

    `run` is the run's number in the window. `bytes` is the size of the rows, without the text that all rows
    share.
    """

    ticket: int
    collection: CollectionId
    content: StagedRows
    rows: int
    bytes: int
    run: int


@dataclass(frozen=True, slots=True)
class Part:
    """A written part of a turn: its number, its number of events, the checksum of its file.

    The checksum is NO_FILE if the part has no events or the sink keeps no file.
    """

    number: int
    events: int
    checksum: Checksum = NO_FILE

"""The values that everything else speaks in: frozen, and deciding nothing.

One word for one idea: a *position* is a place in the change log, an *entry* one change read from
it, a *span* the entries of `(start, end]`, a *run* a range of keys read by one task, a *window* the
runs read together under one watermark, a *signal* a request as received, a *command* a valid one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Key: TypeAlias = tuple[str | None, ...]
"""A row's merge key, column by column, as the database's own text (None = NULL)."""


@dataclass(frozen=True, slots=True, order=True)
class CollectionId:
    """The name of a table or MongoDB collection: `(schema, table)`, `(database, schema, table)`…"""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)

    @property
    def database(self) -> str:
        """The database, where the source has several with schemas of their own; else empty."""
        return self.parts[0] if len(self.parts) > 2 else ""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the change log of one source; compared element by element.

    What the elements mean is the adapter's affair; the engine compares, saves and hands back.
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

    An `initial` one is read as the snapshot before the log is: a table without a key too, and by the
    SELECT that the settings give for it.
    """

    collection: CollectionId
    condition: str | None = None
    surrogate_key: str | None = None
    initial: bool = False


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Read these collections; `signal` is the label for answers and logs, `id` what its sender called it."""

    signal: str
    targets: tuple[Target, ...]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Stop these collections, or everything when `collections` is None."""

    signal: str
    collections: tuple[CollectionId, ...] | None


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Write this line to the job's log, so that a log can be marked from the database."""

    signal: str
    message: str


Command: TypeAlias = ExecuteSnapshot | StopSnapshot | LogMessage


@dataclass(frozen=True, slots=True)
class Range:
    """Keys `(after, upto]` in the database's own order.

    `after` None starts at the least key. `upto` None has no upper bound, which is right only for
    a collection that one window reads whole.
    """

    after: Key | None = None
    upto: Key | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A range of keys, read by one task; bounds as in Range.

    `chunks` is its size in units of
    `incremental.snapshot.chunk.size`, `ticket` the entry of the snapshot's queue it belongs to.
    With `keys` it is not a range: the rows under just these merge keys are read again. `key` says what
    key the bounds belong to (`Extent.key`).
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
    """Runs of one or several collections, read together under one watermark; at least one."""

    id: str
    runs: tuple[Run, ...]

    @property
    def initial(self) -> bool:
        """Whether it belongs to the snapshot before the log; such runs don't mix with others."""
        return self.runs[0].target.initial

    @property
    def targets(self) -> tuple[Target, ...]:
        """What the window's runs read, each once, in order."""
        return tuple(dict.fromkeys(run.target for run in self.runs))


@dataclass(frozen=True, slots=True)
class Checksum:
    """A file's size in bytes, and the XXH3 digest of its content, 64 bits in hexadecimal digits."""

    bytes: int
    digest: str


NO_FILE = Checksum(0, "")
"""Where there is no file."""


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows that one task read of one run: a file, see `engine.staging.staged_rows`.

    `bytes` are the rows' own, without what all have alike; `run` is the run's number in the window. `arrow`
    is the checksum of the file, `texts` that of the texts beside it, NO_FILE where rows are not rendered.
    """

    ticket: int
    collection: CollectionId
    path: str
    rows: int
    bytes: int
    run: int
    arrow: Checksum
    texts: Checksum = NO_FILE


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a turn as it was written: its number, how many events it has, the checksum of its file.

    A part without events leaves no file. A sink that keeps no file of a part gives NO_FILE.
    """

    number: int
    events: int
    checksum: Checksum = NO_FILE

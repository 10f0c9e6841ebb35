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

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from engine.snapshot.key_hashes import KeyHashes
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


@dataclass(frozen=True, slots=True)
class Arrival:
    """A collection that is captured from now on, or `columns` of it whose values the log does not have.

    `told`: captured since its creation, so the log has all its rows.
    """

    collection: CollectionId
    told: bool = False
    columns: tuple[str, ...] = ()


class Channel(StrEnum):
    """Where a signal came from."""

    SOURCE = "source"
    KAFKA = "kafka"
    FILE = "file"
    IN_PROCESS = "in-process"
    """The job's own process: its page, or a program that embeds it."""
    CUSTOM = "custom"
    """A channel of another package."""


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A row inserted into the signal table: its log position as text, and its three columns."""

    position_label: str
    id: str | None
    type: str | None
    data: str | None


JsonKey: TypeAlias = tuple[str, ...]
"""A key as a signal gives it: the JSON text of each column's value."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The keys from `start` up to and without `end`, as a signal gives them; None: no bound."""

    start: JsonKey | None = None
    end: JsonKey | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """The rows that a signal asks for: those under `keys`, or in `stretches`. One of both is empty."""

    keys: tuple[JsonKey, ...] = ()
    stretches: tuple[Stretch, ...] = ()

    @property
    def size(self) -> int:
        """How many keys and ranges it has."""
        return len(self.keys) + len(self.stretches)


class Purpose(StrEnum):
    """What the rows of a collection are read for."""

    SNAPSHOT = "snapshot"
    """To be sent."""
    VERIFY = "verify"
    """To be compared with a copy of the collection. Nothing is sent."""
    REPAIR = "repair"
    """To be compared as well, and then sent where they differ."""
    MEND = "mend"
    """To be sent, since a repair has found them missing or different. No signal asks for that by itself."""


@dataclass(frozen=True, slots=True)
class Target:
    """One collection that a command names, with the rows it asks for.

    An `initial` target belongs to the initial snapshot: it may lack a key, and it is read by the SELECT that
    the settings give for it. A `blocking` target is read in the same way while the stream waits; its
    condition is a whole SELECT where the database has SELECTs.
    The keys of a `scope` are those of the surrogate key, else of the table's own. `against` names what the
    rows are compared with; empty: what the job's sink holds.
    """

    collection: CollectionId
    condition: str | None = None
    surrogate_key: str | None = None
    initial: bool = False
    blocking: bool = False
    scope: Scope | None = None
    purpose: Purpose = Purpose.SNAPSHOT
    against: str = ""

    @property
    def as_initial(self) -> bool:
        """Whether its rows are read and marked as those of an initial snapshot."""
        return self.initial or self.blocking

    @property
    def compared(self) -> bool:
        """Whether its rows are compared with a copy instead of being sent."""
        return self.purpose in {Purpose.VERIFY, Purpose.REPAIR}

    @property
    def judged(self) -> bool:
        """Whether it is a verification or a repair, which ends with a verdict."""
        return self.purpose is not Purpose.SNAPSHOT

    @property
    def as_asked(self) -> Target:
        """The target as its signal asks for it, whatever a repair is at."""
        return replace(self, purpose=Purpose.REPAIR) if self.purpose is Purpose.MEND else self

    @property
    def whole(self) -> bool:
        """Whether it asks for all rows."""
        return self.condition is None and self.scope is None


@dataclass(frozen=True, slots=True)
class Limit:
    """The most that may be read per second, in rows and in bytes of staged rows; None: any amount."""

    rows: int | None = None
    bytes: int | None = None


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Read these collections. `signal` is the label for answers and logs, `id` the sender's name for it.

    Those of a higher `priority` are read first. All of them together are read within `limit`. A `dry_run`
    only asks what would be read. If it is `blocking`, as all its targets then are, the stream waits while
    they are read, and earlier ones go first whatever their priority.
    """

    signal: str
    targets: tuple[Target, ...]
    id: str | None = None
    priority: int = 0
    limit: Limit = NO_LIMIT
    dry_run: bool = False

    @property
    def blocking(self) -> bool:
        """Whether the stream waits for it."""
        return bool(self.targets) and self.targets[0].blocking


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Stop these collections, or everything when `collections` is None: incremental or `blocking` ones."""

    signal: str
    collections: tuple[CollectionId, ...] | None
    blocking: bool = False


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
    collection that one window reads whole. With `holds_after`, `after` itself belongs to it. With
    `lacks_upto`, `upto` itself does not.
    """

    after: Key | None = None
    upto: Key | None = None
    holds_after: bool = False
    lacks_upto: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """A range of keys read by one task, with bounds as in Range.

    `ticket` names its entry in the queue. `chunks` is its size in units of `incremental.snapshot.chunk.size`.
    With `keys` it is not a range: only the rows under these merge keys are read again. With `points` it is
    not a range either: only the rows under these keys are read, which a signal asked for. `key` identifies
    the key that the bounds and points belong to (`Extent.key`).
    """

    ticket: int
    target: Target
    after: Key | None
    upto: Key | None
    chunks: int = 1
    keys: tuple[Key, ...] = ()
    key: tuple[str, ...] = ()
    points: tuple[Key, ...] = ()
    holds_after: bool = False
    lacks_upto: bool = False

    @property
    def range(self) -> Range:
        """The range, if it is one."""
        return Range(self.after, self.upto, self.holds_after, self.lacks_upto)


@dataclass(frozen=True, slots=True)
class Window:
    """Runs of one or several collections, read together under one watermark; at least one run.

    `signals` are what their senders call the signals that it serves, else their labels.
    """

    id: str
    runs: tuple[Run, ...]
    signals: tuple[str, ...] = ()

    @property
    def initial(self) -> bool:
        """Whether it belongs to the initial snapshot. Such runs don't mix with others."""
        return self.runs[0].target.initial

    @property
    def blocking(self) -> bool:
        """Whether it belongs to a blocking snapshot."""
        return self.runs[0].target.blocking

    @property
    def as_initial(self) -> bool:
        """Whether its rows are read and marked as those of an initial snapshot."""
        return self.runs[0].target.as_initial

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
class StagedRun:
    """The rows of one run that one task read, staged as `content` until they are emitted.

    `run` is the run's number in the window. `bytes` is the size of the rows, without the text that all rows
    share. `hashes` are those of its merge keys, where the driver may not have the rows.
    """

    ticket: int
    collection: CollectionId
    content: StagedRows
    rows: int
    bytes: int
    run: int
    hashes: KeyHashes | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A written part of a turn: its number, its number of events, the checksum of its file.

    The checksum is NO_FILE if the part has no events or the sink keeps no file. A `staged` part's file was
    written before its turn, by somebody else.
    """

    number: int
    events: int
    checksum: Checksum = NO_FILE
    staged: bool = False

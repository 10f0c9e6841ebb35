"""The structures of the state's documents, as msgspec reads and writes them."""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType

from engine.isolation.incomplete import Cause  # noqa: TC001  msgspec reads it
from engine.job.saved.attempt import Attempt  # noqa: TC001  msgspec reads it
from engine.job.saved.recovery import Recovery  # noqa: TC001  msgspec reads it
from engine.model import NO_LIMIT, Key, Limit, Purpose, Scope
from engine.snapshot.extent import Extent  # noqa: TC001  msgspec reads it
from engine.verify.certificate import Chain
from engine.verify.certified_ranges import CertifiedRanges  # noqa: TC001  msgspec reads it
from engine.verify.saved_course import SavedCourse  # noqa: TC001  msgspec reads it

PREVIOUS: Final = 1
"""The version of the previous release's form."""


class RangeForm(Struct, array_like=True):
    """Without its first key, with its last one: the previous release expects these two alone."""

    after: Key | None
    upto: Key | None


class ScopedRangeForm(RangeForm, array_like=True):
    """With its first key, or without its last one."""

    holds_after: bool = False
    lacks_upto: bool = False


Bounds = TypeVar("Bounds", bound=RangeForm)


class GapForm(Struct, Generic[Bounds]):
    """Rows that could not be read, and why."""

    range: Bounds | None
    keys: tuple[Key, ...]
    why: str
    points: tuple[Key, ...] = ()


class TargetForm(Struct, kw_only=True):
    """`condition` is an index of the queue's `conditions`; older states have the text itself."""

    collection: tuple[str, ...]
    condition: int | str | None
    surrogate_key: str | None
    initial: bool = False
    blocking: bool = False
    scope: Scope | None = None
    purpose: Purpose = Purpose.SNAPSHOT
    against: str = ""


class FailedForm(TargetForm, Generic[Bounds], kw_only=True):
    """What a collection lacks that could not be read in full."""

    key: tuple[str, ...]
    gaps: tuple[GapForm[Bounds], ...]


class ProgressForm(Struct, Generic[Bounds], kw_only=True):
    """Older states have the last key read and whether it was the greatest instead of `left`."""

    extent: Extent
    since_ms: int
    left: tuple[Bounds, ...] | UnsetType = UNSET
    last: Key | UnsetType | None = UNSET
    covered: bool | UnsetType = UNSET
    rows: int
    emitted: int
    chunks: int
    reread: tuple[Key, ...]
    rounds: int
    missing: tuple[GapForm[Bounds], ...] = ()
    points: tuple[Key, ...] = ()
    found: int = 0
    certified: CertifiedRanges | None = None
    noted: SavedCourse | None = None


class ScopedForm(Struct, kw_only=True):
    """What is left to read of an entry with a scope, or what it resumes."""

    progress: ProgressForm[ScopedRangeForm] | None = None
    resumes: FailedForm[ScopedRangeForm] | None = None


class TableForm(TargetForm, kw_only=True):
    """`at` is the entry's index in the queue, where the waiting entries have a document of their own.

    An entry with a scope has its progress and what it resumes in `scoped`. A release that does not know
    scopes finds neither, and so reads all rows from the beginning, which loses nothing.
    """

    ticket: int
    signal: str
    id: str | None = None
    place: tuple[int, int] | None = None
    merged: tuple[tuple[str, str | None], ...] = ()
    progress: ProgressForm[RangeForm] | None
    resumes: FailedForm[RangeForm] | None = None
    paused: bool = False
    priority: int = 0
    limit: Limit = NO_LIMIT
    scoped: ScopedForm | None = None
    at: int | UnsetType = UNSET


class QueueForm(Struct, kw_only=True):
    """A signal's condition may apply to all tables, so each condition is stored once.

    `failed_scopes` are failed entries with a scope. A release that does not know scopes must not take them
    for failures of the whole table.
    """

    next_ticket: int
    conditions: tuple[str, ...] = ()
    tables: tuple[TableForm, ...]
    failed: tuple[FailedForm[RangeForm], ...] = ()
    paused: bool = False
    failed_scopes: tuple[FailedForm[ScopedRangeForm], ...] = ()


class IncompleteForm(Struct, kw_only=True):
    """Older states kept a refused table's log entries instead of its events, and have no `gap`."""

    collection: tuple[str, ...]
    cause: Cause
    since: str
    why: str
    taken_up: int = 0
    kept: int = 0
    size: int = 0
    dropped: int = 0
    gap: bool | UnsetType = UNSET
    out: tuple[int, int, int] = (0, 0, 0)
    epochs: tuple[tuple[int, int], ...] = ()


class SharedForm(Struct, kw_only=True):
    """What both versions have under the same names."""

    version: int
    turn: int
    position: tuple[int | str, ...] | None
    identity: dict[str, str]
    destination: dict[str, str] = {}
    sink: dict[str, str] = {}
    memory: dict[str, Any]
    channels: dict[str, Any] = {}
    incomplete: tuple[IncompleteForm, ...] = ()
    certificates: Chain = Chain()
    recovery: Recovery | None = None
    attempt: Attempt | None = None


class Previous(SharedForm, kw_only=True, rename={"queue": "snapshot", "queue_document": "beside"}):
    """Version 1."""

    queue: QueueForm
    queue_document: str = ""


class Current(SharedForm, kw_only=True):
    """Version 2."""

    queue: QueueForm
    queue_document: str = ""
    needs: tuple[str, ...] = ()


class Waiting(Struct, kw_only=True):
    """What waits after a turn: entries of the queue, further requests by ticket, and the sink's memory."""

    version: int = PREVIOUS
    conditions: tuple[str, ...] = ()
    tables: tuple[TableForm, ...]
    merged: tuple[tuple[int, tuple[tuple[str, str | None], ...]], ...]
    sink: dict[str, str]

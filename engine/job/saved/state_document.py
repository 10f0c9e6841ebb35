"""The state's documents: typed, in JSON, in two versions. Pure: a port stores them.

Each turn saves one human-readable document. Queued signals and the sink's memory can be much larger than
the rest, and they rarely change. Beyond a size they move to a document of their own, saved by the turn that
changed them last, so the document of each turn stays small.

    version 1   the form of the previous release; saved unless `tidemark.state.form` is `current`
    version 2   today's names; `needs` lists what a reader must know

A release reads its own form and those of the two releases before it. Both forms share the structures below,
so a field added to one of them appears in both, and the previous release ignores it. Such a field has a
default for states without it. If ignoring it would do harm, it belongs to version 2 alone and adds its name
to `needs`: a release that does not know the name refuses the state instead of ignoring the field.
`tests/unit/engine/job/saved/test_state_forms.py` fails for a field that has not been thought about.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, convert

from engine.errors import StateError
from engine.isolation.incomplete import Cause, Incomplete
from engine.job.saved.recovery import Recovery  # noqa: TC001  msgspec reads it
from engine.job.saved.state import State
from engine.model import NO_LIMIT, CollectionId, Key, Limit, Position, Purpose, Range, Scope, Target
from engine.snapshot.extent import Extent, Failed, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Request, Table
from engine.verify.certificate import Chain
from engine.verify.certified_ranges import CertifiedRanges  # noqa: TC001  msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")
PREVIOUS: Final = 1
CURRENT: Final = 2
_FEW: Final = 50
"""How many entries, requests and values of the sink stay in the turn's own document."""
KNOWN_NEEDS: Final[frozenset[str]] = frozenset()
"""What a document of the current form may need of its reader."""


class _Range(Struct, array_like=True):
    """Without its first key, with its last one: the previous release expects these two alone."""

    after: Key | None
    upto: Key | None


class _ScopedRange(_Range, array_like=True):
    holds_after: bool = False
    lacks_upto: bool = False


_Bounds = TypeVar("_Bounds", bound=_Range)


class _Gap(Struct, Generic[_Bounds]):
    range: _Bounds | None
    keys: tuple[Key, ...]
    why: str
    points: tuple[Key, ...] = ()


class _Target(Struct, kw_only=True):
    """`condition` is an index of the queue's `conditions`; older states have the text itself."""

    collection: tuple[str, ...]
    condition: int | str | None
    surrogate_key: str | None
    initial: bool = False
    blocking: bool = False
    scope: Scope | None = None
    purpose: Purpose = Purpose.SNAPSHOT


class _Failed(_Target, Generic[_Bounds], kw_only=True):
    key: tuple[str, ...]
    gaps: tuple[_Gap[_Bounds], ...]


class _Progress(Struct, Generic[_Bounds], kw_only=True):
    """Older states have the last key read and whether it was the greatest instead of `left`."""

    extent: Extent
    since_ms: int
    left: tuple[_Bounds, ...] | UnsetType = UNSET
    last: Key | UnsetType | None = UNSET
    covered: bool | UnsetType = UNSET
    rows: int
    emitted: int
    chunks: int
    reread: tuple[Key, ...]
    rounds: int
    missing: tuple[_Gap[_Bounds], ...] = ()
    points: tuple[Key, ...] = ()
    found: int = 0
    certified: CertifiedRanges | None = None


class _Scoped(Struct, kw_only=True):
    """What is left to read of an entry with a scope, or what it resumes."""

    progress: _Progress[_ScopedRange] | None = None
    resumes: _Failed[_ScopedRange] | None = None


class _Table(_Target, kw_only=True):
    """`at` is the entry's index in the queue, where the waiting entries have a document of their own.

    An entry with a scope has its progress and what it resumes in `scoped`. A release that does not know
    scopes finds neither, and so reads all rows from the beginning, which loses nothing.
    """

    ticket: int
    signal: str
    id: str | None = None
    place: tuple[int, int] | None = None
    merged: tuple[tuple[str, str | None], ...] = ()
    progress: _Progress[_Range] | None
    resumes: _Failed[_Range] | None = None
    paused: bool = False
    priority: int = 0
    limit: Limit = NO_LIMIT
    scoped: _Scoped | None = None
    at: int | UnsetType = UNSET


class _Queue(Struct, kw_only=True):
    """A signal's condition may apply to all tables, so each condition is stored once.

    `failed_scopes` are failed entries with a scope. A release that does not know scopes must not take them
    for failures of the whole table.
    """

    next_ticket: int
    conditions: tuple[str, ...] = ()
    tables: tuple[_Table, ...]
    failed: tuple[_Failed[_Range], ...] = ()
    paused: bool = False
    failed_scopes: tuple[_Failed[_ScopedRange], ...] = ()


class _Incomplete(Struct, kw_only=True):
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


class _Shared(Struct, kw_only=True):
    version: int
    turn: int
    position: tuple[int | str, ...] | None
    identity: dict[str, str]
    destination: dict[str, str] = {}
    sink: dict[str, str] = {}
    memory: dict[str, Any]
    channels: dict[str, Any] = {}
    incomplete: tuple[_Incomplete, ...] = ()
    certificates: Chain = Chain()
    recovery: Recovery | None = None


class Previous(_Shared, kw_only=True, rename={"queue": "snapshot", "queue_document": "beside"}):
    """Version 1."""

    queue: _Queue
    queue_document: str = ""


class Current(_Shared, kw_only=True):
    """Version 2."""

    queue: _Queue
    queue_document: str = ""
    needs: tuple[str, ...] = ()


class Waiting(Struct, kw_only=True):
    """What waits after a turn: entries of the queue, further requests by ticket, and the sink's memory."""

    version: int = PREVIOUS
    conditions: tuple[str, ...] = ()
    tables: tuple[_Table, ...]
    merged: tuple[tuple[int, tuple[tuple[str, str | None], ...]], ...]
    sink: dict[str, str]


class _Version(Struct):
    version: Any = None


# Made while the module is imported: msgspec crashes if threads of several jobs make one of a type at once.
_AS_VERSION: Final = msgspec.json.Decoder(_Version)
_AS_PREVIOUS: Final = msgspec.json.Decoder(Previous)
_AS_CURRENT: Final = msgspec.json.Decoder(Current)
_AS_WAITING: Final = msgspec.json.Decoder(Waiting)


def to_json(state: State, version: int = PREVIOUS) -> bytes:
    """The turn's document, indented for human readers."""
    conditions: dict[str, int] = {}
    tables = (_begun if state.beside else _tables)(state.snapshot, conditions)
    whole = tuple(
        _failed_out(failed, conditions, _Gap[_Range])
        for failed in state.snapshot.failed
        if failed.target.scope is None
    )
    scoped = tuple(
        _failed_out(failed, conditions, _Gap[_ScopedRange])
        for failed in state.snapshot.failed
        if failed.target.scope is not None
    )
    document = (Previous if version == PREVIOUS else Current)(
        version=version,
        turn=state.turn,
        position=state.position.order if state.position else None,
        identity=state.identity,
        destination=state.destination,
        sink={} if state.beside else dict(state.sink),
        queue=_Queue(
            next_ticket=state.snapshot.next_ticket,
            conditions=tuple(conditions),
            tables=tables,
            failed=whole,
            paused=state.snapshot.paused,
            failed_scopes=scoped,
        ),
        queue_document=state.beside,
        memory=state.memory,
        channels=state.channels,
        incomplete=tuple(_incomplete_out(incomplete) for incomplete in state.incomplete),
        certificates=state.certificates,
        recovery=state.recovery,
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def is_long(state: State) -> bool:
    """Whether the rarely changing part is large enough for a document of its own."""
    waiting, merged = state.snapshot.waiting
    return len(waiting) + sum(len(requests) for _ticket, requests in merged) + len(state.sink) > _FEW


def same_beside(before: State, after: State) -> bool:
    """Whether the rarely changing part is unchanged."""
    same = (
        before.snapshot.tables is after.snapshot.tables or before.snapshot.waiting == after.snapshot.waiting
    )
    return same and before.sink == after.sink


def beside_to_json(state: State) -> bytes:
    """The document of the rarely changing part."""
    waiting, merged = state.snapshot.waiting
    conditions: dict[str, int] = {}
    tables = tuple(_table_out(table, conditions, merged=()) for table in waiting)
    requests = tuple((ticket, _requests_out(requests)) for ticket, requests in merged)
    document = Waiting(conditions=tuple(conditions), tables=tables, merged=requests, sink=dict(state.sink))
    return msgspec.json.encode(document)


def from_json(document: bytes, beside: Callable[[str], bytes] | None = None) -> State:
    """Read a turn's document. Raises StateError, which names what is wrong, also for another version.

    `beside` loads the document that this one names.
    """
    try:
        found = _read(document)
        if isinstance(found, Current):
            _check_needs(found.needs)
        waiting = None
        if found.queue_document and beside:
            waiting = _AS_WAITING.decode(beside(found.queue_document))
        return _state(found, waiting)
    except (msgspec.MsgspecError, LookupError, ValueError, RecursionError) as error:
        raise StateError(f"the saved state can't be read: {error}") from error


def _read(document: bytes) -> Previous | Current:
    version = _AS_VERSION.decode(document).version
    if version == PREVIOUS:
        return _AS_PREVIOUS.decode(document)
    if version == CURRENT:
        return _AS_CURRENT.decode(document)
    known = f"{PREVIOUS}, {CURRENT}"
    raise StateError(f"state of version {version!r} was saved by another release; known: {known}")


def _check_needs(needs: Iterable[str]) -> None:
    unknown = sorted(set(needs) - KNOWN_NEEDS)
    if unknown:
        raise StateError(
            f"the saved state needs {', '.join(map(repr, unknown))}, which this release does not know",
            hint="run the release that saved it",
        )


def _state(document: Previous | Current, waiting: Waiting | None) -> State:
    queue = document.queue
    tables = [_table_in(table, queue.conditions) for table in queue.tables]
    if waiting is not None:
        tables = list(_with_waiting(tables, [table.at for table in queue.tables], waiting))
    return State(
        turn=document.turn,
        position=None if document.position is None else Position(document.position),
        snapshot=Snapshot(
            tables=tuple(tables),
            next_ticket=queue.next_ticket,
            failed=(
                *(_failed_in(failed, queue.conditions) for failed in queue.failed),
                *(_failed_in(failed, queue.conditions) for failed in queue.failed_scopes),
            ),
            paused=queue.paused,
        ),
        identity=document.identity,
        memory=document.memory,
        channels=document.channels,
        incomplete=tuple(_incomplete_in(incomplete) for incomplete in document.incomplete),
        destination=document.destination,
        sink=document.sink if waiting is None else waiting.sink,
        beside=document.queue_document,
        certificates=document.certificates,
        recovery=document.recovery,
    )


def _with_waiting(begun: list[Table], places: list[int | UnsetType], waiting: Waiting) -> Iterator[Table]:
    """The whole queue in order: waiting entries, and those begun at their `places`."""
    tables = [_table_in(table, waiting.conditions) for table in waiting.tables]
    for table, at in zip(begun, places, strict=True):
        if at is UNSET:
            raise ValueError("an entry of the queue without its place")
        tables.insert(at, table)
    merged = dict(waiting.merged)
    for table in tables:
        yield replace(table, merged=_requests_in(merged.get(table.ticket, ())))


def _begun(snapshot: Snapshot, conditions: dict[str, int]) -> tuple[_Table, ...]:
    """The entries that do not merely wait, each with its index in the queue."""
    return tuple(_table_out(table, conditions, merged=(), at=at) for at, table in snapshot.touched)


def _tables(snapshot: Snapshot, conditions: dict[str, int]) -> tuple[_Table, ...]:
    return tuple(_table_out(table, conditions) for table in snapshot.tables)


def _table_out(table: Table, conditions: dict[str, int], **changed: Any) -> _Table:
    fields: dict[str, Any] = {
        **_target_out(table.target, conditions),
        "ticket": table.ticket,
        "signal": table.signal,
        "id": table.id,
        "place": table.place,
        "merged": _requests_out(table.merged),
        **_begun_out(table, conditions),
        "paused": table.paused,
        "priority": table.priority,
        "limit": table.limit,
    }
    return _Table(**fields | changed)


def _begun_out(table: Table, conditions: dict[str, int]) -> dict[str, Any]:
    """What is left to read of an entry, and what it resumes: see `_Table`."""
    progress, resumes = table.progress, table.resumes
    if table.target.scope is None:
        return {
            "progress": None if progress is None else _converted(progress, _Progress[_Range]),
            "resumes": None if resumes is None else _failed_out(resumes, conditions, _Gap[_Range]),
        }
    scoped = _Scoped(
        progress=None if progress is None else _converted(progress, _Progress[_ScopedRange]),
        resumes=None if resumes is None else _failed_out(resumes, conditions, _Gap[_ScopedRange]),
    )
    begun = progress is not None or resumes is not None
    return {"progress": None, "resumes": None, "scoped": scoped if begun else None}


def _table_in(table: _Table, conditions: tuple[str, ...]) -> Table:
    begun = table.scoped or table
    return Table(
        ticket=table.ticket,
        signal=table.signal,
        target=_target_in(table, conditions),
        progress=None if begun.progress is None else _progress_in(begun.progress),
        id=table.id,
        resumes=None if begun.resumes is None else _failed_in(begun.resumes, conditions),
        place=table.place,
        merged=_requests_in(table.merged),
        paused=table.paused,
        priority=table.priority,
        limit=table.limit,
    )


def _target_out(target: Target, conditions: dict[str, int]) -> dict[str, Any]:
    condition = target.condition
    return {
        "collection": target.collection.parts,
        "condition": None if condition is None else conditions.setdefault(condition, len(conditions)),
        "surrogate_key": target.surrogate_key,
        "initial": target.initial,
        "blocking": target.blocking,
        "scope": target.scope,
        "purpose": target.purpose,
    }


def _target_in(target: _Target, conditions: tuple[str, ...]) -> Target:
    condition = target.condition
    text = conditions[condition] if isinstance(condition, int) else condition
    collection = CollectionId(target.collection)
    key, initial, blocking = target.surrogate_key, target.initial, target.blocking
    return Target(collection, text, key, initial, blocking, target.scope, target.purpose)


def _requests_out(requests: Iterable[Request]) -> tuple[tuple[str, str | None], ...]:
    return tuple((request.signal, request.id) for request in requests)


def _requests_in(requests: Iterable[tuple[str, str | None]]) -> tuple[Request, ...]:
    return tuple(Request(signal, id_) for signal, id_ in requests)


def _failed_out(failed: Failed, conditions: dict[str, int], kind: type[_Gap[_Bounds]]) -> _Failed[_Bounds]:
    gaps = tuple(_converted(gap, kind) for gap in failed.gaps)
    return _Failed(**_target_out(failed.target, conditions), key=failed.key, gaps=gaps)


def _failed_in(failed: _Failed[Any], conditions: tuple[str, ...]) -> Failed:
    gaps = tuple(_converted(gap, Gap) for gap in failed.gaps)
    return Failed(_target_in(failed, conditions), failed.key, gaps)


def _progress_in(progress: _Progress[Any]) -> Progress:
    if progress.left is UNSET:
        progress.left = tuple(_converted(left, _Range) for left in _left_of_older(progress))
    return _converted(progress, Progress)


def _left_of_older(progress: _Progress[Any]) -> tuple[Range, ...]:
    if progress.covered is UNSET or progress.last is UNSET:
        raise ValueError("a table without the ranges that are left to read")
    if progress.covered:
        return ()
    extent = progress.extent
    return extent.ranges if progress.last is None else (Range(progress.last, extent.greatest),)


def _incomplete_out(incomplete: Incomplete) -> _Incomplete:
    return _Incomplete(**_fields(incomplete) | {"collection": incomplete.collection.parts})


def _incomplete_in(incomplete: _Incomplete) -> Incomplete:
    gap = incomplete.cause is Cause.REFUSED if incomplete.gap is UNSET else incomplete.gap
    known = {"collection": CollectionId(incomplete.collection), "gap": gap}
    return Incomplete(**msgspec.structs.asdict(incomplete) | known)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _converted(value: object, kind: type[_T]) -> _T:
    """The same fields as another type: a value of the engine as a structure, or back."""
    return convert(value, kind, from_attributes=True)

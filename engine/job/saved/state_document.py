"""The state's documents: typed, in JSON, in two versions. Pure: a port stores them.

Each turn saves one human-readable document. Queued signals and the sink's memory can be much larger than
the rest, and they rarely change. Beyond a size they move to a document of their own, saved by the turn that
changed them last, so the document of each turn stays small.

    version 1   the form of the previous release; saved unless `tidemark.state.form` is `current`
    version 2   today's names; `needs` lists what a reader must know

A release reads its own form and those of the two releases before it. Both forms share the structures of
`forms.py`, so a field added to one of them appears in both, and the previous release ignores it. Such a field
has a default for states without it. If ignoring it would do harm, it belongs to version 2 alone and adds its
name to `needs`: a release that does not know the name refuses the state instead of ignoring the field.
`tests/unit/engine/job/saved/test_state_forms.py` fails for a field that has not been thought about.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, convert

from engine.errors import StateError
from engine.isolation.incomplete import Cause, Incomplete
from engine.job.saved.forms import (
    PREVIOUS,
    Bounds,
    Current,
    FailedForm,
    GapForm,
    IncompleteForm,
    Previous,
    ProgressForm,
    QueueForm,
    RangeForm,
    ScopedForm,
    ScopedRangeForm,
    TableForm,
    TargetForm,
    Waiting,
)
from engine.job.saved.state import State
from engine.model import CollectionId, Position, Range, Target
from engine.snapshot.extent import FailedSnapshot, Gap, Progress
from engine.snapshot.queue import Snapshot
from engine.snapshot.queue_entry import Request, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_T = TypeVar("_T")
CURRENT: Final = 2
KNOWN_NEEDS: Final[frozenset[str]] = frozenset()
"""What a document of the current form may need of its reader."""


class _Version(Struct):
    version: Any = None


# Made while the module is imported: msgspec crashes if threads of several jobs make one of a type at once.
_AS_VERSION: Final = msgspec.json.Decoder(_Version)
_AS_PREVIOUS: Final = msgspec.json.Decoder(Previous)
_AS_CURRENT: Final = msgspec.json.Decoder(Current)
_AS_WAITING: Final = msgspec.json.Decoder(Waiting)
_Gap, _ScopedGap = GapForm[RangeForm], GapForm[ScopedRangeForm]
_Progress, _ScopedProgress = ProgressForm[RangeForm], ProgressForm[ScopedRangeForm]


def to_json(state: State, version: int = PREVIOUS) -> bytes:
    """The turn's document, indented for human readers."""
    conditions: dict[str, int] = {}
    tables = (_begun if state.beside else _tables)(state.snapshot, conditions)
    whole = tuple(
        _failed_out(failed, conditions, _Gap)
        for failed in state.snapshot.failed
        if failed.target.scope is None
    )
    scoped = tuple(
        _failed_out(failed, conditions, _ScopedGap)
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
        queue=QueueForm(
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
        attempt=state.attempt,
    )
    return msgspec.json.format(msgspec.json.encode(document), indent=2)


def is_long(state: State, few: int) -> bool:
    """Whether the rarely changing part has more than a few entries, requests and values of the sink."""
    waiting, merged = state.snapshot.waiting
    return len(waiting) + sum(len(requests) for _ticket, requests in merged) + len(state.sink) > few


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
        attempt=document.attempt,
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


def _begun(snapshot: Snapshot, conditions: dict[str, int]) -> tuple[TableForm, ...]:
    """The entries that do not merely wait, each with its index in the queue."""
    return tuple(_table_out(table, conditions, merged=(), at=at) for at, table in snapshot.begun)


def _tables(snapshot: Snapshot, conditions: dict[str, int]) -> tuple[TableForm, ...]:
    return tuple(_table_out(table, conditions) for table in snapshot.tables)


def _table_out(table: Table, conditions: dict[str, int], **changed: Any) -> TableForm:
    fields: dict[str, Any] = {
        **_target_out(table.target, conditions),
        "ticket": table.ticket,
        "signal": table.signal,
        "id": table.id,
        "place": table.ordinal,
        "merged": _requests_out(table.merged),
        **_begun_out(table, conditions),
        "paused": table.paused,
        "priority": table.priority,
        "limit": table.limit,
    }
    return TableForm(**fields | changed)


def _begun_out(table: Table, conditions: dict[str, int]) -> dict[str, Any]:
    """What is left to read of an entry, and what it resumes: see `TableForm`."""
    progress, resumes = table.progress, table.resumes
    if table.target.scope is None:
        return {
            "progress": None if progress is None else _converted(progress, _Progress),
            "resumes": None if resumes is None else _failed_out(resumes, conditions, _Gap),
        }
    scoped = ScopedForm(
        progress=None if progress is None else _converted(progress, _ScopedProgress),
        resumes=None if resumes is None else _failed_out(resumes, conditions, _ScopedGap),
    )
    begun = progress is not None or resumes is not None
    return {"progress": None, "resumes": None, "scoped": scoped if begun else None}


def _table_in(table: TableForm, conditions: tuple[str, ...]) -> Table:
    begun = table.scoped or table
    return Table(
        ticket=table.ticket,
        signal=table.signal,
        target=_target_in(table, conditions),
        progress=None if begun.progress is None else _progress_in(begun.progress),
        id=table.id,
        resumes=None if begun.resumes is None else _failed_in(begun.resumes, conditions),
        ordinal=table.place,
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
        "against": target.against,
    }


def _target_in(target: TargetForm, conditions: tuple[str, ...]) -> Target:
    condition = target.condition
    text = conditions[condition] if isinstance(condition, int) else condition
    collection = CollectionId(target.collection)
    key, initial, blocking = target.surrogate_key, target.initial, target.blocking
    return Target(collection, text, key, initial, blocking, target.scope, target.purpose, target.against)


def _requests_out(requests: Iterable[Request]) -> tuple[tuple[str, str | None], ...]:
    return tuple((request.signal, request.id) for request in requests)


def _requests_in(requests: Iterable[tuple[str, str | None]]) -> tuple[Request, ...]:
    return tuple(Request(signal, id_) for signal, id_ in requests)


def _failed_out(
    failed: FailedSnapshot, conditions: dict[str, int], kind: type[GapForm[Bounds]]
) -> FailedForm[Bounds]:
    gaps = tuple(_converted(gap, kind) for gap in failed.gaps)
    return FailedForm(**_target_out(failed.target, conditions), key=failed.key, gaps=gaps)


def _failed_in(failed: FailedForm[Any], conditions: tuple[str, ...]) -> FailedSnapshot:
    gaps = tuple(_converted(gap, Gap) for gap in failed.gaps)
    return FailedSnapshot(_target_in(failed, conditions), failed.key, gaps)


def _progress_in(progress: ProgressForm[Any]) -> Progress:
    if progress.left is UNSET:
        progress.left = tuple(_converted(left, RangeForm) for left in _left_of_older(progress))
    return _converted(progress, Progress)


def _left_of_older(progress: ProgressForm[Any]) -> tuple[Range, ...]:
    if progress.covered is UNSET or progress.last is UNSET:
        raise ValueError("a table without the ranges that are left to read")
    if progress.covered:
        return ()
    extent = progress.extent
    return extent.ranges if progress.last is None else (Range(progress.last, extent.greatest),)


def _incomplete_out(incomplete: Incomplete) -> IncompleteForm:
    return IncompleteForm(**_fields(incomplete) | {"collection": incomplete.collection.parts})


def _incomplete_in(incomplete: IncompleteForm) -> Incomplete:
    gap = incomplete.cause is Cause.REFUSED if incomplete.gap is UNSET else incomplete.gap
    known = {"collection": CollectionId(incomplete.collection), "gap": gap}
    return Incomplete(**msgspec.structs.asdict(incomplete) | known)


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _converted(value: object, kind: type[_T]) -> _T:
    """The same fields as another type: a value of the engine as a structure, or back."""
    return convert(value, kind, from_attributes=True)

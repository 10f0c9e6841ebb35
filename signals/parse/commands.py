"""Turns a signal into a command, or into a SignalError that names the bad field.

Defines what each type of signal may hold; `fields` reads single fields. Whether a collection can be read at
all (its key, its columns, the SQL of a condition) is checked when the snapshot is planned. `signals.answers`
words the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import SignalError
from engine.model import (
    Command,
    ExecuteSnapshot,
    Limit,
    LogMessage,
    PauseSnapshot,
    Purpose,
    ResumeSnapshot,
    StopSnapshot,
    Target,
)
from signals.model import WINDOW_TYPES
from signals.parse.budget import MAX_CONDITIONED, MAX_ID, MAX_SCOPED
from signals.parse.fields import (
    array_in,
    did_you_mean,
    first_notes,
    flag_in,
    ignored,
    integer_in,
    object_of,
    text_in,
)
from signals.parse.kinds import kind, shown
from signals.parse.names import KnownNames, match_names
from signals.parse.scope import KEYS, RANGES, check_alone, check_length, scope_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.model import CollectionId
    from signals.model import Signal
    from signals.parse.fields import Fields

_COLLECTIONS: Final = "data-collections"
_CONDITION: Final = "additional-condition"
_CONDITIONS: Final = "additional-conditions"
_SURROGATE: Final = "surrogate-key"
_TYPE: Final = "type"
_AGAINST: Final = "against"
_DRY_RUN: Final = "dry-run"
_PRIORITY: Final = "priority"
_MOST_ROWS: Final = "max-rows-per-second"
_MOST_BYTES: Final = "max-bytes-per-second"
_EXECUTE: Final = (
    *(_TYPE, _COLLECTIONS, _CONDITION, _CONDITIONS, _SURROGATE),
    *(_DRY_RUN, _PRIORITY, _MOST_ROWS, _MOST_BYTES, KEYS, RANGES, _AGAINST),
)
_LARGEST_PRIORITY: Final = 2**31 - 1
_INCREMENTAL: Final = "incremental"
_BLOCKING: Final = "blocking"
_PURPOSES: Final = {str(purpose): purpose for purpose in (Purpose.VERIFY, Purpose.REPAIR)}
"""The types whose rows are not just sent."""

_OF_SOURCES: Final = {"schema-changes": "for SQL Server alone: other sources have no schema history"}
"""Types that only some sources know, and what others answer."""
_MAX_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class AcceptedSignal:
    """A valid signal: its command, and notes for the operator."""

    command: Command
    notes: tuple[str, ...] = ()


def parse(signal: Signal, known: KnownNames) -> AcceptedSignal:
    """Parse what `signal` asks for. `known` are the collections that may be named, in order.

    For a stop, `known` should hold queued collections as well as captured ones. The command's `signal` is the
    signal's label. Raises SignalError, whose message is the answer.
    """
    check_id(signal)
    type_ = (signal.type or "").strip()
    read = _READERS.get(type_)
    if read is None:
        raise _unknown_type(type_)
    return read(signal, known)


def check_id(signal: Signal) -> None:
    """Raise SignalError if the sender's name for a signal is too long to be kept."""
    if signal.id is not None and len(signal.id) > MAX_ID:
        raise SignalError(f"the id has {len(signal.id)} characters, at most {MAX_ID} are kept")


def _execute(signal: Signal, known: KnownNames) -> AcceptedSignal:
    fields = object_of(signal.data, MAX_SCOPED)
    check_length(signal.data or "")
    unknown = ignored(fields, _EXECUTE)
    type_ = _snapshot_type(text_in(fields, _TYPE) or _INCREMENTAL, (_INCREMENTAL, _BLOCKING, *_PURPOSES))
    blocking = type_ == _BLOCKING
    if blocking:
        _check_unlimited(fields)
    if type_ in _PURPOSES:
        _check_whole(fields, type_)
    against = _against(fields, type_)
    patterns = _patterns(fields)
    if patterns is None:
        raise SignalError(f"{_COLLECTIONS!r} is missing", hint="list the collections to read")
    surrogate_key = text_in(fields, _SURROGATE)
    if surrogate_key is not None and len(surrogate_key) > MAX_ID:
        raise SignalError(f"{_SURROGATE!r} has {len(surrogate_key)} characters, at most {MAX_ID} are read")
    names, notes = _named(patterns, known)
    collections = known.members(names)
    conditions = _conditions(fields, known.among((*names, *collections)))
    _check_conditions(conditions)
    scope = scope_of(signal.data or "", fields)
    check_alone(scope, names, known)
    targets = tuple(
        Target(
            collection,
            conditions.get(collection),
            surrogate_key,
            blocking=blocking,
            scope=scope,
            purpose=_PURPOSES.get(type_, Purpose.SNAPSHOT),
            against=against,
        )
        for collection in collections
    )
    command = ExecuteSnapshot(
        signal.label,
        targets,
        signal.id,
        priority=integer_in(fields, _PRIORITY, -_LARGEST_PRIORITY, _LARGEST_PRIORITY) or 0,
        limit=Limit(integer_in(fields, _MOST_ROWS, 1), integer_in(fields, _MOST_BYTES, 1)),
        dry_run=flag_in(fields, _DRY_RUN),
    )
    return AcceptedSignal(command, (*notes, *unknown))


def _check_unlimited(fields: Fields) -> None:
    """Refuse what a blocking snapshot does not have: it reads whole tables as fast as it can, in order."""
    for name in (KEYS, RANGES, _PRIORITY, _MOST_ROWS, _MOST_BYTES):
        if fields.get(name) is not None:
            raise SignalError(f"{name!r} is for incremental snapshots, and this one is blocking")


def _check_whole(fields: Fields, type_: str) -> None:
    """Refuse what would leave rows out: a copy has all rows of its collection, by their own key."""
    for name in (_CONDITION, _CONDITIONS, _SURROGATE, KEYS, RANGES):
        if fields.get(name):
            raise SignalError(f"{name!r} is for snapshots; {type_!r} compares whole collections")


def _against(fields: Fields, type_: str) -> str:
    """The name of what rows are compared with; empty: what the job's sink holds."""
    against = text_in(fields, _AGAINST) or ""
    if against and type_ != Purpose.VERIFY:
        raise SignalError(f"{_AGAINST!r} is for {str(Purpose.VERIFY)!r}; this is {type_!r}")
    return against


def _stop(signal: Signal, known: KnownNames) -> AcceptedSignal:
    fields = object_of(signal.data if signal.data and signal.data.strip() else "{}")
    unknown = ignored(fields, (_TYPE, _COLLECTIONS))
    _check_meant(fields, unknown)
    type_ = text_in(fields, _TYPE)
    if type_ is None and unknown:
        # It may be a misspelt name, and would then stop what it does not mean.
        raise SignalError(f"{_TYPE!r} is missing, and {unknown[0]}", hint=f'add "{_TYPE}": "{_INCREMENTAL}"')
    blocking = _snapshot_type(type_ or _INCREMENTAL, (_INCREMENTAL, _BLOCKING)) == _BLOCKING
    patterns = _patterns(fields)
    if not patterns:
        return AcceptedSignal(StopSnapshot(signal.label, None, blocking), unknown)
    names, notes = _named(patterns, known)
    return AcceptedSignal(StopSnapshot(signal.label, known.members(names), blocking), (*notes, *unknown))


def _pause(signal: Signal, known: KnownNames) -> AcceptedSignal:
    collections, notes = _which(signal, known)
    return AcceptedSignal(PauseSnapshot(signal.label, collections), notes)


def _resume(signal: Signal, known: KnownNames) -> AcceptedSignal:
    collections, notes = _which(signal, known)
    return AcceptedSignal(ResumeSnapshot(signal.label, collections), notes)


def _which(signal: Signal, known: KnownNames) -> tuple[tuple[CollectionId, ...] | None, tuple[str, ...]]:
    """The collections to pause or resume, None for all, and notes. Debezium needs no data here."""
    data = signal.data if signal.data and signal.data.strip() else "{}"
    fields = object_of(data)
    unknown = ignored(fields, (_TYPE, _COLLECTIONS))
    _check_meant(fields, unknown)
    known_types = (_INCREMENTAL, _BLOCKING)
    if _snapshot_type(text_in(fields, _TYPE) or _INCREMENTAL, known_types) == _BLOCKING:
        hint = 'the stream waits for it; stop it with "type": "blocking", or let it end'
        raise SignalError("a blocking snapshot can't be paused", hint=hint)
    patterns = _patterns(fields)
    if not patterns:
        return None, unknown
    names, notes = _named(patterns, known)
    return known.members(names), (*notes, *unknown)


def _check_meant(fields: Fields, unknown: tuple[str, ...]) -> None:
    """Refuse unknown fields without collections: one may be a misspelt name, and all would be meant."""
    if unknown and fields.get(_COLLECTIONS) is None:
        raise SignalError(
            f"{_COLLECTIONS!r} is missing, and {unknown[0]}",
            hint=f'add "{_COLLECTIONS}": [] to mean everything',
        )


def _log(signal: Signal, _known: KnownNames) -> AcceptedSignal:
    fields = object_of(signal.data)
    message = text_in(fields, "message")
    if message is None:
        raise SignalError("'message' is missing", hint='give "message": the text to log')
    # Debezium replaces the first pair of braces with the stream's position.
    text = message.replace("{}", signal.position or signal.label, 1)
    return AcceptedSignal(LogMessage(signal.label, text), ignored(fields, ("message",)))


_READERS: Final[dict[str, Callable[[Signal, KnownNames], AcceptedSignal]]] = {
    "execute-snapshot": _execute,
    "stop-snapshot": _stop,
    "pause-snapshot": _pause,
    "resume-snapshot": _resume,
    "log": _log,
}
BUILT_IN: Final = frozenset({*_READERS, *_OF_SOURCES, *WINDOW_TYPES})
"""The types that no other package may take."""


def _unknown_type(type_: str) -> SignalError:
    known = ", ".join(_READERS)
    if not type_:
        return SignalError("the signal has no type", hint=f"known: {known}")
    if (why := _OF_SOURCES.get(type_)) is not None:
        return SignalError(f"signal type {type_!r} is {why}", hint=f"known: {known}")
    if type_ in WINDOW_TYPES:
        message = f"{type_!r} marks a window in the signal table and asks for nothing"
        return SignalError(message, hint=f"known: {known}")
    similar = did_you_mean(type_.lower(), _READERS)
    return SignalError(f"no signal type {shown(type_)}{similar}", hint=f"known: {known}")


def _snapshot_type(text: str, known: tuple[str, ...]) -> str:
    type_ = text.strip().lower()
    if type_ not in known:
        raise SignalError(f"no snapshot type {shown(text)} in {_TYPE!r}", hint=f"known: {', '.join(known)}")
    return type_


def _patterns(fields: Fields) -> list[str] | None:
    """The trimmed items of `data-collections`; None if the field is missing or null."""
    entries = array_in(fields, _COLLECTIONS)
    if entries is None:
        return None
    patterns: list[str] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, str):
            message = f"entry {number} of {_COLLECTIONS!r} must be a string, not {kind(entry)}"
            raise SignalError(message)
        patterns.append(entry.strip())
    return patterns


def _named(patterns: list[str], known: KnownNames) -> tuple[tuple[CollectionId, ...], tuple[str, ...]]:
    """The collections and groups that the patterns name, each once, and notes for the operator.

    Raises SignalError if there are patterns and none of them names anything.
    """
    found: dict[CollectionId, None] = {}
    notes: list[str] = []
    missed: list[str] = []
    for pattern in dict.fromkeys(patterns):
        match = match_names(pattern, known)
        found |= dict.fromkeys(match.collections)
        notes += [match.note] if match.note else []
        missed += [] if match.collections else [pattern]
    if missed:
        text = _missed(missed, known)
        if not found:
            raise SignalError(text, hint="only captured collections can be named")
        notes.insert(0, text)
    return tuple(found), first_notes(notes, len(notes))


def _missed(patterns: list[str], known: KnownNames) -> str:
    named: list[str] = []
    for pattern in patterns[:_MAX_NAMED]:
        similar = known.like(pattern)
        named.append(shown(pattern) + (f" (did you mean {similar!r}?)" if similar else ""))
    more = len(patterns) - len(named)
    tail = f" and {more} more" if more else ""
    return f"no collection matches {', '.join(named)}{tail}"


def _conditions(fields: Fields, names: KnownNames) -> dict[CollectionId, str | None]:
    """The condition of each collection. If several conditions apply to one, the first counts."""
    everywhere = text_in(fields, _CONDITION)
    entries = array_in(fields, _CONDITIONS) or []
    if everywhere is not None and entries:
        message = f"{_CONDITION!r} and {_CONDITIONS!r} exclude each other"
        raise SignalError(message, hint="give one of them")
    conditions: dict[CollectionId, str | None] = {}
    for number, entry in enumerate(entries, 1):
        for collection, text in _condition(entry, number, names).items():
            conditions.setdefault(collection, text)
    return conditions if entries else dict.fromkeys(names.members(names.collections), everywhere)


def _check_conditions(conditions: dict[CollectionId, str | None]) -> None:
    """Refuse long conditions for very many tables, which the server would take long to plan."""
    characters = sum(len(text) for text in conditions.values() if text)
    if characters > MAX_CONDITIONED:
        raise SignalError(
            f"the conditions come to {characters} characters, each counted for every collection;"
            f" at most {MAX_CONDITIONED}",
            hint="send several signals",
        )


def _condition(entry: object, number: int, names: KnownNames) -> dict[CollectionId, str | None]:
    where = f"entry {number} of {_CONDITIONS!r}"
    if not isinstance(entry, dict):
        raise SignalError(f"{where} must be an object, not {kind(entry)}")
    stray = [name for name in entry if name not in {"data-collection", "filter"}]
    pattern, text = text_in(entry, "data-collection"), text_in(entry, "filter")
    if pattern is None or stray:
        message = f"{where} has no 'data-collection'" if pattern is None else f"{where} has {shown(stray[0])}"
        raise SignalError(message, hint="it must hold 'data-collection' and 'filter', no more")
    match = match_names(pattern.strip(), names)
    # If a condition applied to no collection, the named collections would be read without it.
    if names.collections and not match.collections:
        raise SignalError(f"{where}: {_COLLECTIONS!r} names nothing that matches {shown(pattern)}")
    return dict.fromkeys(names.members(match.collections), text)

"""The `keys` and `ranges` of a signal: which rows it asks for, or a SignalError that names what is wrong.

Values are kept as JSON text, exactly as they were sent: what a number or an object means depends on the type
of the key, which the source knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from engine.errors import SignalError
from engine.model import Scope, Stretch
from signals.parse.budget import MAX_DATA, MAX_KEYS, MAX_RANGES
from signals.parse.kinds import kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from engine.model import CollectionId, JsonKey
    from signals.parse.names import KnownNames

KEYS: Final = "keys"
RANGES: Final = "ranges"
_FROM: Final = "from"
_TO: Final = "to"
_COLUMNS: Final = 64


class _Raw(msgspec.Struct):
    """The fields as text."""

    keys: msgspec.Raw = msgspec.Raw(b"null")
    ranges: msgspec.Raw = msgspec.Raw(b"null")


class _Ends(msgspec.Struct, rename={"start": _FROM, "end": _TO}):
    start: list[msgspec.Raw] | None = None
    end: list[msgspec.Raw] | None = None


def scope_of(data: str, fields: Mapping[str, object]) -> Scope | None:
    """The scope that a signal's data asks for; None for all rows. `fields` are the data, parsed."""
    if fields.get(KEYS) is None and fields.get(RANGES) is None:
        return None
    if fields.get(KEYS) is not None and fields.get(RANGES) is not None:
        raise SignalError(f"{KEYS!r} and {RANGES!r} exclude each other", hint="send two signals")
    if fields.get(KEYS) is not None:
        _check_keys(fields[KEYS])
        return Scope(keys=_keys(data))
    _check_ranges(fields[RANGES])
    return Scope(stretches=_stretches(data))


def check_length(data: str) -> None:
    """Refuse data that is long by anything else than keys and ranges."""
    if len(data) <= MAX_DATA:
        return
    raw = _raw(data)
    scoped = sum(len(bytes(part).decode()) for part in (raw.keys, raw.ranges))
    if len(data) - scoped > MAX_DATA:
        raise SignalError(f"the data has {len(data) - scoped} characters, at most {MAX_DATA} are read")


def check_alone(scope: Scope | None, names: Sequence[CollectionId], known: KnownNames) -> None:
    """Refuse keys or ranges for several collections, whose keys differ.

    Those of one group may be named together: the partitions of a table have its key.
    """
    count = len(known.members(names))
    if scope is None or count <= 1 or any(len(known.members((name,))) == count for name in names):
        return
    raise SignalError(
        f"{KEYS if scope.keys else RANGES!r} are those of one collection, and the signal names {count}",
        hint="send a signal for each collection",
    )


def _entries(field: object, name: str, most: int) -> Iterator[tuple[str, object]]:
    """Yield each entry of a field with its place. Raises SignalError if it is no array of 1 to `most`."""
    if not isinstance(field, list):
        raise SignalError(f"{name!r} must be an array, not {kind(field)}")
    if not field:
        raise SignalError(f"{name!r} is empty", hint="leave it out to read all rows")
    if len(field) > most:
        raise SignalError(f"{name!r} has {len(field)} entries, at most {most} are read")
    for number, entry in enumerate(field, 1):
        yield f"entry {number} of {name!r}", entry


def _check_keys(keys: object) -> None:
    for place, key in _entries(keys, KEYS, MAX_KEYS):
        _check_key(key, place)


def _check_ranges(ranges: object) -> None:
    for place, ends in _entries(ranges, RANGES, MAX_RANGES):
        if not isinstance(ends, dict):
            raise SignalError(f"{place} must be an object, not {kind(ends)}")
        if set(ends) - {_FROM, _TO}:
            raise SignalError(f"{place} must hold {_FROM!r} and {_TO!r}, no more")
        for name in (_FROM, _TO):
            if ends.get(name) is not None:
                _check_key(ends[name], f"{name!r} in {place}")
                if None in ends[name]:
                    raise SignalError(f"{name!r} in {place} holds null, which is no bound")


def _check_key(key: object, where: str) -> None:
    if not isinstance(key, list):
        raise SignalError(f"{where} must be an array of a key's values, not {kind(key)}")
    if not 1 <= len(key) <= _COLUMNS:
        raise SignalError(f"{where} has {len(key)} values, and no key has so many")
    if any(isinstance(value, str) and "\0" in value for value in key):
        raise SignalError(f"{where} holds a NUL character")


# Made at the import, as in `engine/job/saved/state_document.py`.
_AS_RAW = msgspec.json.Decoder(_Raw)
_AS_ENDS = msgspec.json.Decoder(list[_Ends])


def _raw(data: str) -> _Raw:
    try:
        return _AS_RAW.decode(data)
    except msgspec.MsgspecError as error:
        raise SignalError("the data is no valid JSON", hint="check quotes and braces") from error


def _keys(data: str) -> tuple[JsonKey, ...]:
    """The keys as text, each once."""
    raw = _raw(data).keys
    keys = msgspec.json.decode(raw, type=list[list[msgspec.Raw]])
    return tuple(dict.fromkeys(tuple(map(_text, key)) for key in keys))


def _stretches(data: str) -> tuple[Stretch, ...]:
    """The ranges as text."""
    raw = _raw(data).ranges
    return tuple(Stretch(_key(ends.start), _key(ends.end)) for ends in _AS_ENDS.decode(raw))


def _key(values: Sequence[msgspec.Raw] | None) -> JsonKey | None:
    return None if values is None else tuple(map(_text, values))


def _text(value: msgspec.Raw) -> str:
    return bytes(value).decode().strip()

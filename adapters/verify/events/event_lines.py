"""Lines of events: where they are, and what each says: its key, its row, its source block."""

from __future__ import annotations

import mmap
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec
import pyarrow as pa

from adapters.staging.turn_names import turn_name
from engine.errors import SourceError
from engine.verify.compared_digests import bare_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPEN_FILES: Final = 64


class _Payload(msgspec.Struct):
    op: str
    after: msgspec.Raw = msgspec.Raw(b"null")


class _Wrapped(msgspec.Struct):
    payload: _Payload


class _WithSchema(msgspec.Struct):
    key: msgspec.Raw
    value: _Wrapped | None


class _Bare(msgspec.Struct):
    key: msgspec.Raw
    value: _Payload | None


class _Sourced(msgspec.Struct):
    source: msgspec.Raw = msgspec.Raw(b"{}")


class _SourcedWrapped(msgspec.Struct):
    payload: _Sourced


class _SourcedWithSchema(msgspec.Struct):
    value: _SourcedWrapped


class _SourcedBare(msgspec.Struct):
    value: _Sourced


_AS_SOURCED_WITH_SCHEMA: Final = msgspec.json.Decoder(_SourcedWithSchema)
_AS_SOURCED: Final = msgspec.json.Decoder(_SourcedBare)
_AS_WITH_SCHEMA: Final = msgspec.json.Decoder(_WithSchema)
_AS_BARE: Final = msgspec.json.Decoder(_Bare)


def turn_path(directory: str, turn: int) -> str:
    """The directory of a turn."""
    return f"{directory}/{turn_name(turn)}"


def event_path(directory: str, turn: int, part: int) -> str:
    """The file of a part of a turn."""
    return f"{turn_path(directory, turn)}/part-{part:05d}.jsonl"


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raise SourceError for a line that can't be read, or that is not what it was."""
    try:
        yield
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise SourceError(f"a line can't be read again: {error}", where=path) from error


class Lines:
    """Lines of files, read again by their places. Keeps the last files open; close it."""

    def __init__(self) -> None:
        self._open: dict[str, mmap.mmap] = {}

    def at(self, path: str, offset: int, size: int) -> bytes:
        """A line. Raises OSError or ValueError for a file that is gone or empty."""
        content = self._open.get(path)
        if content is None:
            with Path(path).open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if len(self._open) >= _OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            self._open[path] = content
        return content[offset : offset + size]

    def close(self) -> None:
        """Close the files."""
        for content in self._open.values():
            content.close()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def events_in(lines: Sequence[bytes]) -> tuple[list[msgspec.Raw], list[_Payload | None]]:
    """The keys of the events in these lines, and their payloads; None for a tombstone."""
    try:
        wrapped = list(map(_AS_WITH_SCHEMA.decode, lines))
    except msgspec.ValidationError:
        bare = list(map(_AS_BARE.decode, lines))
        return [event.key for event in bare], [event.value for event in bare]
    payloads = [event.value.payload if event.value else None for event in wrapped]
    return [event.key for event in wrapped], payloads


def key_and_row(line: bytes) -> tuple[bytes, bytes | None]:
    """The key of the event in a line, and its row; None for a delete."""
    try:
        event: _WithSchema | _Bare = _AS_WITH_SCHEMA.decode(line)
    except msgspec.ValidationError:
        event = _AS_BARE.decode(line)
    payload = event.value.payload if isinstance(event.value, _Wrapped) else event.value
    gone = payload is None or payload.op == "d" or bytes(payload.after) == b"null"
    key = bare_keys(pa.array([bytes(event.key).decode()], pa.large_string()))[0].as_py().encode()
    return key, None if gone or payload is None else bytes(payload.after)


def source_of(line: bytes) -> bytes:
    """The source block of the event in a line, as JSON."""
    try:
        return bytes(_AS_SOURCED_WITH_SCHEMA.decode(line).value.payload.source)
    except msgspec.ValidationError:
        return bytes(_AS_SOURCED.decode(line).value.source)

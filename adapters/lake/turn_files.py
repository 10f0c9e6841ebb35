"""Reads the directory of a files sink: its turns, their parts, and the lines of a part.

Owns what is read in one task: a piece of a part. A line belongs to the piece in which it begins, so the
pieces of a part give each of its lines once. `adapters/sinks/files.py` owns the layout.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from adapters.staging.turn_names import turn_name
from engine.errors import ConfigError, SourceError
from engine.events.values.text import text_from

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.events.values.text import Ints, Text

_TURN: Final = re.compile(r"turn-(\d{12,})")
_PART: Final = re.compile(r"part-(\d{5,})\.jsonl")
_BLOCK: Final = 8 << 20
_PIECE: Final = 64 << 20
_LINE_BREAK, _BLANK = ord("\n"), ord(" ")


@dataclass(frozen=True, slots=True)
class Piece:
    """The lines of a part that begin in `[begin, end)`, in bytes of its file."""

    path: str
    turn: int
    part: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines without leading blanks, with their line breaks, and where each begins in its file."""

    texts: Text
    begins: Ints


class TurnFiles:
    """The committed turns in a files sink's directory. Raises ConfigError if there is no such directory."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory.removeprefix("file://")).absolute()
        if not self._directory.is_dir():
            raise ConfigError(
                f"{directory!r} is no directory here", hint="name the tidemark.sink.files.dir of the job"
            )

    def identity(self) -> str:
        """What distinguishes the directory from all others. Raises ConfigError before the job's first start.

        A directory that is not mounted looks like an empty one. So an empty one has no place to read from.
        """
        try:
            name = (self._directory / ".id").read_text("ascii").strip()
        except FileNotFoundError:
            name = ""
        if not name:
            raise ConfigError(
                f"no job has written to {str(self._directory)!r}",
                hint="is it mounted? else start the job first",
            )
        return name

    def turns(self, after: int = 0, upto: int | None = None) -> list[int]:
        """The numbers of the turns with events in `(after, upto]`, ascending."""
        names = (path.name for path in self._directory.iterdir())
        numbers = (int(match[1]) for match in map(_TURN.fullmatch, names) if match)
        return sorted(turn for turn in numbers if turn > after and (upto is None or turn <= upto))

    def pieces(self, turns: Iterable[int], size: int = _PIECE) -> Iterator[Piece]:
        """The pieces of these turns, in the order of their events."""
        for turn in turns:
            for part, path, length in self._parts(turn):
                for begin in range(0, length, size):
                    yield Piece(str(path), turn, part, begin, min(begin + size, length))

    def _parts(self, turn: int) -> list[tuple[int, Path, int]]:
        directory = self._directory / turn_name(turn)
        try:
            named = [(_PART.fullmatch(path.name), path) for path in directory.iterdir()]
            return sorted((int(match[1]), path, path.stat().st_size) for match, path in named if match)
        except FileNotFoundError:
            raise SourceError(
                "the turn was removed before it was read",
                where=str(directory),
                hint="remove turns only after every query has read them",
            ) from None


def read_lines(piece: Piece, block: int = _BLOCK) -> Iterator[Lines]:
    """The lines of a piece, in order, about `block` bytes at a time."""
    try:
        file = open(piece.path, "rb")  # noqa: SIM115, PTH123  closed below
    except FileNotFoundError:
        raise SourceError(
            "the turn was removed before it was read",
            where=piece.path,
            hint="remove turns only after every query has read them",
        ) from None
    with file:
        position = piece.begin
        if position:
            # The line that reaches into this piece belongs to the piece before.
            file.seek(position - 1)
            position += len(file.readline()) - 1
        while position < piece.end:
            data = file.read(min(block, piece.end - position))
            if not data:
                return
            if data[-1] != _LINE_BREAK:
                data += file.readline()
            if data[data.rfind(b"\n") + 1 :].strip(b" "):
                raise SourceError("the last line has no end", where=piece.path, hint="is the file damaged?")
            yield _lines(data, position)
            position += len(data)


def _lines(data: bytes, position: int) -> Lines:
    raw = np.frombuffer(data, np.uint8)
    bounds = np.concatenate(([0], np.flatnonzero(raw == _LINE_BREAK) + 1)).astype(np.int64)
    texts = text_from(bounds, data)  # what follows the last line break is blank
    if not (raw[bounds[:-1]] == _BLANK).any():
        return Lines(texts, bounds[:-1] + position)
    trimmed = pc.ascii_ltrim(texts, " ")
    there = np.flatnonzero(pc.binary_length(trimmed).to_numpy(zero_copy_only=False) > 1)
    return Lines(trimmed.take(there), bounds[:-1][there] + position)

"""Positions in the log: `(lsn, sequence)`.

Between transactions everything that was committed before `lsn` has been streamed, and `sequence` is 0. Inside
a transaction `lsn` is where its commit record starts, and its first `sequence` entries have been streamed.
"""

from __future__ import annotations

from adapters.postgres.server.visibility import format_lsn
from engine.model import Position
from engine.saved import read_integer

LAST_LSN = 2**64 - 1


def position_at(lsn: int, sequence: int = 0) -> Position:
    """The position before the commit at `lsn`, or inside it."""
    return Position((lsn, sequence))


def checked(position: Position) -> Position:
    """The position, if it is one of PostgreSQL's log. Raises TypeError or ValueError."""
    lsn, sequence = position.order
    read_integer(lsn, most=LAST_LSN)
    read_integer(sequence)
    return position


def parts_of(position: Position) -> tuple[int, int]:
    """The LSN and the sequence."""
    lsn, sequence = position.order
    return int(lsn), int(sequence)


def lsn_of(position: Position) -> int:
    """The LSN alone: where the commit starts that comes next or has begun."""
    return int(position.order[0])


def numbers(position: Position) -> dict[str, int]:
    """The position as numbers, by name."""
    lsn, sequence = parts_of(position)
    return {"lsn": lsn, "sequence": sequence}


def shown(position: Position) -> str:
    """The LSN as the server writes it."""
    return format_lsn(lsn_of(position))


def shown_position(position: Position | None) -> str:
    """A position, or the lack of one, as a message says it."""
    return shown(position) if position else "the log's begin"

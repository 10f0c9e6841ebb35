"""Places in a database's log, as text that sorts in the log's order.

An LSN is shown as `00000025:00000d98:00a2`, in small letters, so that text order is the log's. A place is
that of a commit, followed by that of a change and its number inside the transaction; `whole` commits count
as streamed to their end. A position has one place per database, in the order of `database.names`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.model import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

ZERO = "00000000:00000000:0000"
"""Before every LSN."""
_LAST = "ffffffff:ffffffff:ffff"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Everything up to here has been streamed: commits before `commit`, and of it up to the operation.

    `operation` is CDC's number (1 delete, 2 insert, 3 and 4 update) of the last change streamed.
    """

    commit: str = ZERO
    change: str = _LAST
    operation: int = 9

    @property
    def whole(self) -> bool:
        """Whether the commit has been streamed to its end."""
        return self.change == _LAST

    def __str__(self) -> str:
        return self.commit if self.whole else f"{self.commit}/{self.change}/{self.operation}"


def parse_place(text: str) -> Place:
    """The place that `str` has written."""
    commit, *inside = text.split("/")
    return Place(commit, inside[0], int(inside[1])) if inside else Place(commit)


def position_of(places: Sequence[Place]) -> Position:
    """The position of these places, one per database in a fixed order."""
    return Position(tuple(part for one in places for part in (one.commit, one.change, one.operation)))


def places_of(position: Position) -> tuple[Place, ...]:
    """The places of a position."""
    order = position.order
    return tuple(
        Place(str(order[at]), str(order[at + 1]), int(order[at + 2])) for at in range(0, len(order), 3)
    )


def lsn_of_hex(digits: str) -> str:
    """The text of an LSN given by twenty hexadecimal digits."""
    small = digits.lower()
    return f"{small[:8]}:{small[8:16]}:{small[16:]}"


def after_lsn(lsn: str, by: int = 1) -> str:
    """The LSN that follows, whether or not the log has it; with `by` -1 the one before."""
    return lsn_of_hex(f"{max(0, int(lsn.replace(':', ''), 16) + by):020x}")


def lsn_of(binary: bytes) -> str:
    """The text of an LSN of ten bytes."""
    return lsn_of_hex(binary.hex())


def lsn_literal(lsn: str) -> str:
    """The LSN as T-SQL's binary literal."""
    return f"0x{lsn.replace(':', '')}"

"""Positions in a database's log, as text that sorts in log order.

An LSN is written as `00000025:00000d98:00a2`, in lower case, so that texts sort in log order. A log position
is a commit, followed by a change inside the transaction: its command id, its LSN and its operation, in this
order of significance. A `whole` commit has been streamed to its end. A job's position has a log position for
each database, in the order of `database.names`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.model import Position

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ZERO = "00000000:00000000:0000"
"""Before every LSN."""
_LAST = "ffffffff:ffffffff:ffff"
_LAST_COMMAND = 2**31 - 1
_LAST_OPERATION = 9
"""After all operations of a change."""
UNKNOWN_COMMAND = 0
"""The command id of change rows whose table has none; the server counts from 1."""
_LSN = re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """A position in the log: all commits before `commit` are streamed, and `commit` up to the operation.

    `command` is the `__$command_id` of the last streamed change, `change` its `__$seqval`, `operation` CDC's
    number (1 delete, 2 insert, 3 and 4 update).
    """

    commit: str = ZERO
    command: int = _LAST_COMMAND
    change: str = _LAST
    operation: int = _LAST_OPERATION

    @property
    def whole(self) -> bool:
        """Whether the commit has been streamed to its end."""
        return self.change == _LAST

    def __str__(self) -> str:
        if self.whole:
            return self.commit
        return f"{self.commit}/{self.command}/{self.change}/{self.operation}"


def parse_position(text: str) -> LogPosition:
    """The position that `str` wrote, now or when changes had no command ids."""
    commit, *inside = text.split("/")
    if not inside:
        return _checked(LogPosition(commit))
    *command, change, operation = inside
    return _checked(
        LogPosition(commit, int(command[0]) if command else UNKNOWN_COMMAND, change, int(operation))
    )


def check_lsn(text: str) -> None:
    """Raise ValueError if the text is not an LSN."""
    if not _LSN.fullmatch(text):
        raise ValueError("not an LSN")


def _checked(position: LogPosition) -> LogPosition:
    check_lsn(position.commit)
    check_lsn(position.change)
    if not 0 <= position.command <= _LAST_COMMAND or not 0 <= position.operation <= _LAST_OPERATION:
        raise ValueError("not a position")
    return position


def position_of(positions: Sequence[LogPosition]) -> Position:
    """The job's position: these positions, one per database in a fixed order."""
    return Position(
        tuple(
            part
            for position in positions
            for part in (position.commit, position.command, position.change, position.operation)
        )
    )


def positions_of(position: Position) -> tuple[LogPosition, ...]:
    """Each database's position.

    States of earlier versions order a commit's changes by their LSNs alone. Their position inside a commit
    becomes the commit's beginning, so that its changes are emitted again, in order.
    """
    order = position.order
    if len(order) > 1 and isinstance(order[1], str):
        return tuple(_older(*map(str, order[at : at + 3])) for at in range(0, len(order), 3))
    if len(order) % 4:
        raise ValueError("not a position")
    return tuple(
        _checked(LogPosition(str(order[at]), int(order[at + 1]), str(order[at + 2]), int(order[at + 3])))
        for at in range(0, len(order), 4)
    )


def numbers(position: Position) -> dict[str, int]:
    """The parts of the commits' LSNs as numbers, by name; several databases are numbered from 1."""
    positions = positions_of(position)
    return {
        f"commit_lsn_{part}" + (f"_{number}" if len(positions) > 1 else ""): int(digits, 16)
        for number, reached in enumerate(positions, 1)
        for part, digits in zip(("file", "block", "slot"), reached.commit.split(":"), strict=True)
    }


def shown(position: Position) -> str:
    """A position as text: each database's."""
    return ", ".join(map(str, positions_of(position)))


def _older(commit: str, change: str, operation: str) -> LogPosition:
    found = (
        LogPosition(commit)
        if change == _LAST
        else LogPosition(commit, UNKNOWN_COMMAND, change, int(operation))
    )
    return _checked(found)


def lsn_of_hex(digits: str) -> str:
    """An LSN's text from twenty hexadecimal digits."""
    small = digits.lower()
    return f"{small[:8]}:{small[8:16]}:{small[16:]}"


def lsn_of_decimal(digits: str) -> str:
    """An LSN's text from a numeric(25,0): ten decimal digits, ten and five, without leading zeros.

    Backups and recovery forks are written so: 37000000348000162 is 00000025:00000d98:00a2.
    """
    block, slot = divmod(int(digits), 10**5)
    file, block = divmod(block, 10**10)
    return lsn_of_hex(f"{file:08x}{block:08x}{slot:04x}")


def after_lsn(lsn: str, by: int = 1) -> str:
    """The next LSN, whether or not the log has it; with `by` -1 the previous one."""
    return lsn_of_hex(f"{max(0, int(lsn.replace(':', ''), 16) + by):020x}")


def lsn_of(binary: bytes) -> str:
    """An LSN's text from its ten bytes."""
    return lsn_of_hex(binary.hex())


def lsn_binary(lsn: str) -> bytes:
    """An LSN's ten bytes from its text."""
    return bytes.fromhex(lsn.replace(":", ""))


def lsn_literal(lsn: str) -> str:
    """The LSN as a T-SQL binary literal."""
    return f"0x{lsn.replace(':', '')}"


def began_at(memory: Mapping[str, Any]) -> dict[str, LogPosition]:
    """Where the log of each database began.

    States of earlier versions have just the positions, in the order of names.
    """
    saved = memory.get("first", {}).get("begins_at") or {}
    if isinstance(saved, list):
        return dict(zip(memory.get("names", ()), positions_of(Position(tuple(saved))), strict=False))
    return {name: parse_position(text) for name, text in saved.items()}

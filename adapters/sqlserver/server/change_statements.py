"""The T-SQL statements that read change tables. Pure.

Change rows come from the change tables themselves. The functions that CDC makes for each instance do not show
`__$command_id`, the only order of a transaction's changes. What those functions would check is asked after
the rows were read (`LEAST_LSNS`). LSNs are binary parameters: the server can reuse one plan per statement,
and no driver converts them. Spark's JDBC reader takes a query without parameters, so there LSNs are literals.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Protocol, TypeVar

from adapters.sqlserver.server.position import UNKNOWN_COMMAND, ZERO, lsn_binary, lsn_literal
from adapters.sqlserver.server.tsql import quote_name, row_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.log.span_planner import Share
    from adapters.sqlserver.server.position import LogPosition
    from adapters.sqlserver.server.table import Column
    from engine.events.values.row_form import RowMode

T = TypeVar("T")
_BRANCHES = 50
_COMMIT, _CHANGE = "CONVERT(char(20), c.[__$start_lsn], 2)", "CONVERT(char(20), c.[__$seqval], 2)"
_TIMES = " LEFT JOIN [cdc].[lsn_time_mapping] AS m ON m.[start_lsn] = c.[__$start_lsn]"

MAX_LSN = "SELECT CONVERT(char(20), sys.fn_cdc_get_max_lsn(), 2) AS [lsn]"
"""The greatest LSN that the capture job has processed; NULL if it has processed none."""

LEAST_LSNS = (
    "SELECT ct.[capture_instance] AS [instance],"
    " CONVERT(varchar(20), sys.fn_cdc_get_min_lsn(ct.[capture_instance]), 2) AS [lsn]"
    " FROM [cdc].[change_tables] AS ct"
)
"""The commit from which each change table is complete; zero where the login lacks the right to see it."""

CLOCK = (
    "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) AS [minutes],"
    " CONVERT(varchar(23), GETDATE(), 121) AS [now]"
)
"""How many minutes the server's clock is ahead of UTC, and its current time."""


@dataclass(frozen=True, slots=True)
class BoundStatement:
    """A statement with a `?` for each LSN, and the LSNs in the order of the text."""

    text: str
    parameters: tuple[bytes, ...] = ()


class Written(Protocol):
    """Writes an LSN into a statement. Called in the order in which LSNs stand in the text."""

    def __call__(self, lsn: str, /) -> str:
        """The text that stands for the LSN."""


class _Parameters:
    """LSNs as parameters. A server takes 2,100; a statement of `_BRANCHES` shares has 300 at most."""

    def __init__(self) -> None:
        self._values: list[bytes] = []

    def __call__(self, lsn: str) -> str:
        self._values.append(lsn_binary(lsn))
        return "?"

    def bound(self, text: str) -> BoundStatement:
        """The statement with the parameters collected here."""
        return BoundStatement(text, tuple(self._values))


def portions(branches: Sequence[T]) -> list[Sequence[T]]:
    """The branches of a UNION ALL in portions of about equal size.

    Each branch costs the server several plans.
    """
    size, count = len(branches), ceil(len(branches) / _BRANCHES)
    return [branches[size * at // count : size * (at + 1) // count] for at in range(count)]


def _rows(share: Share, written: Written, join: str = "") -> str:
    """FROM and WHERE of a share's change rows, as `c`."""
    first, last = written(share.first), written(share.last)
    between = f"c.[__$start_lsn] >= {first} AND c.[__$start_lsn] <= {last}"
    where = " AND ".join([between, *_inside(share, written)])
    return f"{quote_name('cdc', f'{share.capture.name}_CT')} AS c{join} WHERE {where}"


def _command(share: Share) -> str:
    """The command id of a change row."""
    return (
        f"COALESCE(c.[__$command_id], {UNKNOWN_COMMAND})" if share.capture.commands else f"{UNKNOWN_COMMAND}"
    )


def _order(share: Share) -> str:
    """The columns that order the changes of a commit, in the order of the table's index."""
    command = "c.[__$command_id], " if share.capture.commands else ""
    return f"{command}c.[__$seqval], c.[__$operation]"


def _inside(share: Share, written: Written) -> list[str]:
    """The conditions of a share that begins or ends inside a commit."""
    found = []
    if not share.after.whole and share.first == share.after.commit and share.after.change != ZERO:
        commit, beyond = written(share.after.commit), _compared(share, ">", share.after, written)
        found.append(f"(c.[__$start_lsn] > {commit} OR {beyond})")
    if not share.upto.whole:
        commit, within = written(share.upto.commit), _compared(share, "<=", share.upto, written)
        found.append(f"(c.[__$start_lsn] < {commit} OR {within})")
    return found


def _compared(share: Share, operator: str, position: LogPosition, written: Written) -> str:
    """A condition on the changes of a commit before or after a position inside it."""
    change = f"c.[__$seqval] {operator} {written(position.change)}"
    if not share.capture.commands and position.command == UNKNOWN_COMMAND:
        return change
    command = _command(share)
    same = f"({command} = {position.command} AND {change})"
    return f"{command} {operator[0]} {position.command} OR {same}"


def counts(asked: Sequence[Share], most: int) -> BoundStatement:
    """The number of rows of each share, up to `most`: (share, rows)."""
    lsns = _Parameters()
    text = " UNION ALL ".join(
        f"SELECT {number} AS [share], COUNT_BIG(*) AS [rows]"
        f" FROM (SELECT TOP ({most}) 1 AS [one] FROM {_rows(share, lsns)}) AS q"
        for number, share in enumerate(asked)
    )
    return lsns.bound(text)


def commits(asked: Sequence[Share], offsets: Sequence[int]) -> BoundStatement:
    """The commit of the row at each share's offset: (share, lsn). Shares without such a row are missing."""
    # By commit alone: change tables are stored in that order, so nothing is sorted. Rows that are skipped
    # need no text.
    lsns = _Parameters()
    text = " UNION ALL ".join(
        f"SELECT {number} AS [share], {_COMMIT} AS [lsn]"
        f" FROM (SELECT c.[__$start_lsn] FROM {_rows(share, lsns)}"
        f" ORDER BY c.[__$start_lsn] OFFSET {offset} ROWS FETCH NEXT 1 ROWS ONLY) AS c"
        for number, (share, offset) in enumerate(zip(asked, offsets, strict=True))
    )
    return lsns.bound(text)


def changes(asked: Sequence[Share], step: int) -> BoundStatement:
    """The command and the LSN of about every `step`-th change of shares of one commit: (share, command, lsn).

    Never the last change, nor one whose LSN the next change shares: such changes are counted together
    (`event_serial_no`). They come in pairs, so one of two neighbouring changes qualifies.
    """
    lsns = _Parameters()
    text = " UNION ALL ".join(
        f"SELECT {number} AS [share], q.[command], q.[lsn] FROM (SELECT {_command(share)} AS [command],"
        f" {_CHANGE} AS [lsn], ROW_NUMBER() OVER (ORDER BY {_order(share)}) AS [number],"
        f" LEAD({_CHANGE}) OVER (ORDER BY {_order(share)}) AS [next]"
        f" FROM {_rows(share, lsns)}) AS q"
        f" WHERE q.[number] >= {step} AND q.[number] % {step} <= 1 AND q.[next] <> q.[lsn]"
        for number, share in enumerate(asked)
    )
    return lsns.bound(text)


@dataclass(frozen=True, slots=True)
class ShareRead:
    """A share with the columns of its rows' texts and their form, and the task that reads it."""

    share: Share
    columns: tuple[Column, ...]
    mode: RowMode
    task: int = 0


def change_rows(told: Sequence[ShareRead]) -> BoundStatement:
    """The change rows of some shares, unordered."""
    lsns = _Parameters()
    return lsns.bound(_change_rows(told, lsns))


def change_query(told: Sequence[ShareRead]) -> str:
    """The statement of `change_rows` without parameters, for Spark's JDBC reader."""
    return _change_rows(told, lsn_literal)


def _change_rows(told: Sequence[ShareRead], written: Written) -> str:
    return " UNION ALL ".join(
        f"SELECT {read.task} AS [task], {read.share.instance} AS [instance], {_COMMIT} AS [commit],"
        f" {_command(read.share)} AS [command], {_CHANGE} AS [change], c.[__$operation] AS [operation],"
        f" CONVERT(varchar(23), m.[tran_end_time], 121) AS [committed],"
        f" {row_text(read.columns, read.mode, 'c')} AS [r]"
        f" FROM {_rows(read.share, written, _TIMES)}"
        for read in told
    )

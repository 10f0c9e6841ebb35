"""The statements that read change tables, as T-SQL. Pure.

Change rows come from the functions that CDC makes for each instance, never from its tables, so that the
gating role counts. All bounds are literals: LSNs as binary, so that no driver converts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from adapters.sqlserver.place import ZERO, lsn_literal
from adapters.sqlserver.tsql import quote_ident

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.sqlserver.spans import Share

T = TypeVar("T")
_BRANCHES = 50
_COMMIT, _CHANGE = "CONVERT(char(20), c.[__$start_lsn], 2)", "CONVERT(char(20), c.[__$seqval], 2)"
_TIMES = " LEFT JOIN [cdc].[lsn_time_mapping] AS m ON m.[start_lsn] = c.[__$start_lsn]"

MAX_LSN = "SELECT CONVERT(char(20), sys.fn_cdc_get_max_lsn(), 2) AS [lsn]"
"""The greatest LSN that the capture job has been to; NULL where it has been nowhere."""

CLOCK = "SELECT DATEPART(TZOFFSET, SYSDATETIMEOFFSET()) AS [minutes]"
"""How many minutes the server's clock is ahead of UTC."""


def portions(branches: Sequence[T]) -> list[Sequence[T]]:
    """What a UNION ALL of many branches is divided into, alike: each costs the server several plans."""
    size, count = len(branches), ceil(len(branches) / _BRANCHES)
    return [branches[size * at // count : size * (at + 1) // count] for at in range(count)]


def _rows(share: Share, join: str = "") -> str:
    """FROM and WHERE of a share's change rows, as `c`."""
    function = quote_ident(f"fn_cdc_get_all_changes_{share.capture.name}")
    first, last = lsn_literal(share.first), lsn_literal(share.last)
    where = " AND ".join(_inside(share))
    rows = f"[cdc].{function}({first}, {last}, N'all update old') AS c{join}"
    return f"{rows} WHERE {where}" if where else rows


def _inside(share: Share) -> list[str]:
    """Conditions of a share that begins or ends inside a commit."""
    found = []
    if not share.after.whole and share.first == share.after.commit and share.after.change != ZERO:
        commit, change = lsn_literal(share.after.commit), lsn_literal(share.after.change)
        found.append(f"(c.[__$start_lsn] > {commit} OR c.[__$seqval] > {change})")
    if not share.upto.whole:
        commit, change = lsn_literal(share.upto.commit), lsn_literal(share.upto.change)
        found.append(f"(c.[__$start_lsn] < {commit} OR c.[__$seqval] <= {change})")
    return found


def counts(asked: Sequence[Share], most: int) -> str:
    """How many rows each share has, up to `most`: (share, rows)."""
    return " UNION ALL ".join(
        f"SELECT {place} AS [share], COUNT_BIG(*) AS [rows]"
        f" FROM (SELECT TOP ({most}) 1 AS [one] FROM {_rows(share)}) AS q"
        for place, share in enumerate(asked)
    )


def commits(asked: Sequence[Share], offsets: Sequence[int]) -> str:
    """The commit of the row at each share's offset: (share, lsn); no row where there is none."""
    # By the commit alone: that is how the change tables are stored, so nothing is sorted. Rows that are
    # skipped need no text.
    return " UNION ALL ".join(
        f"SELECT {place} AS [share], {_COMMIT} AS [lsn] FROM (SELECT c.[__$start_lsn] FROM {_rows(share)}"
        f" ORDER BY c.[__$start_lsn] OFFSET {offset} ROWS FETCH NEXT 1 ROWS ONLY) AS c"
        for place, (share, offset) in enumerate(zip(asked, offsets, strict=True))
    )


def changes(asked: Sequence[Share], step: int) -> str:
    """The LSN of every `step`-th change of shares of one commit, less the last: (share, lsn)."""
    return " UNION ALL ".join(
        f"SELECT {place} AS [share], q.[lsn] FROM (SELECT {_CHANGE} AS [lsn],"
        f" ROW_NUMBER() OVER (ORDER BY c.[__$seqval]) AS [number], COUNT_BIG(*) OVER () AS [rows]"
        f" FROM {_rows(share)}) AS q WHERE q.[number] % {step} = 0 AND q.[number] < q.[rows]"
        for place, share in enumerate(asked)
    )


@dataclass(frozen=True, slots=True)
class Told:
    """A share with the expression of its rows' text, and the task that reads it."""

    share: Share
    row: str
    task: int = 0


def change_rows(told: Sequence[Told]) -> str:
    """The change rows of some shares, in no order."""
    return " UNION ALL ".join(
        f"SELECT {one.task} AS [task], {one.share.instance} AS [instance], {_COMMIT} AS [commit],"
        f" {_CHANGE} AS [change], c.[__$operation] AS [operation],"
        f" CONVERT(varchar(23), m.[tran_end_time], 121) AS [committed], {one.row} AS [r]"
        f" FROM {_rows(one.share, _TIMES)}"
        for one in told
    )

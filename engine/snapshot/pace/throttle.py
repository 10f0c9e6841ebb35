"""The throttle: keeps what is read per second within the limits of signals and of the job. Pure.

A window is charged with what it reads: with what is planned when it opens, and with the true amount once its
rows are read. A charge is a time: how long the limit takes to allow so much. The next window opens once the
charges before it have passed. So a limit makes windows smaller and the pauses between them longer. Nothing
waits inside a window, and the database holds nothing for a window that has yet to open.

    charged   ├──── A ────┤├── B ──┤├──── C ────┤
    window     A reads     B reads  C reads

Charges are not saved. Instead a start counts as a full window: an earlier process may have read as much
without a trace. The caller measures time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from engine.model import NO_LIMIT, Limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.snapshot.queue_entry import Table

Lane: TypeAlias = tuple[str, Limit]
"""The queue entries that share a limit: those of one signal, or all that have none of their own."""
_UNLIMITED: Lane = ("", NO_LIMIT)
_CAUGHT_UP_S = 1.0
"""How much of a delay is caught up with. A loop that turns a little late must not lower the speed."""


def lane(table: Table) -> Lane:
    """The lane of a queue entry."""
    return _UNLIMITED if table.limit == NO_LIMIT else (table.signal, table.limit)


@dataclass(slots=True)
class _Account:
    """What one limit has been charged with. `due_s`: when the charges have passed."""

    limit: Limit
    due_s: float
    row_bytes: float = 0.0

    def cost_s(self, rows: int, size: int) -> float:
        """How long the limit takes to allow so much."""
        by_rows = rows / self.limit.rows if self.limit.rows else 0.0
        by_bytes = size / self.limit.bytes if self.limit.bytes else 0.0
        return max(by_rows, by_bytes)

    def charge(self, cost_s: float, now_s: float) -> None:
        self.due_s = max(self.due_s, now_s - _CAUGHT_UP_S) + cost_s

    def rows_in(self, seconds: float, row_bytes: float) -> float:
        """How many rows of a size the limit allows in a time."""
        by_rows = self.limit.rows * seconds if self.limit.rows else float("inf")
        size = max(self.row_bytes or row_bytes, 1.0)
        by_bytes = self.limit.bytes * seconds / size if self.limit.bytes else float("inf")
        return min(by_rows, by_bytes)


@dataclass(slots=True)
class Throttle:
    """The accounts of the job and of the signals in the queue.

    `period_s` is how long a window should take. `_open` has the accounts and the planned rows and bytes of
    windows whose rows are not read yet.
    """

    job: Limit
    period_s: float
    _job: _Account = field(init=False)
    _signals: dict[Lane, _Account] = field(default_factory=dict)
    _open: dict[str, tuple[list[_Account], int, int]] = field(default_factory=dict)
    _begun: bool = False
    _tables: Sequence[Table] | None = None

    def __post_init__(self) -> None:
        self._job = _Account(self.job, 0.0)

    def follow(self, tables: Sequence[Table], now_s: float) -> None:
        """Open the accounts of new signals in the queue, and close those of signals that have left it.

        A signal that was there at the start may just have been read: see the top of this module.
        """
        if tables is self._tables:
            return
        self._tables = tables
        due_s = now_s if self._begun else now_s + self.period_s
        if not self._begun:
            self._begun, self._job.due_s = True, due_s
        lanes = {lane(table) for table in tables if table.limit != NO_LIMIT}
        if lanes != self._signals.keys():
            kept = self._signals
            self._signals = {key: kept.get(key) or _Account(key[1], due_s) for key in lanes}

    def job_waits(self, now_s: float) -> bool:
        """Whether no window may open yet."""
        return self.job != NO_LIMIT and now_s < self._job.due_s

    def waits(self, table: Table, now_s: float) -> bool:
        """Whether no window of this queue entry's signal may open yet."""
        account = self._signals.get(lane(table))
        return account is not None and now_s < account.due_s

    def most_rows(self, table: Table, row_bytes: float, period_s: float) -> int | None:
        """How many rows a window of this entry may read, at least one; None: any number."""
        accounts = self._accounts(lane(table))
        if not accounts:
            return None
        return max(1, int(min(account.rows_in(period_s, row_bytes) for account in accounts)))

    def charge(self, window: str, table: Table, planned: tuple[int, int], now_s: float) -> None:
        """Charge a window that has opened with its planned rows and bytes. `table` is one that it reads."""
        accounts = self._accounts(lane(table))
        if not accounts:
            return
        rows, size = planned
        for account in accounts:
            account.charge(account.cost_s(rows, size), now_s)
        self._open[window] = (accounts, rows, size)

    def correct_charge(self, window: str, rows: int, size: int) -> None:
        """Correct the charges of a window, whose rows are all read now."""
        accounts, planned_rows, planned_size = self._open.pop(window, ([], 0, 0))
        for account in accounts:
            account.due_s += account.cost_s(rows, size) - account.cost_s(planned_rows, planned_size)
            account.row_bytes = size / rows if rows else account.row_bytes

    def keep_charge(self, window: str) -> None:
        """A window ends unread. It stays charged with what was planned, since it may have read that."""
        self._open.pop(window, None)

    def speed(self, limit: Limit, rows_per_s: float, row_bytes: float) -> float:
        """The speed that the limits leave, in rows per second, of what could be read."""
        accounts = [_Account(bound, 0.0) for bound in (self.job, limit)]
        return min(rows_per_s, *(account.rows_in(1.0, row_bytes) for account in accounts))

    def _accounts(self, of: Lane) -> list[_Account]:
        """The accounts that are charged with what a lane reads."""
        mine = self._signals.get(of)
        return [*([self._job] if self.job != NO_LIMIT else []), *([mine] if mine else [])]

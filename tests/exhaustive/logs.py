"""Every log within bounds: a table's first rows, and transactions of one change each in the order of commit.

Transactions are interchangeable until they commit, so they are numbered in that order; other numberings are
left out as symmetric. Values don't matter either, so a row is known by its version: 0 for a first row, n for
one that entry n has changed last, None for no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import NamedTuple, TypeAlias

from tests.simulation.database import Entry, T

Versions: TypeAlias = "tuple[int | None, ...]"


class Change(NamedTuple):
    """A change of one row. `op` is c, u, d or t (truncate); `lacks`: a large value is left out of the log."""

    op: str
    old: int = 0
    key: int = 0
    lacks: bool = False

    def __str__(self) -> str:
        match self.op:
            case "t":
                return "truncate"
            case "c":
                return f"insert row {self.key}"
            case "d":
                return f"delete row {self.key}"
        what = f"update row {self.key}" if self.old == self.key else f"move row {self.old} to {self.key}"
        return f"{what}, large value not logged" if self.lacks else what

    @property
    def entry(self) -> Entry:
        """The change as an entry of the simulated log."""
        return Entry(0, 0, T, self.op, self.old, self.key, "", None if self.lacks else "L", self.key)

    def after(self, rows: Versions, version: int) -> Versions:
        """The rows after it."""
        if self.op == "t":
            return (None,) * len(rows)
        found = list(rows)
        found[self.old] = None
        if self.op != "d":
            found[self.key] = version
        return tuple(found)

    def touches(self, other: Change) -> bool:
        """Whether both want the same row, so that the later one waits until the earlier one is visible."""
        return "t" in {self.op, other.op} or bool({self.old, self.key} & {other.old, other.key})


@dataclass(frozen=True)
class Log:
    """First rows and the changes in commit order. A set of entries is a number, with a bit for each."""

    first: Versions
    changes: tuple[Change, ...]

    @cached_property
    def tables(self) -> list[Versions]:
        """The rows after each number of entries."""
        found = [self.first]
        for at, change in enumerate(self.changes, 1):
            found.append(change.after(found[-1], at))
        return found

    @cached_property
    def snapshots(self) -> dict[int, Versions]:
        """What each possible snapshot shows, by the set of entries that it contains."""
        needs = [
            sum(1 << before for before in range(at) if self.changes[before].touches(change))
            for at, change in enumerate(self.changes)
        ]
        found = {}
        for shown in range(1 << len(self.changes)):
            entries = [at for at in range(len(self.changes)) if shown >> at & 1]
            if all(needs[at] & ~shown == 0 for at in entries):
                rows = self.first
                for at in entries:
                    rows = self.changes[at].after(rows, at + 1)
                found[shown] = rows
        return found


def logs(keys: int, transactions: int) -> Iterator[Log]:
    """All logs of so many transactions over so many keys."""
    for mask in range(1 << keys):
        first: Versions = tuple(0 if mask >> key & 1 else None for key in range(keys))
        yield from _longer(Log(first, ()), transactions)


def _longer(log: Log, more: int) -> Iterator[Log]:
    if not more:
        yield log
        return
    for change in _possible(log.tables[-1]):
        yield from _longer(Log(log.first, (*log.changes, change)), more - 1)


def _possible(rows: Versions) -> Iterator[Change]:
    keys = range(len(rows))
    there = [key for key in keys if rows[key] is not None]
    yield from (Change("c", key, key) for key in keys if rows[key] is None)
    for key in there:
        yield Change("u", key, key)
        yield Change("u", key, key, lacks=True)
        yield Change("d", key, key)
    for old, new in permutations(keys, 2):
        if rows[old] is not None and rows[new] is None:
            yield Change("u", old, new, lacks=True)
    if there:
        yield Change("t")

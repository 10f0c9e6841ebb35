"""Transactions that were streamed before a new snapshot shows them, with the keys they touched.

A transaction is in the log a moment before it is visible, and for ever before where a synchronous
standby is missing. A window that opens meanwhile does not contain it, although its entries have
gone by: their keys count as superseded from the start. Pure; saved with the state.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from engine.merge import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adapters.postgres.visibility import Visibility


@dataclass(frozen=True, slots=True)
class Touches:
    """What one transaction touched: merge keys by relation, and relations it truncated.

    `lacking` holds, of its rows that lack a value, the relation, the key before and the key after.
    """

    keys: dict[int, frozenset[bytes]] = field(default_factory=dict)
    truncated: frozenset[int] = frozenset()
    lacking: frozenset[tuple[int, bytes, bytes]] = frozenset()

    def __or__(self, other: Touches) -> Touches:
        oids = self.keys.keys() | other.keys.keys()
        nothing: frozenset[bytes] = frozenset()
        keys = {oid: self.keys.get(oid, nothing) | other.keys.get(oid, nothing) for oid in oids}
        return Touches(keys, self.truncated | other.truncated, self.lacking | other.lacking)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Transactions by their 32-bit id."""

    transactions: dict[int, Touches] = field(default_factory=dict)

    def seen(self, visibility: Visibility) -> Unsettled:
        """Less the transactions that a snapshot shows."""
        if not self.transactions:
            return self
        missing = visibility.missing(self.transactions)
        return Unsettled({xid: touches for xid, touches in self.transactions.items() if xid in missing})

    def add(self, xid: int, touches: Touches) -> Unsettled:
        """With what another part of a transaction touched."""
        return Unsettled({**self.transactions, xid: self.transactions.get(xid, Touches()) | touches})

    def add_keys(self, touched: pa.Table) -> Unsettled:
        """With rows `(oid, xid, key)`."""
        unsettled = self
        for oid, xid, key in zip(*(column.to_pylist() for column in touched.columns), strict=True):
            unsettled = unsettled.add(xid, Touches({oid: frozenset([key])}))
        return unsettled

    def add_lacking(self, lacking: pa.Table) -> Unsettled:
        """With rows `(oid, xid, key, old)` that lack a value."""
        unsettled = self
        for oid, xid, key, old in zip(*(column.to_pylist() for column in lacking.columns), strict=True):
            unsettled = unsettled.add(xid, Touches(lacking=frozenset([(oid, old, key)])))
        return unsettled

    def lacking_of(self, oid: int) -> tuple[tuple[bytes, bytes], ...]:
        """The keys before and after of a relation's rows that lack a value."""
        return tuple(
            (before, after)
            for touches in self.transactions.values()
            for relation, before, after in sorted(touches.lacking)
            if relation == oid
        )

    def keys_of(self, oid: int) -> pa.LargeBinaryArray:
        """The keys of a relation that any of the transactions touched."""
        found: set[bytes] = set()
        for touches in self.transactions.values():
            found |= touches.keys.get(oid, frozenset())
        return pa.array(sorted(found), KEY_TYPE)

    def truncated(self, oid: int) -> bool:
        """Whether any of the transactions emptied the relation."""
        return any(oid in touches.truncated for touches in self.transactions.values())

    @property
    def size(self) -> int:
        """How many keys are held."""
        return sum(len(keys) for one in self.transactions.values() for keys in one.keys.values())

    def to_json(self) -> list[dict[str, Any]]:
        """As it is saved; keys are bytes, so in base64."""
        return [
            {
                "xid": xid,
                "keys": {
                    str(oid): [b64encode(key).decode() for key in sorted(keys)]
                    for oid, keys in touches.keys.items()
                },
                "truncated": sorted(touches.truncated),
                "lacking": [
                    [oid, b64encode(before).decode(), b64encode(after).decode()]
                    for oid, before, after in sorted(touches.lacking)
                ],
            }
            for xid, touches in self.transactions.items()
        ]


def from_json(saved: Iterable[dict[str, Any]]) -> Unsettled:
    """Read what `to_json` gave."""
    return Unsettled(
        {
            int(one["xid"]): Touches(
                {int(oid): frozenset(b64decode(key) for key in keys) for oid, keys in one["keys"].items()},
                frozenset(one["truncated"]),
                frozenset(
                    (oid, b64decode(before), b64decode(after)) for oid, before, after in one["lacking"]
                ),
            )
            for one in saved
        }
    )


def unsettled_rows(touched: pa.Table, visibility: Visibility) -> pa.Table:
    """The rows `(oid, xid, key)` whose transactions the snapshot does not show."""
    if not touched.num_rows:
        return touched
    shown = visibility.shows(touched.column("xid").to_numpy())
    return touched.filter(pa.array(~shown))


def lacking_pairs(lacking: pa.Table, oid: int, visibility: Visibility) -> tuple[tuple[bytes, bytes], ...]:
    """The keys before and after of one relation's rows that lack a value, less what the window holds."""
    rows = lacking.filter(pa.array(lacking.column("oid").to_numpy() == oid))
    rows = unsettled_rows(rows, visibility)
    return tuple(zip(rows.column("old").to_pylist(), rows.column("key").to_pylist(), strict=True))


def moved_keys(lacking: pa.Table) -> dict[int, frozenset[bytes]]:
    """By relation, the new keys of rows that lack a value and had another key before."""
    found: dict[int, frozenset[bytes]] = {}
    for oid, _xid, key, old in zip(*(column.to_pylist() for column in lacking.columns), strict=True):
        if key != old:
            found[oid] = found.get(oid, frozenset()) | {key}
    return found


def superseding_rows(touched: pa.Table, oid: int, visibility: Visibility) -> pa.LargeBinaryArray:
    """The keys of one relation touched by transactions that the window's snapshot does not show."""
    mine = touched.column("oid").to_numpy() == oid
    if mine.any():
        mine &= ~visibility.shows(touched.column("xid").to_numpy())
    keys: pa.LargeBinaryArray = touched.column("key").filter(pa.array(mine)).combine_chunks()
    return keys

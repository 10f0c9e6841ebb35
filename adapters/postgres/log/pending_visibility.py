"""Transactions that are already streamed but not visible yet, with the keys that they touched. Pure.

The rule: a window starts with these keys superseded. A row that its snapshot reads under one of them is
dropped.

Why it holds: PostgreSQL writes a commit to the log first and makes the transaction visible to snapshots
afterwards. The gap is mostly microseconds. With a synchronous standby it lasts until the standby confirms,
and if that standby is missing, for ever. A window that opens inside the gap reads the rows as they were
*before* the transaction. Its entries were streamed before the window opened and do not come again, so no
entry would supersede those rows, and an old row would follow a newer change.

    log         ──── UPDATE k ── COMMIT 7 ───────────────────────────────►   sent to the sink at once
    pending               {}            { 7: k }                  {}
    snapshots   ────── 7 not visible ──────────────────┼── 7 visible ────►
                                          ▲            ▲             ▲
                                    window A           │       window B
                        reads the old row of k;        │       reads the new row of k;
                        k is superseded from the       │       nothing to drop
                        start, the row is dropped      └ the commit becomes visible; 7 is forgotten

A transaction is added when it is streamed and the server's current snapshot does not show it yet. It is
removed once a later snapshot shows it, because every snapshot after that one shows it, too. The set is saved
with the state, since a restart does not stream these entries again.

Memory is bounded by KEPT_KEYS for each transaction and relation. Above that no keys are kept, and no window
may open on the relation until the transaction is visible.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from adapters.postgres.log.unseen_rows import balances_of, pairs_of
from engine.saved import read_integer
from engine.snapshot import copies
from engine.snapshot.merge_key import KEY_TYPE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from adapters.postgres.server.visibility import Visibility

KEPT_KEYS = 100_000
"""How many keys, and how many rows that lack a value, are kept for one transaction and relation."""
Pairs: TypeAlias = frozenset[tuple[bytes | None, bytes]]
"""The old and new keys of rows that lack a value. An old key of None: the row came into the row filter."""


@dataclass(frozen=True, slots=True)
class Touches:
    """What one transaction touched, by relation: its distinct merge keys, and the relations it truncated.

    A row lacks a value where the log left an unchanged large value out: `lacking` has these rows. `copies`
    has the balances of rows without a key. `whole` are the relations of which it touched too much to keep
    anything. `serial` numbers the transactions that have balances, in log order.
    """

    keys: Mapping[int, pa.LargeBinaryArray] = field(default_factory=dict)
    truncated: frozenset[int] = frozenset()
    lacking: Mapping[int, Pairs] = field(default_factory=dict)
    whole: frozenset[int] = frozenset()
    copies: Mapping[int, pa.Table] = field(default_factory=dict)
    serial: int = 0

    @property
    def nothing(self) -> bool:
        """Whether it touched nothing."""
        return not (self.keys or self.truncated or self.lacking or self.whole or self.copies)

    def __or__(self, other: Touches) -> Touches:
        """Add what came later."""
        whole = self.whole | other.whole
        keys, lacking, counted = dict(self.keys), dict(self.lacking), dict(self.copies)
        for oid, more in other.keys.items():
            keys[oid] = _union([keys[oid], more]) if oid in keys else more
        for oid, pairs in other.lacking.items():
            lacking[oid] = lacking.get(oid, frozenset()) | pairs
        for oid, balances in other.copies.items():
            counted[oid] = copies.sum_balances([counted[oid], balances]) if oid in counted else balances
        whole |= {
            oid
            for by_oid in (keys, lacking, counted)
            for oid, rows in by_oid.items()
            if len(rows) > KEPT_KEYS
        }
        return Touches(
            {oid: array for oid, array in keys.items() if oid not in whole},
            self.truncated | other.truncated,
            {oid: pairs for oid, pairs in lacking.items() if oid not in whole},
            whole,
            {oid: balances for oid, balances in counted.items() if oid not in whole},
            self.serial or other.serial,
        )


@dataclass(frozen=True, slots=True)
class PendingVisibility:
    """Pending transactions, by 32-bit id.

    `others` have only inserted rows, or touched no captured table: they supersede nothing. But a verification
    must know that no window shows them yet.
    """

    transactions: Mapping[int, Touches] = field(default_factory=dict)
    others: frozenset[int] = frozenset()

    @property
    def any(self) -> bool:
        """Whether any transaction is pending."""
        return bool(self.transactions or self.others)

    def without_visible(self, visibility: Visibility) -> PendingVisibility:
        """Remove the transactions that a snapshot shows."""
        if not self.any:
            return self
        missing = visibility.missing((*self.transactions, *self.others))
        left = {xid: touches for xid, touches in self.transactions.items() if xid in missing}
        return PendingVisibility(left, self.others & missing)

    def add(self, more: Mapping[int, Touches]) -> PendingVisibility:
        """Add what more entries of transactions touched."""
        if not more:
            return self
        held = self.transactions
        added = {xid: held.get(xid, Touches()) | touches for xid, touches in more.items()}
        return PendingVisibility({**held, **added}, self.others - more.keys())

    def add_others(self, xids: frozenset[int]) -> PendingVisibility:
        """Add the transactions of these that have touched nothing."""
        others = self.others | (xids - self.transactions.keys())
        return self if others == self.others else PendingVisibility(self.transactions, others)

    def add_keys(self, touched: pa.Table) -> PendingVisibility:
        """Add rows `(oid, xid, key)`."""
        found: dict[int, dict[int, pa.LargeBinaryArray]] = {}
        for xid, oid, rows in _grouped(touched):
            found.setdefault(xid, {})[oid] = rows.column("key").unique()
        return self.add({xid: Touches(keys) for xid, keys in found.items()})

    def add_lacking(self, lacking: pa.Table) -> PendingVisibility:
        """Add rows `(oid, xid, key, old)` that lack a value."""
        found: dict[int, dict[int, Pairs]] = {}
        for xid, oid, rows in _grouped(lacking):
            found.setdefault(xid, {})[oid] = frozenset(pairs_of(rows))
        return self.add({xid: Touches(lacking=pairs) for xid, pairs in found.items()})

    def add_copies(self, counted: pa.Table) -> PendingVisibility:
        """Add rows of COUNTED, which are in log order."""
        if not counted.num_rows:
            return self
        found: dict[int, dict[int, pa.Table]] = {}
        for xid, oid, rows in _grouped(counted):
            found.setdefault(xid, {})[oid] = copies.sum_balances([balances_of(rows)])
        last = max((touches.serial for touches in self.transactions.values()), default=0)
        order = enumerate(counted.column("xid").unique().to_pylist(), last + 1)
        return self.add({xid: Touches(copies=found[xid], serial=serial) for serial, xid in order})

    def add_truncated(self, truncated: Iterable[tuple[int, int]]) -> PendingVisibility:
        """Add truncated relations: pairs `(oid, xid)`."""
        found: dict[int, frozenset[int]] = {}
        for oid, xid in truncated:
            found[xid] = found.get(xid, frozenset()) | {oid}
        return self.add({xid: Touches(truncated=oids) for xid, oids in found.items()})

    def add_whole(self, xids: Iterable[int], oids: Iterable[int]) -> PendingVisibility:
        """Add relations for which it is not known what these transactions touched."""
        touched = Touches(whole=frozenset(oids))
        return self.add(dict.fromkeys(xids, touched))

    def moved_keys(self, untold: Collection[int] = ()) -> dict[int, Pairs]:
        """The old and new keys, by relation, of rows that lack a value and may have moved.

        Rows of `untold` relations may have moved even where both keys are equal.
        """
        found: dict[int, Pairs] = {}
        for touches in self.transactions.values():
            for oid, pairs in touches.lacking.items():
                found[oid] = found.get(oid, frozenset()) | moved_pairs(pairs, untold=oid in untold)
        return found

    def lacking_of(self, oid: int) -> tuple[tuple[bytes | None, bytes], ...]:
        """The old and new keys of a relation's rows that lack a value."""
        return tuple(
            pair for touches in self.transactions.values() for pair in _sorted(touches.lacking.get(oid, ()))
        )

    def keys_of(self, oid: int) -> pa.LargeBinaryArray:
        """The distinct keys of a relation that any of the transactions touched."""
        return _union([touches.keys[oid] for touches in self.transactions.values() if oid in touches.keys])

    def copies_of(self, oid: int) -> pa.Table:
        """The balances of a relation's rows without a key, over all transactions in log order."""
        found = sorted(self.transactions.values(), key=lambda touches: touches.serial)
        return copies.sum_balances([touches.copies[oid] for touches in found if oid in touches.copies])

    def truncated(self, oid: int) -> bool:
        """Whether any of the transactions truncated the relation."""
        return any(oid in touches.truncated for touches in self.transactions.values())

    def everything_of(self, oid: int) -> bool:
        """Whether any of the transactions touched too much of the relation for its keys to be kept."""
        return any(oid in touches.whole for touches in self.transactions.values())

    @property
    def size(self) -> int:
        """The number of keys held."""
        return sum(
            len(kept)
            for touches in self.transactions.values()
            for kept in (*touches.keys.values(), *touches.copies.values())
        )

    def to_json(self) -> list[dict[str, Any]]:
        """The form in the saved state; keys are in base64."""
        return [
            {
                "xid": xid,
                "keys": {str(oid): _packed(keys) for oid, keys in touches.keys.items()},
                "truncated": sorted(touches.truncated),
                "lacking": {
                    str(oid): [[_key_out(key) for key in pair] for pair in _sorted(pairs)]
                    for oid, pairs in touches.lacking.items()
                },
                "whole": sorted(touches.whole),
                "copies": {
                    str(oid): {
                        **_packed(balances.column("key").combine_chunks()),
                        "net": balances.column("net").to_pylist(),
                        "low": balances.column("low").to_pylist(),
                    }
                    for oid, balances in touches.copies.items()
                },
                "serial": touches.serial,
            }
            for xid, touches in (
                *self.transactions.items(),
                *((xid, Touches()) for xid in sorted(self.others)),
            )
        ]


def from_json(saved: Iterable[dict[str, Any]]) -> PendingVisibility:
    """Read what `to_json` wrote. Raises LookupError, TypeError or ValueError for anything else."""
    found = {read_integer(transaction["xid"]): _touches_in(transaction) for transaction in saved}
    others = frozenset(xid for xid, touches in found.items() if touches.nothing)
    return PendingVisibility({xid: found[xid] for xid in found if xid not in others}, others)


def _touches_in(transaction: dict[str, Any]) -> Touches:
    return Touches(
        {int(oid): _unpacked(**keys) for oid, keys in transaction["keys"].items()},
        frozenset(map(read_integer, transaction["truncated"])),
        {
            int(oid): frozenset((_key_in(before), b64decode(after)) for before, after in pairs)
            for oid, pairs in transaction["lacking"].items()
        },
        frozenset(map(read_integer, transaction["whole"])),
        # States of older versions have none.
        {int(oid): _balances_in(**balances) for oid, balances in transaction.get("copies", {}).items()},
        read_integer(transaction.get("serial", 0)),
    )


def _key_out(key: bytes | None) -> str | None:
    return None if key is None else b64encode(key).decode()


def _key_in(key: str | None) -> bytes | None:
    return None if key is None else b64decode(key)


def _packed(keys: pa.LargeBinaryArray) -> dict[str, str]:
    """All keys as two base64 texts: their lengths (four bytes each, little-endian), and their bytes."""
    if not len(keys):
        return {"lengths": "", "bytes": ""}
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int64)[keys.offset : keys.offset + len(keys) + 1]
    lengths = np.diff(ends).astype("<i4")
    together = data[int(ends[0]) : int(ends[-1])]
    return {"lengths": b64encode(lengths.tobytes()).decode(), "bytes": b64encode(together).decode()}


def _balances_in(net: list[int], low: list[int], **keys: str) -> pa.Table:
    return pa.table([_unpacked(**keys), pa.array(net), pa.array(low)], schema=copies.BALANCES)


def _unpacked(lengths: str, bytes: str) -> pa.LargeBinaryArray:  # noqa: A002  its name in the saved state
    """Undo `_packed`."""
    each, together = np.frombuffer(b64decode(lengths), "<i4"), b64decode(bytes)
    if (each < 0).any() or each.sum(dtype=np.int64) != len(together):
        raise ValueError("lengths that are not those of the keys")
    offsets = np.cumsum([0, *each], dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(together)]
    return pa.LargeBinaryArray.from_buffers(KEY_TYPE, len(offsets) - 1, buffers)


def _union(arrays: list[pa.LargeBinaryArray]) -> pa.LargeBinaryArray:
    return pa.chunked_array(arrays, KEY_TYPE).unique()


def _grouped(rows: pa.Table) -> Iterator[tuple[int, int, pa.Table]]:
    """The rows of each transaction and relation, as `(xid, oid, rows)`."""
    if not rows.num_rows:
        return
    oids, xids = rows.column("oid").to_numpy(), rows.column("xid").to_numpy()
    order = np.lexsort((oids, xids))
    oids, xids, rows = oids[order], xids[order], rows.take(pa.array(order))
    edges = np.flatnonzero((np.diff(oids) != 0) | (np.diff(xids) != 0)) + 1
    for start, end in pairwise([0, *edges.tolist(), len(order)]):
        if end > start:
            yield int(xids[start]), int(oids[start]), rows.slice(start, end - start)


def _sorted(pairs: Iterable[tuple[bytes | None, bytes]]) -> list[tuple[bytes | None, bytes]]:
    return sorted(pairs, key=lambda pair: (pair[0] or b"", pair[1]))


def moved_pairs(pairs: Iterable[tuple[bytes | None, bytes]], *, untold: bool) -> Pairs:
    """Those of the old and new keys whose row may have moved: all where keys don't tell (`untold`)."""
    return frozenset(pair for pair in pairs if untold or pair[0] != pair[1])

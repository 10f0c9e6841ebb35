"""Transaction metadata: BEGIN and END events, and each event's transaction block.

A transaction's id is its commit LSN. The change tables do not show that a transaction has ended. Its END is
emitted with the first event of the next transaction and has that event's time, as in Debezium 2.1.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from adapters.source.log.open_transaction import OpenTransaction
from engine.events.names import transaction_topic
from engine.events.record.assemble import EventGroup
from engine.events.record.envelope import TRANSACTION_KEY, TRANSACTION_VALUE
from engine.events.record.schema import with_schema
from engine.events.record.transactions import ended, number_events
from engine.events.values.text import Ints, Text, digits, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.record.drafts import Draft
    from engine.events.settings import EventSettings

_END_TURN, _BEGIN_TURN = -2, -1
"""Sort before the event that they come with."""
_BEGUN = '"event_count":null,"data_collections":null'


@dataclass(frozen=True, slots=True)
class Commits:
    """Entries in log order: the commit LSN of each, its time, and the number of its transaction.

    Number 0 is the transaction that was open before the first entry.
    """

    lsns: Text
    times_ms: Ints
    ordinals: Ints

    @property
    def count(self) -> int:
        """The number of transactions.

        One is counted for the transaction open before, even if there is none.
        """
        return int(self.ordinals[-1]) + 1 if len(self.ordinals) else 1


def commits(lsns: Text, times_ms: Ints, starts: Ints, before: OpenTransaction | None) -> Commits:
    """The transactions of entries. `starts` are the entries where another commit begins."""
    marks = np.zeros(len(times_ms), np.int64)
    marks[starts] = 1
    if len(marks):
        marks[0] = 0 if before is not None and lsns[0].as_py() == before.id else 1
    return Commits(lsns, times_ms, np.cumsum(marks))


@dataclass(frozen=True, slots=True)
class TransactionEvents:
    """Transaction metadata: blocks for each draft's events, BEGIN and END events, the open transaction."""

    blocks: tuple[Text, ...]
    groups: tuple[EventGroup, ...]
    open: OpenTransaction | None


def transaction_events(
    drafts: Sequence[Draft], line: Commits, before: OpenTransaction | None, settings: EventSettings
) -> TransactionEvents:
    """Count the drafts' events and build their transactions' blocks and events."""
    orders, counts = number_events(
        drafts, line.ordinals, line.count, before.collections if before is not None else ()
    )
    blocks = tuple(
        _blocks(line.lsns.take(pa.array(draft.messages)), total, own)
        for draft, (total, own) in zip(drafts, orders, strict=True)
    )
    begins = _firsts(drafts, line)
    # Each transaction with events, after the one that was open. The next one's first event ends it.
    met = [OpenTransaction(line.lsns[at].as_py(), counts[line.ordinals[at]]) for at in begins]
    still = [] if before is None else [OpenTransaction(before.id, counts[0])]
    chain = [*still, *met]
    ends = begins[1:] if not still else begins
    groups = (
        _group("END", ends, [transaction for transaction, _next in pairwise(chain)], line, settings),
        _group("BEGIN", begins, met, line, settings),
    )
    return TransactionEvents(blocks, groups, chain[-1] if chain else None)


def _firsts(drafts: Sequence[Draft], line: Commits) -> Ints:
    """The entry of each transaction's first event, in order, for transactions that begin here."""
    if not drafts:
        return np.zeros(0, np.int64)
    entries = np.unique(np.concatenate([draft.messages for draft in drafts]))
    ordinals = line.ordinals[entries]
    found: Ints = entries[np.flatnonzero(np.diff(ordinals, prepend=0))]
    return found


def _blocks(lsns: Text, total: Ints, own: Ints) -> Text:
    parts = ['{"id":"', lsns, '","total_order":', digits(pa.array(total))]
    return join([*parts, ',"data_collection_order":', digits(pa.array(own)), "}"], len(total))


def _group(
    status: str, entries: Ints, named: Sequence[OpenTransaction], line: Commits, settings: EventSettings
) -> EventGroup:
    rows = len(entries)
    ids = pa.array([transaction.id for transaction in named], pa.large_string())
    middle = [ended(transaction.collections) if status == "END" else _BEGUN for transaction in named]
    before, after = with_schema(TRANSACTION_KEY, enabled=settings.key_schemas)
    key = join([f'{before}{{"id":"', ids, f'"}}{after}'], rows)
    before, after = with_schema(TRANSACTION_VALUE, enabled=settings.value_schemas)
    times = digits(pa.array(line.times_ms[entries]))
    head = f'{before}{{"status":"{status}","id":"'
    inner = pa.array(middle, pa.large_string())
    value = join([head, ids, '",', inner, ',"ts_ms":', times, f"}}{after}"], rows)
    turn = _END_TURN if status == "END" else _BEGIN_TURN
    return EventGroup(transaction_topic(settings), entries, turn, key, value)

"""Transaction metadata: BEGIN and END events, and each event's transaction block.

Events are counted in the order of the log, per transaction and per collection; tombstones, logical
messages and skipped operations are not. A block's id is the transaction's with the event's own LSN,
as Debezium's is. Works on a whole part; the counters of the open transaction are handed on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.events.assemble import EventGroup
from engine.events.connect import with_schema
from engine.events.envelope import TRANSACTION_KEY, TRANSACTION_VALUE
from engine.events.java import hash_order
from engine.events.names import transaction_topic
from engine.events.text import Ints, Text, digits, join, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.postgres.changes import Draft
    from adapters.postgres.pgoutput import Messages
    from adapters.postgres.timeline import Timeline, TransactionContext
    from engine.events.settings import EventSettings


def number_events(
    drafts: Sequence[Draft], line: Timeline, context: TransactionContext
) -> tuple[list[tuple[Ints, Ints]], list[list[tuple[str, int]]]]:
    """For each draft the total and the collection's order of its events, and each transaction's counts.

    Counts are by ordinal, collections in the order of their first event; those of the open
    transaction include what `context` says came before.
    """
    if not drafts:
        return [], _counts([name for name, _ in context.collections], _joined([]), len(line.xids), context)
    names = list(
        dict.fromkeys([name for name, _ in context.collections] + [str(d.codec.collection) for d in drafts])
    )
    which = _joined([np.full(len(d.messages), names.index(str(d.codec.collection))) for d in drafts])
    numbers = _joined([d.messages for d in drafts])
    turns = _joined([np.full(len(d.messages), d.turn) for d in drafts])
    ordinals = line.ordinal[numbers]
    order = np.lexsort((turns, numbers))
    total = _ranks(ordinals, order)
    total[ordinals == 0] += context.events
    pairs = ordinals * len(names) + which
    own = _ranks(pairs, order)
    before = dict(context.collections)
    for place, name in enumerate(names):
        own[(ordinals == 0) & (which == place)] += before.get(name, 0)
    counts = _counts(names, pairs[order], len(line.xids), context)
    cuts = np.cumsum([len(d.messages) for d in drafts])[:-1]
    return list(zip(np.split(total, cuts), np.split(own, cuts), strict=True)), counts


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def _ranks(groups: Ints, order: Ints) -> Ints:
    """1, 2, 3 … within each group, along `order`."""
    ranks = np.zeros(len(groups), np.int64)
    by_group = order[np.argsort(groups[order], kind="stable")]
    sorted_groups = groups[by_group]
    firsts = np.flatnonzero(np.diff(sorted_groups, prepend=-1))
    sizes = np.diff(np.append(firsts, len(sorted_groups)))
    ranks[by_group] = np.arange(len(groups)) - np.repeat(firsts, sizes) + 1
    return ranks


def _counts(
    names: list[str], pairs: Ints, transactions: int, context: TransactionContext
) -> list[list[tuple[str, int]]]:
    counts: list[dict[str, int]] = [{} for _ in range(transactions)]
    counts[0].update(context.collections)
    found, firsts, sizes = np.unique(pairs, return_index=True, return_counts=True)
    for at in np.argsort(firsts):
        ordinal, place = divmod(int(found[at]), len(names))
        counts[ordinal][names[place]] = counts[ordinal].get(names[place], 0) + int(sizes[at])
    return [list(one.items()) for one in counts]


def blocks(xids: Ints, lsns: Ints, total: Ints, own: Ints) -> Text:
    """The `transaction` member of events."""
    parts = ['{"id":"', _text(xids), ":", _text(lsns), '","total_order":', _text(total)]
    return join([*parts, ',"data_collection_order":', _text(own), "}"], len(xids))


def boundaries(
    messages: Messages, line: Timeline, counts: list[list[tuple[str, int]]], settings: EventSettings
) -> list[EventGroup]:
    """The BEGIN and END events of the part."""
    begins = np.flatnonzero(messages.kinds == ord("B"))
    ends = np.flatnonzero(messages.kinds == ord("C"))
    begun = ['"event_count":null,"data_collections":null' for _ in begins]
    ended = [_ended(counts[ordinal]) for ordinal in line.ordinal[ends]]
    lsns = messages.int64(messages.starts[ends] + 10)
    return [
        _group("BEGIN", begins, messages.lsns[begins], line, begun, settings),
        _group("END", ends, lsns, line, ended, settings),
    ]


def _group(
    status: str, numbers: Ints, lsns: Ints, line: Timeline, middle: list[str], settings: EventSettings
) -> EventGroup:
    ordinals = line.ordinal[numbers]
    rows = len(numbers)
    id_text = join([_text(line.xids[ordinals]), ":", _text(lsns)], rows)
    before, after = with_schema(TRANSACTION_KEY, enabled=settings.key_schemas)
    key = join([f'{before}{{"id":"', id_text, f'"}}{after}'], rows)
    before, after = with_schema(TRANSACTION_VALUE, enabled=settings.value_schemas)
    head = f'{before}{{"status":"{status}","id":"'
    inner = pa.array(middle, pa.large_string())
    value = join(
        [head, id_text, '",', inner, ',"ts_ms":', _text(line.times_ms[ordinals]), f"}}{after}"], rows
    )
    return EventGroup(transaction_topic(settings), numbers, 0, key, value)


def _ended(counts: list[tuple[str, int]]) -> str:
    shown = ",".join(
        f'{{"data_collection":{quote(name)},"event_count":{count}}}'
        for name, count in hash_order(counts, lambda c: c[0])
    )
    return f'"event_count":{sum(count for _, count in counts)},"data_collections":[{shown}]'


def with_counts(end: TransactionContext, counts: list[list[tuple[str, int]]]) -> TransactionContext:
    """The context after the part with the open transaction's counters."""
    if end.xid is None:
        return end
    last = tuple(counts[-1])
    return replace(end, events=sum(count for _, count in last), collections=last)


def _text(numbers: Ints) -> Text:
    return digits(pa.array(numbers))

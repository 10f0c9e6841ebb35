"""Transaction metadata, shared by the sources: counting events, and the contents of END events.

Events are counted in log order, per transaction and per collection. Tombstones and skipped operations are not
counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine.events.values.java import hash_order
from engine.events.values.json_text import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.record.drafts import Draft
    from engine.events.values.text import Ints

Counts: TypeAlias = "tuple[tuple[str, int], ...]"
"""The number of events per collection, in the order of their first events."""


def number_events(
    drafts: Sequence[Draft], ordinal: Ints, transactions: int, before: Counts = ()
) -> tuple[list[tuple[Ints, Ints]], list[Counts]]:
    """For each draft, its events' total order and collection order; and the counts of each transaction.

    `ordinal` gives, by message, the number of its transaction, less than `transactions`. Number 0 is the
    transaction left open before, with the counts in `before`. The counts are listed by ordinal, with
    collections in the order of their first events.
    """
    open_counts = dict(before)
    if not drafts:
        return [], _counts(list(open_counts), _joined([]), transactions, before)
    names = list(dict.fromkeys([*open_counts, *(str(d.codec.collection) for d in drafts)]))
    which = _joined([np.full(len(d.messages), names.index(str(d.codec.collection))) for d in drafts])
    numbers = _joined([d.messages for d in drafts])
    turns = _joined([np.full(len(d.messages), d.turn) for d in drafts])
    ordinals = ordinal[numbers]
    order = np.lexsort((turns, numbers))
    total = _ranks(ordinals, order)
    total[ordinals == 0] += sum(open_counts.values())
    pairs = ordinals * len(names) + which
    own = _ranks(pairs, order)
    for place, name in enumerate(names):
        own[(ordinals == 0) & (which == place)] += open_counts.get(name, 0)
    counts = _counts(names, pairs[order], transactions, before)
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


def _counts(names: list[str], pairs: Ints, transactions: int, before: Counts) -> list[Counts]:
    counts: list[dict[str, int]] = [{} for _ in range(transactions)]
    counts[0].update(before)
    found, firsts, sizes = np.unique(pairs, return_index=True, return_counts=True)
    for at in np.argsort(firsts):
        ordinal, place = divmod(int(found[at]), len(names))
        counts[ordinal][names[place]] = counts[ordinal].get(names[place], 0) + int(sizes[at])
    return [tuple(by_collection.items()) for by_collection in counts]


def ended(counts: Counts) -> str:
    """The members of an END event that hold the counts."""
    shown = ",".join(
        f'{{"data_collection":{quote(name)},"event_count":{count}}}'
        for name, count in hash_order(counts, lambda c: c[0])
    )
    return f'"event_count":{sum(count for _, count in counts)},"data_collections":[{shown}]'

"""What decoded parts of the log mean for windows: keys that supersede, hidden rows, moved rows.

Pure. Visibility decides which transactions count (`unseen_rows.py` has the single steps). `ids` are
the names of the relations in question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.postgres.log import unseen_rows
from engine.snapshot.merge import SupersededKeys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.postgres.events.decode import DecodedPart
    from adapters.postgres.log.pending_visibility import PendingVisibility
    from adapters.postgres.server.visibility import Visibility
    from engine.model import CollectionId

    Ids = Mapping[int, CollectionId]
    Pairs = frozenset[tuple[bytes | None, bytes]]


def of_entries(decoded: Sequence[DecodedPart], shown: Visibility, ids: Ids) -> SupersededKeys:
    """What the entries supersede in a window whose snapshot shows `shown`."""
    superseded = SupersededKeys()
    for part in decoded:
        superseded |= _by_part(part, shown, ids)
    return superseded


def _by_part(decoded: DecodedPart, shown: Visibility, ids: Ids) -> SupersededKeys:
    if not (len(decoded.touched) or len(decoded.incomplete) or len(decoded.copies) or decoded.truncated):
        return SupersededKeys()
    newer = shown.missing({xid for oid, xid in decoded.truncated if oid in ids})
    return SupersededKeys(
        {
            name: (keys,)
            for oid, name in ids.items()
            if len(keys := unseen_rows.superseding_rows(decoded.touched, oid, shown))
        },
        frozenset(ids[oid] for oid, xid in decoded.truncated if oid in ids and xid in newer),
        {
            name: pairs
            for oid, name in ids.items()
            if (pairs := unseen_rows.lacking_pairs(decoded.incomplete, oid, shown))
        },
        {
            name: (balances,)
            for oid, name in ids.items()
            if (balances := unseen_rows.balances(decoded.copies, oid, shown)).num_rows
        },
    )


def of_pending(waiting: PendingVisibility, ids: Ids) -> SupersededKeys:
    """What already streamed transactions supersede in a window that opens now and does not show them."""
    return SupersededKeys(
        {name: (keys,) for oid, name in ids.items() if len(keys := waiting.keys_of(oid))},
        frozenset(name for oid, name in ids.items() if waiting.truncated(oid)),
        {name: pairs for oid, name in ids.items() if (pairs := waiting.lacking_of(oid))},
        {name: (balances,) for oid, name in ids.items() if (balances := waiting.copies_of(oid)).num_rows},
    )


def update_pending(
    waiting: PendingVisibility, decoded: Sequence[DecodedPart], visibility: Visibility
) -> PendingVisibility:
    """Forget transactions that `visibility` shows; add what the entries touched in those it does not."""
    waiting = waiting.without_visible(visibility)
    for part in decoded:
        waiting = waiting.add_keys(unseen_rows.pending_rows(part.touched, visibility))
        waiting = waiting.add_lacking(unseen_rows.pending_rows(part.incomplete, visibility))
        waiting = waiting.add_copies(unseen_rows.pending_rows(part.copies, visibility))
        if part.truncated:
            hidden = visibility.missing({xid for _oid, xid in part.truncated})
            waiting = waiting.add_truncated((oid, xid) for oid, xid in part.truncated if xid in hidden)
        waiting = waiting.add_others(visibility.missing(part.xids.to_numpy().tolist()))
    return waiting


def moved_keys(decoded: Sequence[DecodedPart], ids: Ids) -> dict[CollectionId, Pairs]:
    """The old and new keys of rows that lack a value and may have moved in a table being read."""
    found: dict[CollectionId, Pairs] = {}
    for part in decoded:
        for oid, keys in unseen_rows.moved_keys(part.incomplete).items():
            found[ids[oid]] = found.get(ids[oid], frozenset()) | keys
    return found

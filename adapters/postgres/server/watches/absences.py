"""Finds tables whose changes were in no log for a while although their entry in the publication is the same.

    what happened                                          what the catalog shows
    ─────────────────────────────────────────────────────  ────────────────────────────────────────────────
    a partition was detached, and attached again           its link to the parent is younger than the look
    a partition with rows was attached to a captured root  the same, and it was not created as a partition
    a table was renamed, and renamed back                  its row type is younger than the look
    a table was dropped, and another one has its name      the name belongs to another oid

Younger than the last look is what a transaction wrote that the snapshot of that look does not show. Rows of
the catalog keep the ids of their transactions longer than ids can be compared. So an id counts only if the
snapshot of this look shows it: an ancient one would have to lie between the two. All pure.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from adapters.postgres.server.visibility import FIRST_XID, Visibility
from engine.isolation.incomplete import Cause
from engine.printable import first_named

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from adapters.postgres.server.questions.publications import UserTable, UserTables
    from adapters.postgres.server.watches.membership import Members
    from engine.model import CollectionId


def reattached(
    before: Members, now: Members, tables: UserTables, inheriting: Callable[[], Collection[int]]
) -> dict[int, str]:
    """Why members may lack changes since `before`, by oid: they were no partitions for a while.

    `inheriting` returns the members that only an entry of an ancestor publishes.
    """
    links = {oid: [part.linked for part in tables.chain(oid)] for oid in before.entries if oid in now.entries}
    young = _younger(before, tables, chain.from_iterable(links.values()))
    moved = {oid for oid, linked in links.items() if not young.isdisjoint(linked)}
    if moved:
        moved &= set(inheriting())
    return dict.fromkeys(moved, "it was detached from the table that is published, and attached again")


def renamed(known: UserTables, members: Collection[int], tables: UserTables) -> dict[int, str]:
    """Why `members` may lack changes since they were `known`, by oid: they had other names for a while.

    A new owner writes the row type anew, too.
    """
    found: dict[int, str] = {}
    for oid in members:
        was, now = known.by_oid.get(oid), tables.by_oid.get(oid)
        if was is None or now is None or was.typed == now.typed:
            continue
        if was.id == now.id and was.owner == now.owner:
            found[oid] = "it was renamed, and renamed back"
    return found


def attached(
    before: Members, now: Members, tables: UserTables, is_empty: Callable[[int], bool]
) -> dict[int, str]:
    """Why roots that are published for their partitions lack rows, by oid: some came with rows."""
    partitions = [part for part in tables.by_oid.values() if part.parent and not part.born_as_partition]
    young = _younger(before, tables, (part.linked for part in partitions))
    came: dict[int, list[UserTable]] = {}
    for part in partitions:
        if part.linked in young and part.oid not in now.entries:
            _self, *above = tables.chain(part.oid)
            for root in above:
                if root.oid in before.entries and root.oid in now.entries:
                    came.setdefault(root.oid, []).append(part)
    found: dict[int, str] = {}
    for oid, parts in came.items():
        if filled := [part.id for part in parts if not is_empty(part.oid)]:
            found[oid] = f"partitions were attached whose rows are not in the log: {first_named(filled)}"
    return found


def other_tables(
    before: Members, now: Members, tables: UserTables, publication: str
) -> dict[CollectionId, tuple[Cause, str]]:
    """What names of members lack that belong to other tables now, with the reason."""
    by_name = {table.id: oid for oid, table in tables.by_oid.items()}
    found: dict[CollectionId, tuple[Cause, str]] = {}
    for oid, name in before.names.items():
        other = by_name.get(name, oid)
        if other == oid:
            continue
        if other not in now.entries:
            found[name] = (
                Cause.GAP,
                f"another table has its name, and publication {publication!r} has not that one",
            )
        elif other in before.entries:
            found[name] = Cause.GAP, "another table has its name, whose rows went under another name before"
        else:
            found[name] = (
                Cause.DELETIONS,
                "another table has its name; no delete tells of the older one's rows",
            )
    return found


def _younger(before: Members, now: UserTables, xids: Iterable[int]) -> frozenset[int]:
    """Those of these transactions that have become visible since `before`."""
    missing = Visibility.parse(before.visible).missing({xid for xid in xids if xid >= FIRST_XID})
    return missing - Visibility.parse(now.visible).missing(missing)

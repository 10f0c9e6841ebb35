"""The scope of a snapshot on SQL Server: the server reads the signal's keys as its types, and orders them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import SignalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.source.signals.scopes import ScopeTexts
    from adapters.sqlserver.server.table_probes import TableProbes
    from adapters.sqlserver.snapshot.eligibility import ReadTable
    from engine.model import Key, Scope
    from engine.snapshot.extent import ScopeExtent
    from engine.snapshot.scope import RankedKey, ScopedCollection

_AT_ONCE = 1_000
"""How many keys one statement has the server read; all bounds of a signal's ranges fit."""


def scoped(
    scope: Scope, texts: ScopeTexts, read: ReadTable, probes: TableProbes, within: ScopedCollection
) -> ScopeExtent:
    """The part of a table that a signal asks for. Raises SignalError if the server can't read its keys.

    `texts` is the scope as text.
    """
    if texts.keys:
        batches = (texts.keys[at : at + _AT_ONCE] for at in range(0, len(texts.keys), _AT_ONCE))
        known = dict.fromkeys(ranked.key for batch in batches for ranked in _ranked(read, probes, batch))
        return within.at(tuple(known))
    ranked = _ranked(read, probes, texts.bounds) if texts.bounds else []
    return within.inside(scope, ranked)


def _ranked(read: ReadTable, probes: TableProbes, keys: Sequence[Key]) -> list[RankedKey]:
    found = probes.ranked(read, keys)
    if isinstance(found, str):
        raise SignalError(
            f"the server can't read the signal's keys as values of its key columns: {found}",
            where=read.table.id,
            hint=f"they are {', '.join(column.type for column in read.keyset.columns)}",
        )
    return found

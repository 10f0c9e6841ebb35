"""The scope of a snapshot on PostgreSQL: the server reads the signal's keys as its types, and orders them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adapters.postgres.server.sql import quote_ident
from adapters.postgres.snapshot.keyset import key_rows, numbered
from engine.errors import SignalError
from engine.snapshot.scope import RankedKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adapters.postgres.server.questions.probes import TableProbes
    from adapters.postgres.snapshot.eligibility import ReadTable
    from adapters.source.signals.scopes import ScopeTexts
    from engine.model import Key, Scope
    from engine.snapshot.extent import ScopeExtent
    from engine.snapshot.scope import ScopedCollection

_AT_ONCE = 2_000
"""How many keys one query has the server read; all bounds of a signal's ranges must fit."""
_LONGEST, _MOST = 10_000, 4 << 20
"""The most characters of a value of a key, and of all keys of a signal, as the server writes them.

It writes `1e131071` with all its digits.
"""


def scoped(
    scope: Scope, texts: ScopeTexts, read: ReadTable, probes: TableProbes, within: ScopedCollection
) -> ScopeExtent:
    """The part of a table that a signal asks for. Raises SignalError if the server can't read its keys.

    `texts` is the scope as text.
    """
    if texts.keys:
        known: dict[Key, None] = {}
        characters = 0
        for at in range(0, len(texts.keys), _AT_ONCE):
            batch = [ranked.key for ranked in _ranked(read, probes, texts.keys[at : at + _AT_ONCE])]
            characters += sum(len(text) for key in batch for text in key if text)
            if characters > _MOST:
                raise _too_long(read)
            known |= dict.fromkeys(batch)
        return within.at(tuple(known))
    ranked = _ranked(read, probes, texts.bounds) if texts.bounds else []
    part = within.inside(scope, ranked)
    if within.span is not None or not part.ranges:
        return part
    where = " OR ".join(f"({read.keyset.inside(part)})" for part in part.ranges)
    return replace(part, rows=probes.plan(read.relation, where).rows)


def _ranked(read: ReadTable, probes: TableProbes, keys: Sequence[Key]) -> list[RankedKey]:
    """The keys as the server writes them, in the given order, with their ranks.

    The table's own columns are in the query for their collations, which the literals don't have.
    """
    keyset = numbered(read.keyset)
    own = ", ".join(quote_ident(column.name) for column in read.keyset.columns)
    names = ", ".join(column.name for column in keyset.columns)
    begins = ", ".join(f"left({column.name}, {_LONGEST + 1})" for column in keyset.columns)
    found = probes.ranked(
        f"SELECT rank, {begins} FROM ("
        f"SELECT number, dense_rank() OVER (ORDER BY {names}), {keyset.texts} FROM ("
        f"SELECT 0, {own} FROM {read.relation} WHERE false"
        f" UNION ALL VALUES {key_rows(keyset, keys)}) AS k (number, {names})"
        f") AS ranked (number, rank, {names}) ORDER BY number"
    )
    if isinstance(found, str):
        raise SignalError(
            f"the server can't read the signal's keys as values of its key columns: {found}",
            where=read.table.id,
            hint=f"they are {', '.join(column.type for column in read.keyset.columns)}",
        )
    if any(len(text) > _LONGEST for _rank, key in found for text in key if text):
        raise _too_long(read)
    return [RankedKey(key, rank) for rank, key in found]


def _too_long(read: ReadTable) -> SignalError:
    return SignalError(
        "the signal's keys are too long as the server writes them: a value has at most"
        f" {_LONGEST} characters, all of them {_MOST}",
        where=read.table.id,
    )

"""Which columns cut a table: the signal's surrogate key, or the table's own key. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import NoUsableKey, SignalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.model import Target


def key_columns(target: Target, key: tuple[str, ...], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of the signal's `surrogate-key`, else the table's own key.

    `columns` are all columns of the table. Raises SignalError if there is no key or no such column.
    """
    names, place = key, str(target.collection)
    if target.surrogate_key:
        names = tuple(name.strip() for name in target.surrogate_key.split(","))
    if not names:
        raise NoUsableKey(
            "the table has neither a primary key nor a unique index over NOT NULL columns",
            where=place,
            hint='name a column to order it by in "surrogate-key"',
        )
    if not set(names) <= set(columns):
        raise SignalError(
            f"no column {target.surrogate_key!r} for a surrogate key",
            where=place,
            hint=f"columns: {', '.join(columns)}",
        )
    return names

"""Turns encoded rows into drafts of events: for an insert, an update, a delete, a key change.

A draft lacks only what depends on its place in the log: source, transaction block, order. An update that
changes the event's key becomes a delete and its tombstone with the header `__debezium.newkey`, then a create
with `__debezium.oldkey`. An update without an old row has no `before`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from engine.events.record.assemble import chosen, header
from engine.events.values.json_strings import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.events.codec import Row, TableCodec
    from engine.events.record.field import Mask
    from engine.events.settings import EventSettings
    from engine.events.values.text import Ints, Piece, Text

DELETE_TURN, TOMBSTONE_TURN, CREATE_TURN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Draft:
    """Events of one table and one operation. With `tombstone` each is followed by a tombstone."""

    codec: TableCodec
    op: str
    messages: Ints
    turn: int
    key: Text | None
    before: list[Piece] | None
    after: list[Piece] | None
    headers: Text | None = None
    tombstone: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """Entries of one table and one operation (c, u, d), encoded, with the numbers of their messages."""

    op: str
    messages: Ints
    old: Row | None
    new: Row | None


def drafts(change: Change, codec: TableCodec, settings: EventSettings) -> Iterator[Draft]:
    """The drafts of these entries, without those of skipped operations."""
    for draft in _all(change, codec, settings):
        if len(draft.messages) and draft.op not in settings.skipped_operations:
            yield draft


def _all(change: Change, codec: TableCodec, settings: EventSettings) -> Iterator[Draft]:
    new, old, numbers = change.new, change.old, change.messages
    if new is None and old is not None:
        yield Draft(
            codec, "d", numbers, DELETE_TURN, old.key, old.pieces, None, tombstone=settings.tombstones
        )
    elif new is not None and old is None:
        yield Draft(codec, change.op, numbers, DELETE_TURN, new.key, None, new.pieces)
    elif new is not None and old is not None:
        yield from _updates(codec, numbers, old, new, settings)


def _updates(
    codec: TableCodec, numbers: Ints, old: Row, new: Row, settings: EventSettings
) -> Iterator[Draft]:
    if old.key is None or new.key is None:
        moved = np.zeros(len(numbers), bool)
    else:
        moved = pc.not_equal(old.key, new.key).to_numpy(zero_copy_only=False)
    if not moved.all():
        stay = ~moved
        key = None if new.key is None else _rows(new.key, stay)
        yield Draft(
            codec, "u", numbers[stay], DELETE_TURN, key, chosen(old.pieces, stay), chosen(new.pieces, stay)
        )
    if moved.any() and old.key is not None and new.key is not None:
        old_key, new_key = _rows(old.key, moved), _rows(new.key, moved)
        before, after = chosen(old.pieces, moved), chosen(new.pieces, moved)
        to = header("__debezium.newkey", escape(codec.key_headers(new_key)))
        came = header("__debezium.oldkey", escape(codec.key_headers(old_key)))
        yield Draft(
            codec, "d", numbers[moved], DELETE_TURN, old_key, before, None, to, tombstone=settings.tombstones
        )
        yield Draft(codec, "c", numbers[moved], CREATE_TURN, new_key, None, after, came)


def _rows(texts: Text, rows: Mask) -> Text:
    return texts if rows.all() else texts.filter(rows)

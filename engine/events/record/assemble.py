"""Assembles groups of encoded events into one batch in log order.

Rows of one kind are encoded together; this module restores the order. An event's place is the number of its
message and its turn among the events of that message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from engine.events.batch import EVENTS, no_events
from engine.events.values.text import Ints, Piece, Text, join

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.events.record.field import Mask

_TURNS = 20
"""Bits for an event's turn. A truncate message makes one event for each of its tables."""


@dataclass(frozen=True, slots=True)
class EventGroup:
    """Events of one topic and one form.

    `value` None means tombstones; `key` or `headers` None means that they have none. `messages` are the
    numbers of their messages, `turn` is their turn among the events of a message.
    """

    topic: str
    messages: Ints
    turn: int
    key: Text | None
    value: Text | None
    headers: Text | None = None

    @property
    def sort_keys(self) -> Ints:
        """Sort keys that give the log order."""
        return sort_keys_of(self.messages, self.turn)


def sort_keys_of(messages: Ints, turn: int) -> Ints:
    """Sort keys that give the log order to events of these messages."""
    keys: Ints = (messages << _TURNS) + turn
    return keys


def event_batch(groups: Sequence[EventGroup]) -> pa.RecordBatch:
    """All events in log order."""
    groups = [group for group in groups if len(group.messages)]
    if not groups:
        return no_events()
    topics = list(dict.fromkeys(group.topic for group in groups))
    indices = np.concatenate(
        [np.full(len(group.messages), topics.index(group.topic), np.int32) for group in groups]
    )
    columns = [_column(groups, [group.key for group in groups])]
    columns.append(_column(groups, [group.value for group in groups]))
    columns.append(_column(groups, [group.headers for group in groups]))
    keys = np.concatenate([group.sort_keys for group in groups])
    if len(groups) > 1:
        order = np.argsort(keys, kind="stable")
        indices = indices[order]
        columns = [
            column.take(pa.array(order)) if column.null_count < len(column) else column for column in columns
        ]
    topic = pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(topics))
    return pa.RecordBatch.from_arrays([topic, *columns], schema=EVENTS)


def _column(groups: Sequence[EventGroup], parts: Sequence[Text | None]) -> pa.Array:
    if all(part is None for part in parts):
        return pa.nulls(sum(len(group.messages) for group in groups), pa.large_string())
    filled = [
        pa.nulls(len(group.messages), pa.large_string()) if part is None else part
        for group, part in zip(groups, parts, strict=True)
    ]
    return filled[0] if len(filled) == 1 else pa.concat_arrays(filled)


def chosen(pieces: list[Piece], rows: Mask) -> list[Piece]:
    """The pieces of these rows only."""
    if rows.all():
        return pieces
    keep = pa.array(rows)
    return [piece if isinstance(piece, str) else piece.filter(keep) for piece in pieces]


def header(name: str, escaped: Text) -> Text:
    """A list of one header; `escaped` is its value as the inside of a JSON string."""
    return join([f'[{{"key":"{name}","value":"', escaped, '"}]'], len(escaped))

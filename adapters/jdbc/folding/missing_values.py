"""Which values events lack, and where they are found: in another event of the turn, or in the target. Pure.

`fold.py` has the rule and a drawing.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.folding.operations import CREATE, DELETE, NOWHERE
from adapters.lake.row_columns import value

if TYPE_CHECKING:
    from adapters.jdbc.folding.operations import Mask
    from adapters.jdbc.folding.turn_events import TurnEvents
    from adapters.jdbc.placeholders import Placeholders
    from adapters.lake.row_columns import Columns
    from engine.events.record.schema import Schema
    from engine.events.values.text import Ints


class Patches(NamedTuple):
    """Rows to be written that lack values.

    - `rows` are their events
    - `taken` has, by column, the events whose values they get; -1: the target's value is kept
    - `base` are the keys of the target's rows that have those, -1 where there is none: a row that is new has
      the column's default
    - `moved` says which of them had another key
    """

    rows: Ints
    taken: dict[str, Ints]
    base: Ints
    moved: Mask


class MissingValues:
    """The values that a turn's events of one table lack."""

    def __init__(self, events: TurnEvents, placeholders: Placeholders) -> None:
        self._events, self._placeholders = events, placeholders

    @cached_property
    def by_column(self) -> dict[str, Mask]:
        """By column, the events that lack a value of it. A column of which none is lacking is left out."""
        events = self._events
        found: dict[str, Mask] = {}
        updates = [_updates_in(batch) for batch in events.batches]
        for name, schema in events.columns.all.items():
            masks = [
                self._lacks(batch, columns, may_lack, name, schema)
                for batch, columns, may_lack in zip(
                    events.batches, events.columns_by_batch, updates, strict=True
                )
            ]
            lacking = np.concatenate(masks)[events.places]
            lacking &= events.ops != DELETE
            if lacking.any():
                found[name] = lacking
        return found

    def _lacks(
        self, batch: pa.RecordBatch, columns: Columns, updates: pa.Array | None, name: str, schema: Schema
    ) -> Mask:
        none = np.zeros(batch.num_rows, bool)
        if name in dict(columns.key):
            return none
        if name not in dict(columns.row):
            return ~none
        found = None if updates is None else self._placeholders(value(batch, name), schema)
        if found is None:
            return none
        lacking: Mask = pc.fill_null(pc.and_(updates, found), fill_value=False).to_numpy(zero_copy_only=False)
        return lacking

    @cached_property
    def anywhere(self) -> Mask:
        """The events that lack a value."""
        if not self.by_column:
            return np.zeros(len(self._events.ops), bool)
        lacking: Mask = np.logical_or.reduce(list(self.by_column.values()))
        return lacking

    def patches(self, writes: Ints) -> Patches | None:
        """Those of these rows to be written that lack values; None if there are none."""
        rows = writes[self.anywhere[writes]]
        if not len(rows):
            return None
        base = np.full(len(rows), NOWHERE)
        taken = {name: self._value_events(name, rows, base) for name in self.by_column}
        return Patches(rows, taken, base, (base != NOWHERE) & (base != self._events.codes[rows]))

    def _value_events(self, name: str, rows: Ints, base: Ints) -> Ints:
        """The event whose value of a column each row has, -1 for the target's; notes in `base` whose."""
        lacking, events = self.by_column[name], self._events
        codes = events.codes[rows]
        deleted = events.last(events.ops == DELETE)[codes]
        given = events.last((events.ops != DELETE) & ~lacking)[codes]
        created = events.last(events.ops == CREATE)[codes]
        taken = np.where(lacking[rows], NOWHERE, rows)
        found = (taken == NOWHERE) & (given > deleted)
        taken[found] = given[found]
        unknown = taken == NOWHERE
        own = unknown & (created <= deleted) & (deleted == NOWHERE)
        base[own] = codes[own]
        for at in np.flatnonzero(unknown & (created > deleted)):
            taken[at], key = self._from_old_key(int(created[at]), lacking)
            # The columns share `base`: another column's value may be the target's, though this one's is not.
            if key != NOWHERE:
                base[at] = key
        return taken

    def _from_old_key(self, created: int, lacking: Mask) -> tuple[int, int]:
        """The event that has the value that a row was created without, and the key of the target's row."""
        at, codes, ops = created, self._events.codes, self._events.ops
        while self._events.came_from_another_key(at):
            before = np.flatnonzero(codes[: at - 1] == codes[at - 1])
            for row in reversed(before.tolist()):
                if ops[row] == DELETE:
                    return NOWHERE, NOWHERE
                if not lacking[row]:
                    return row, NOWHERE
                if ops[row] == CREATE:
                    at = row
                    break
            else:
                return NOWHERE, int(codes[at - 1])
        return NOWHERE, NOWHERE


def _updates_in(batch: pa.RecordBatch) -> pa.Array | None:
    """Which events may have placeholders: updates, and rows under a new key; None if there are none."""
    moved = pc.and_(pc.equal(batch.column("op"), "c"), batch.column("headers").is_valid())
    updates = pc.or_(pc.equal(batch.column("op"), "u"), moved)
    return updates if pc.any(updates).as_py() else None

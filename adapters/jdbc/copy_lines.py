"""What a fold wants written and deleted, as lines of COPY. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from adapters.jdbc.column_types import escaped
from adapters.jdbc.operations import NOWHERE
from adapters.jdbc.table_rows import column_texts, default_text, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adapters.jdbc.fold import Fold
    from adapters.jdbc.turn_events import TurnEvents
    from engine.events.record.schema import Schema
    from engine.events.values.text import Ints, Text


def deletes(fold: Fold) -> Text | None:
    """The keys whose rows are to be deleted, with a `t` behind each; None if there are none."""
    gone = fold.deletions
    true = pa.repeat(pa.scalar("t", pa.large_string()), len(gone))
    return lines([fold.events.key_texts(fold.events.codes[gone]), true]) if len(gone) else None


def rows(fold: Fold) -> Iterator[Text]:
    """The rows to be written that have all values, batch by batch."""
    names = list(fold.events.columns.all)
    for taken, columns in fold.whole():
        yield lines(column_texts(taken, columns, names))


def patched(fold: Fold) -> Text | None:
    """The rows to be written that lack values; None if there are none.

    Behind its columns a row has a 1 for each column of which the target's value is kept, else a 0, and the
    key of the target's row that has it.
    """
    patches, events = fold.patches(), fold.events
    if patches is None:
        return None
    fields, kept = [], list[pa.Scalar | pa.Array]()
    for name, schema in events.columns.all.items():
        taken = patches.taken.get(name, patches.rows)
        fields.append(_column(events, name, schema, taken))
        kept.append(pc.cast(pa.array(taken == NOWHERE), pa.int8()).cast(pa.large_string()))
    flags = pc.binary_join_element_wise(*kept, pa.scalar("", pa.large_string()))
    none = pa.scalar("\t".join(["\\N"] * len(events.columns.key)), pa.large_string())
    return lines([*fields, flags, pc.fill_null(events.key_texts(patches.base), none)])


def _column(events: TurnEvents, name: str, schema: Schema, taken: Ints) -> Text:
    """The values of a column in these events; its default where there is none."""
    found = events.gathered(taken, lambda batch, columns: column_texts(batch, columns, [name])[0])
    default = pa.array([default_text(schema)], pa.large_string())
    return pc.if_else(pa.array(taken == NOWHERE), escaped(default)[0], found)

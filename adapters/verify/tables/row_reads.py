"""Reads a collection's rows from another table with its columns, in the form of the collection's events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from engine.errors import SourceError
from engine.snapshot.merge_key import KEY_TYPE
from engine.verify.compared_digests import bare_keys, digests_of_rows, key_digests

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from engine.events.values.row_form import RowMode
    from engine.staging.reads import ReadEvents


@dataclass(frozen=True, slots=True)
class ComparedEvents:
    """The events of one collection, of which its rows are made. `mode` is the form of the rows' texts."""

    events: ReadEvents
    mode: RowMode

    @property
    def keys(self) -> frozenset[str]:
        """The columns that identify events."""
        codec = self.events.codec
        return frozenset(codec.columns[member.column] for member in codec.key)

    @property
    def can_be_sought(self) -> bool:
        """Whether a row with an event key is the one with a merge key, now and later."""
        codec = self.events.codec
        return self.keys == {codec.columns[at] for at in codec.merge_key}

    def check(self, known: Collection[str], table: str) -> None:
        """Raise SourceError if a table with these columns lacks some that the events have."""
        codec = self.events.codec
        needed = self.keys.union(codec.columns[member.column] for member in codec.fields)
        if lacking := sorted(needed.difference(known)):
            hint = "column.exclude.list leaves columns out of the events"
            raise SourceError(
                f"the target's table lacks the columns {', '.join(lacking)}", where=table, hint=hint
            )

    def digested(self, texts: pa.Array) -> DigestedRows:
        """The rows' digests and keys."""
        staged = self.events.staged(texts, self.mode)
        keys, rows = bare_keys(staged.column("key")), staged.column("value")
        merge_keys = staged.column("merge_key") if self.can_be_sought else pa.nulls(len(keys), KEY_TYPE)
        return DigestedRows(key_digests(keys), digests_of_rows(keys, rows), keys, merge_keys)


class DigestedRows(NamedTuple):
    """The digests of keys and rows, the keys as JSON, and the merge keys.

    A merge key is null if windows can't look for it.
    """

    keys: pa.Array
    rows: pa.Array
    shown: pa.Array
    merge_keys: pa.Array


@dataclass(frozen=True, slots=True)
class RowReads:
    """The way of one collection's rows on PostgreSQL.

    `types` has each column's type and its modifier, as PostgreSQL numbers them. `expression` is SQL that
    makes one text of the columns. `settings` are what a session needs so that values have the source's texts.
    """

    types: Mapping[str, tuple[int, int]]
    expression: str
    compared: ComparedEvents
    settings: Mapping[str, str]

"""Reads a collection's rows from another table with its columns, in the form of the collection's events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.events.values.row_form import RowMode
from engine.verify.compared_digests import bare_keys, digests_of_rows, key_digests

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from engine.staging.reads import ReadEvents


@dataclass(frozen=True, slots=True)
class RowReads:
    """The way of one collection's rows.

    `types` has each column's type and its modifier, as PostgreSQL numbers them. `expression` is SQL that
    makes one text of the columns, in the exact form. `settings` are what a session needs so that values have
    the source's texts.
    """

    types: Mapping[str, tuple[int, int]]
    expression: str
    events: ReadEvents
    settings: Mapping[str, str]

    @property
    def needed(self) -> frozenset[str]:
        """The columns that events have."""
        codec = self.events.codec
        return frozenset(codec.columns[member.column] for member in (*codec.fields, *codec.key))

    def digested(self, texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
        """The digests of keys and rows, and the keys as JSON."""
        staged = self.events.staged(texts, RowMode.EXACT)
        keys, rows = bare_keys(staged.column("key")), staged.column("value")
        return key_digests(keys), digests_of_rows(keys, rows), keys

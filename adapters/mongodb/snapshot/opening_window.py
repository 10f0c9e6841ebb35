"""What the stream carries while a window opens on MongoDB (`adapters/source/opening_window.py`).

    turns      ──── opens ───── span 1 ───── span 2 ───── joins ──── span 3 ──►
    thread              └─ mark ─ now N ─ catalog C ─┘      └─ rows as of T ──►

- T is chosen when the window joins: N, or the time of the newest streamed event if that is later. So rows
  contain whatever was streamed before, and nothing of spans 1 and 2 supersedes them. From then on an entry
  does exactly if it is later than T.
- C is later than N. While T is N, a collection that is in C as it was measured was the same at T, or the
  stream has its drop or rename after T. If T is later than N, the stream may have had one in between, in span
  1 or 2. Then the window does not join, and its collections are measured again.
- The mark, a document in the signal collection, only has to come before N.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from engine.errors import SchemaChanged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.mongodb.events.facts import CollectionRemoval
    from adapters.mongodb.server.catalog import CollectionDescription
    from adapters.mongodb.snapshot.window import MongoWindow
    from adapters.source.opening_window import ShownOpeningWindow
    from engine.model import CollectionId
    from signals.window_rows import WindowRows

MongoOpening: TypeAlias = "ShownOpeningWindow[CatalogLookup, MongoWindow]"
"""A window that is being opened."""


class CatalogLookup(NamedTuple):
    """What the server was asked for a window: the time N, then its collections."""

    now: tuple[int, int]
    known: Mapping[CollectionId, CollectionDescription]
    marks: WindowRows | None


@dataclass(slots=True)
class OpeningWatch:
    """What the stream says of a window's collections while it opens."""

    collections: frozenset[CollectionId]
    _emptied: list[CollectionRemoval] = field(default_factory=list)

    def note_emptied(self, emptied: Sequence[CollectionRemoval]) -> None:
        """Note drops and renames."""
        self._emptied += emptied

    def check(self, asked: CatalogLookup) -> None:
        """Raise SchemaChanged if a collection was dropped or renamed after the time that was asked for."""
        for emptying in self._emptied:
            if emptying.at > asked.now and (lost := emptying.among(self.collections)):
                raise SchemaChanged("it was dropped or renamed", where=min(lost))

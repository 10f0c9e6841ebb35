"""The marks on an initial snapshot's READ events: which row says that it is the first or the last. Pure.

The words are Debezium's, in the source block's `snapshot`; a row without a mark of its own says "true".
Nobody looks ahead: where the first table has no rows, no row is `first`, and so for the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

PLAIN = "true"
"""What a row says that is neither the first nor the last of anything."""


class Mark(StrEnum):
    """What a row can be, from the strongest to the weakest where it is several at once."""

    LAST = "last"
    FIRST = "first"
    LAST_OF_COLLECTION = "last_in_data_collection"
    FIRST_OF_COLLECTION = "first_in_data_collection"


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of the first and of the last row of some rows; None: that row has none."""

    first: Mark | None = None
    last: Mark | None = None

    def among(self, known: Collection[Mark]) -> Marks:
        """Without those that a source's events don't know."""
        first, last = (one if one in known else None for one in (self.first, self.last))
        return Marks(first, last)

    @property
    def single(self) -> Mark | None:
        """The mark of a row that is both."""
        both = [one for one in Mark if one in {self.first, self.last}]
        return both[0] if both else None


NO_MARKS = Marks()


def marks(place: tuple[int, int], *, opens: bool, ends: bool) -> Marks:
    """The marks of one table's rows; `place` is (n, m): table n of m, from 1.

    `opens`: none of the table's rows came before them. `ends`: none comes after.
    """
    number, of = place
    first = Mark.FIRST if number == 1 else Mark.FIRST_OF_COLLECTION
    last = Mark.LAST if number == of else Mark.LAST_OF_COLLECTION
    return Marks(first if opens else None, last if ends else None)

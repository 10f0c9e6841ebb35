r"""How a query joins a row into one text, so that Spark hands over one column.

The query joins a row's values, in the database's own format. There are three forms:

- `RowMode.FAST`: flags, then each column after a separator (U+001F). A flag says whether a column whose text
  may be empty is NULL (`t`) or not (`f`). In other columns empty text means NULL. A value that contains the
  separator can only add separators, so counting finds every such row; `SeparatorInData` then asks to read the
  rows again in another form.
- `RowMode.EXACT`: lengths in bytes (-1: NULL) before the values. Correct for any data, but slower.
- `RowMode.ESCAPED`: as FAST, with `\` written as `\b` and the separator as `\s` in every value. Correct for
  any data, for databases that can't count bytes of UTF-8.

The adapters write the expression; `row_texts` splits the texts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SEPARATOR = "\x1f"
ESCAPES = (("\\", "\\b"), (SEPARATOR, "\\s"))
"""The replacements of the escaped form, in the order in which they are made."""


class RowMode(StrEnum):
    """How a row's values are joined into one text."""

    FAST = "fast"
    EXACT = "exact"
    ESCAPED = "escaped"


@dataclass(frozen=True, slots=True)
class RowShape:
    """The columns of a row text, in order.

    `nullable` says which columns may be NULL, `may_be_empty` in which ones a value that is not NULL may have
    an empty text. In other columns empty text is NULL, even if they are not nullable.
    """

    columns: tuple[str, ...]
    nullable: tuple[bool, ...]
    may_be_empty: tuple[bool, ...]

    @property
    def flagged(self) -> tuple[int, ...]:
        """The indexes of the columns with a flag for NULL."""
        pairs = zip(self.nullable, self.may_be_empty, strict=True)
        return tuple(index for index, (nullable, empty) in enumerate(pairs) if nullable and empty)

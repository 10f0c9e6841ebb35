"""What a restart needs of a verification, so that its windows go on where they were. Pure.

The rows that windows have seen are in a file, and only grow. The saved state says how much of it counts:

    file     ── rows of turns up to n ──│── rows of a turn that was never saved ──►
    state n                             size, digest

So a restart takes what is before that place, if it has the digest. Else the rows are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FORM: Final = 1
"""The form of the digests and of their file. What another release has noted in another form is of no use."""


@dataclass(frozen=True, slots=True)
class Written:
    """The beginning of a file: how many bytes, how many rows they have, and their digest in hexadecimal."""

    size: int
    rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class SavedCourse:
    """What windows have seen of an entry since a turn: the file, and the `Course` that belongs to it.

    `settled` is the text of `ComparisonRequest.settled`; empty if everything was visible. `columns` are the
    lists of columns that the rows had.
    """

    since: int
    written: Written
    settled: str = ""
    columns: tuple[tuple[str, ...], ...] = ()
    form: int = FORM

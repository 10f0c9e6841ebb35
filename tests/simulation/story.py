"""A history told in columns over time: transactions and faults, windows and turns, the sink, the answers."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COLUMNS = {
    "script": 0,
    "fault": 0,
    "job": 1,
    "window": 1,
    "turn": 1,
    "sink": 2,
    "answer": 3,
    "judge": 3,
}
_TITLES = ("transactions, log, faults", "job: windows, turns", "sink", "answers, judge")
_WIDTH = 38


def told(notes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The lines of the story."""
    yield from _lines(dict(enumerate(_TITLES)))
    yield "-+-".join("-" * _WIDTH for _title in _TITLES)
    row: dict[int, str] = {}
    for column, text in notes:
        at = _COLUMNS[column]
        # Time runs downwards: a line takes notes only from left to right.
        if row and at <= max(row):
            yield from _lines(row)
            row = {}
        row[at] = text
    yield from _lines(row)


def _lines(row: dict[int, str]) -> Iterator[str]:
    cells = [wrap(row.get(at, ""), _WIDTH) for at in range(len(_TITLES))]
    for line in range(max(map(len, cells))):
        texts = [cell[line] if line < len(cell) else "" for cell in cells]
        yield " | ".join(text.ljust(_WIDTH) for text in texts).rstrip()

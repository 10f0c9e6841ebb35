"""Pieces of HTML that the page's sections share. Pure.

Whatever comes from outside goes through `text`, which escapes it.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from engine.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LONGEST: Final = 300
_NUMBERS: Final = frozenset(("read", "rows", "rows/s", "time to go", "windows", "seconds", "average", "last"))
"""The columns of tables that have numbers."""


def text(outside: str) -> str:
    """Text from outside as HTML: printable, escaped, and not too long."""
    return escape(printable(outside if len(outside) <= _LONGEST else outside[:_LONGEST] + "…"))


def title(section: str, words: str) -> str:
    """The heading of a section."""
    return f'<h2 id="{section}-title">{words}</h2>'


def table(columns: Sequence[str], rows: Iterable[str]) -> str:
    """A table with these columns; `rows` are HTML."""
    head = "".join(
        f'<th scope="col"{" class=number" if name in _NUMBERS else ""}>{name}</th>' for name in columns
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def number(shown: str) -> str:
    """A cell with a number."""
    return f'<td class="number">{text(shown)}</td>'


def css_class(words: str) -> str:
    """A word or two as a class of the style sheet."""
    return words.replace(" ", "-")


def amount(value: float) -> str:
    """A number for people: 1.2 k, 3.4 M; few digits."""
    for size, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.1f}{sign}"
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


def size(count: float) -> str:
    """Bytes for people."""
    shown = amount(count)
    return f"{shown}B" if " " in shown else f"{shown} B"

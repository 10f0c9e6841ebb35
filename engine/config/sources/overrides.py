"""Lists of what an initial snapshot reads in part: the list names it, and `<list>.<name>` says which rows.

Owns such pairs of properties. What a SELECT or a filter may say is left to the sources.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.config.properties.values import Values

SELECTS: Final = "snapshot.select.statement.overrides"
_QUOTED: Final = r'(?<![^.])"((?:[^"]|"")+)"(?![^.])'
_BRACKETED: Final = r"(?<![^.])\[((?:[^\]]|\]\])+)\](?![^.])"


def selects(values: Values, *, brackets: bool = False) -> dict[str, str]:
    """The SELECT of each listed table, by its name without quotes; with `brackets`, also without these."""
    pattern = f"{_QUOTED}|{_BRACKETED}" if brackets else _QUOTED
    return {re.sub(pattern, _plain, name): text for name, text in listed(values, SELECTS, "<table>").items()}


def listed(values: Values, listing: str, placeholder: str) -> dict[str, str]:
    """The text for each name that a list has."""
    given = {parts[0]: str(text) for parts, text in values.group(f"{listing}.{placeholder}")}
    return {name: given[name] for name in values.get(listing, tuple) if name in given}


def problems(values: Values, listing: str) -> Iterator[str]:
    """Yield the names whose text is missing or empty: their rows would all be read."""
    for listed_name in values.get(listing, tuple):
        name = f"{listing}.{listed_name}"
        if name not in values.given:
            yield f"missing {name!r}: {listing!r} names it"
        elif not values.given[name].strip():
            yield f"{name!r} is empty: give it a text, or take the name off {listing!r}"


def warnings(values: Values, listing: str) -> Iterator[str]:
    """Yield the texts whose names the list lacks: they are not looked at."""
    names = {f"{listing}.{name}" for name in values.get(listing, tuple)}
    for name in values.given:
        if name.startswith(f"{listing}.") and name not in names:
            yield f"{name!r} has no effect: {listing!r} does not name it"


def _plain(found: re.Match[str]) -> str:
    if found[0].startswith('"'):
        return found[1].replace('""', '"')
    return found[2].replace("]]", "]")

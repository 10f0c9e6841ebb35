"""Every property that is known: exact names first, then those that stand for many.

Owns looking a name up and guessing what a misspelt one meant. The rows themselves stand in
`connector`, `connect`, `driver` and `own`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from engine.config.connect import CONNECT
from engine.config.connector import CONNECTOR
from engine.config.driver import DRIVER
from engine.config.own import OWN

if TYPE_CHECKING:
    from engine.config.row import Property

CATALOGUE: tuple[Property, ...] = (*CONNECTOR, *OWN, *CONNECT, *DRIVER)

_EXACT = {row.name: row for row in CATALOGUE if not row.is_pattern}
_PATTERNS = sorted((row for row in CATALOGUE if row.is_pattern), key=lambda row: -len(row.name))


def find(name: str) -> Property | None:
    """Give the row of a property's name; among patterns the longest wins. None: nobody knows it."""
    if name in _EXACT:
        return _EXACT[name]
    return next((row for row in _PATTERNS if row.parts(name) is not None), None)


def suggestion(name: str) -> str:
    """Give the known name that `name` most likely meant, or the empty string."""
    plain = {_plain(known): known for known in (row.name for row in CATALOGUE)}
    close = difflib.get_close_matches(_plain(name[:200]), plain, n=1, cutoff=0.75)
    return plain[close[0]] if close else ""


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", ".").replace("-", ".")

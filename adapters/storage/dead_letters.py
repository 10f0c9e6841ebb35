"""Entries of tables that are set aside, kept as files of JSON lines.

    public.orders.turn-000000000042.jsonl      what turn 42 would have emitted of public.orders

A line is what the log had, with its bytes in base64; what else it tells is the source's. Names of tables are
quoted as in a URL, dots too, and cut where they are very long.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from adapters.storage.directory import Storage
    from engine.model import CollectionId

_LONGEST: Final = 160
"""Characters of a table's name in that of a file, which has 255 at most."""
_NAME: Final = re.compile(r"(.+)\.turn-(\d{12,})\.jsonl")


class DeadLetterFiles:
    """The engine's `DeadLetters` in one directory."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """Write one file; see the port."""
        content = b"".join(line + b"\n" for line in lines)
        self._storage.create(f"{_prefix(collection)}.turn-{turn:012d}.jsonl", content)

    def drop(self, collection: CollectionId) -> None:
        """Remove a table's files; see the port."""
        for name, prefix, _turn in self._files():
            if prefix == _prefix(collection):
                self._storage.delete(name)

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """Remove what no state knows; see the port."""
        known = {_prefix(collection) for collection in collections}
        for name, prefix, of in self._files():
            if of > turn or prefix not in known:
                self._storage.delete(name)

    def _files(self) -> list[tuple[str, str, int]]:
        found = [match for match in map(_NAME.fullmatch, self._storage.names()) if match]
        return [(match[0], match[1], int(match[2])) for match in found]


def _prefix(collection: CollectionId) -> str:
    """A name of a file: no other table has it, and no part of it leads out of the directory."""
    name = ".".join(quote(part, safe=" ").replace(".", "%2E") for part in collection.parts)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{sha256(name.encode()).hexdigest()[:16]}"

"""Entries of tables that are set aside, kept as files of JSON lines.

    public.orders.turn-000000000042.jsonl               what turn 42 would have emitted of public.orders
    public.orders.turn-000000000042.7.events-0000.jsonl  its events, kept by the job of epoch 7 while its
                                                         topic refuses them

A line of the first file is a log entry, with its bytes in base64; its other fields depend on the source. A
line of the others is an event: see `engine.isolation.kept_events`. Tables' names are quoted as in a URL,
including dots, and cut if they are very long.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from engine.isolation.kept_events import Bundle

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from adapters.storage.directory import Storage
    from engine.model import CollectionId

_LONGEST: Final = 160
"""The most characters of a table's name in a file name, which may have 255."""
_NAME: Final = re.compile(r"(.+)\.turn-(\d{12,})(?:\.(\d+)\.events-(\d{4,}))?\.jsonl")


class DeadLetterFiles:
    """The engine's `DeadLetters` in one directory, for the job that holds the lease of this epoch."""

    def __init__(self, storage: Storage, epoch: int = 0) -> None:
        self._storage, self.epoch = storage, epoch

    def keep(self, turn: int, collection: CollectionId, lines: Iterable[bytes]) -> None:
        """Write one file."""
        content = b"".join(line + b"\n" for line in lines)
        self._storage.create(f"{_prefix(collection)}.turn-{turn:012d}.jsonl", content)

    def keep_bundle(self, bundle: Bundle, lines: Sequence[bytes]) -> None:
        """Write one file."""
        self._storage.create(_bundle_name(bundle), b"".join(line + b"\n" for line in lines))

    def bundles(self, collection: CollectionId) -> list[Bundle]:
        """Find a table's bundles by the names of their files."""
        found = [match for match in self._files() if match[1] == _prefix(collection) and match[4]]
        return sorted(Bundle(int(match[2]), int(match[4]), int(match[3]), collection) for match in found)

    def lines_of(self, bundle: Bundle) -> list[bytes]:
        """Read one file."""
        return self._storage.read(_bundle_name(bundle)).splitlines()

    def drop_bundle(self, bundle: Bundle) -> None:
        """Remove one file."""
        self._storage.delete(_bundle_name(bundle))

    def drop(self, collection: CollectionId) -> None:
        """Remove a table's files."""
        for match in self._files():
            if match[1] == _prefix(collection):
                self._storage.delete(match[0])

    def settle(self, turn: int, collections: Collection[CollectionId]) -> None:
        """Remove the files that no saved state knows."""
        known = {_prefix(collection) for collection in collections}
        for match in self._files():
            if int(match[2]) > turn or match[1] not in known:
                self._storage.delete(match[0])

    def _files(self) -> list[re.Match[str]]:
        """The files by their names' parts: table, turn, and for bundles epoch and number."""
        return [match for match in map(_NAME.fullmatch, self._storage.names()) if match]


def _bundle_name(bundle: Bundle) -> str:
    turn = f"turn-{bundle.turn:012d}.{bundle.epoch}"
    return f"{_prefix(bundle.collection)}.{turn}.events-{bundle.number:04d}.jsonl"


def _prefix(collection: CollectionId) -> str:
    """The table's name in a file name: unique, and no part of it leads out of the directory."""
    name = ".".join(quote(part, safe=" ").replace(".", "%2E") for part in collection.parts)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}~{sha256(name.encode()).hexdigest()[:16]}"

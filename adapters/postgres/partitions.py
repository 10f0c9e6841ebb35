"""Partitions that come and go: neither their rows' coming nor their going is in the log.

Owns what the partitioned tables that were read as one looked like last, and the notice when that changes.
A table that is still being read is begun anew for it (`fingerprint.py`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adapters.postgres.fingerprint import forms

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

    from adapters.postgres.readable import Looked
    from engine.model import CollectionId

_log = logging.getLogger("adapters")


class Partitions:
    """The partitioned tables that were asked for in one session of the log."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._known: dict[int, tuple[CollectionId, Mapping[int, CollectionId]]] = {}

    def note(self, looked: Looked) -> None:
        """Compare the tables that were looked at, and those known before, with what they were."""
        names = {table.oid: name for name, table in looked.tables.items()}
        unseen = [oid for oid in self._known if oid not in names]
        found = {**looked.forms, **(forms(self._connection, unseen) if unseen else {})}
        for oid, form in found.items():
            if form.partitions is not None and (oid in looked.shares or oid in self._known):
                self._compare(oid, names.get(oid), form.partitions)

    def _compare(self, oid: int, name: CollectionId | None, now: Mapping[int, CollectionId]) -> None:
        known = self._known.get(oid)
        if known is not None:
            name = name or known[0]
            _tell(name, "attached", [now[one] for one in now if one not in known[1]])
            _tell(name, "detached", [known[1][one] for one in known[1] if one not in now])
        if name is not None:
            self._known[oid] = name, now


def _tell(root: CollectionId, what: str, partitions: list[CollectionId]) -> None:
    if partitions:
        _log.warning(
            "partitions of %s were %s: %s; that is in no log: take a snapshot of %s",
            *(root, what, ", ".join(map(str, partitions)), root),
        )

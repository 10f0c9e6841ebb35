"""Partitions that are attached, detached or truncated. The log shows none of this under the root's name.

Keeps the last known layout of the partitioned tables that were read as one, and says what changed. If
partitions come or go while a table is being read, it is read again from scratch (`fingerprint.py`).

TRUNCATE of a partition is published under the partition's name only, so the root misses it. No snapshot
repairs this, because a snapshot does not show rows that are gone. The only sign is that the partition's rows
are in another file, which VACUUM FULL and CLUSTER cause, too. So the table is reported as lacking deletions
until a snapshot is completed.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING

from adapters.postgres.snapshot.table_changes.fingerprint import forms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.postgres.server.questions.layouts import Layouts
    from adapters.postgres.snapshot.eligibility import CatalogAnswer
    from adapters.postgres.snapshot.table_changes.fingerprint import Form
    from engine.model import CollectionId

_log = logging.getLogger("adapters")


class Partitions:
    """The partitioned tables that were asked for in one session of the log."""

    def __init__(self, layouts: Layouts) -> None:
        self._layouts = layouts
        self._digests: dict[str, str] = {}
        self._known: dict[int, tuple[CollectionId, Form]] = {}
        self._emptied: dict[CollectionId, str] = {}

    def resume(self, saved: Mapping[str, str]) -> None:
        """Continue from the `digests` of the session before."""
        self._digests = dict(saved)

    @property
    def digests(self) -> dict[str, str]:
        """Digests of where the partitions' rows are, by the root's oid; saved over restarts."""
        return self._digests

    def take_emptied(self) -> dict[CollectionId, str]:
        """Take the tables with partitions that may have been truncated since the last call, and which."""
        found, self._emptied = self._emptied, {}
        return found

    def note(self, looked: CatalogAnswer) -> None:
        """Compare the tables just looked up, and those known before, with their last known layout."""
        names = {table.oid: name for name, table in looked.tables.items()}
        unseen = [oid for oid in self._known if oid not in names]
        found = {**looked.forms, **(forms(self._layouts, unseen) if unseen else {})}
        for oid, form in found.items():
            if form.partitions is not None and (oid in looked.shares or oid in self._known):
                self._compare(oid, names.get(oid), form)

    def _compare(self, oid: int, name: CollectionId | None, now: Form) -> None:
        known, digest = self._known.get(oid), _digest(now)
        if known is not None:
            name = name or known[0]
            self._compare_partitions(name, known[1], now)
        elif name is not None and self._digests.get(str(oid), digest) != digest:
            self._tell_emptied(name, "partitions of it")
        if name is not None:
            self._known[oid] = name, now
            self._digests = {**self._digests, str(oid): digest}

    def _compare_partitions(self, name: CollectionId, before: Form, now: Form) -> None:
        was, partitions = before.partitions or {}, now.partitions or {}
        _tell(name, "attached", [partitions[partition] for partition in partitions if partition not in was])
        _tell(name, "detached", [was[partition] for partition in was if partition not in partitions])
        moved = [oid for oid, file in now.files.items() if before.files.get(oid, file) != file]
        if moved and before.partitions_columns == now.partitions_columns:
            self._tell_emptied(name, ", ".join(str(partitions[oid]) for oid in moved))

    def _tell_emptied(self, name: CollectionId, partitions: str) -> None:
        self._emptied[name] = (
            f"{partitions} were truncated, or written anew by VACUUM FULL or CLUSTER, and TRUNCATE of a"
            " partition is not published under its root"
        )


def _digest(form: Form) -> str:
    """A digest of the partitions and of where their rows are."""
    text = " ".join(f"{oid}:{file}" for oid, file in sorted(form.files.items()))
    return sha256(f"{form.partitions_columns} {text}".encode()).hexdigest()[:16]


def _tell(root: CollectionId, what: str, partitions: list[CollectionId]) -> None:
    if partitions:
        _log.warning(
            "partitions of %s were %s: %s; that is in no log: take a snapshot of %s",
            *(root, what, ", ".join(map(str, partitions)), root),
        )

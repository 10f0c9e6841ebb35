"""What must stay the same in a table so that ranges of its rows, read at different times, fit together.

No log shows when one of these changes between two windows. Rows already read would be outdated, or the bounds
of the remaining ranges would be wrong. So the table is read again from scratch. Owns the comparison and
the words for it.

To detect rewritten rows, neither the table's file nor its oid is enough. TRUNCATE changes the file, but is in
the log; VACUUM FULL changes the file, but no row. Instead: every ALTER TABLE that can change rows' values
rewrites the columns' catalog entries, and one that makes the table unlogged for a while gives it another
TOAST table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adapters.postgres.server.questions.layouts import Layouts
    from engine.model import CollectionId

_WORDS = {
    "key": "its key was changed",
    "columns": "its columns were changed",
    "labels": "labels of its values' types were renamed",
    "partitions": "its partitions were changed",
    "publication": "what is published of it was changed",
    "places": "it has no key, and the snapshot that it was read in is gone",
}


@dataclass(frozen=True, slots=True)
class Form:
    """A table's current layout: its own columns, and its partitions by oid.

    `partitions` are those that hold rows, None for a table that is not partitioned; `files` are their file
    numbers. `labels` are those of enums that its values may have, "" if there are none.
    """

    columns: str
    partitions: Mapping[int, CollectionId] | None = None
    partitions_columns: str = ""
    files: Mapping[int, int] = field(default_factory=dict)
    labels: str = ""

    def traits(self, oid: int) -> tuple[str, ...]:
        """The form as part of a fingerprint."""
        own = [f"columns {oid} {self.columns}"]
        if self.labels:
            own.append(f"labels {self.labels}")
        if self.partitions is not None:
            own.append(f"partitions {len(self.partitions)} {self.partitions_columns}")
        return tuple(own)


def forms(layouts: Layouts, oids: Sequence[int]) -> dict[int, Form]:
    """The forms of these tables, by oid."""
    found, labels = layouts.of(oids)
    own: dict[int, tuple[str, bool]] = {}
    leaves: dict[int, dict[int, CollectionId]] = {}
    files: dict[int, dict[int, int]] = {}
    below: dict[int, str] = {}
    for table in found:
        if table.oid == table.root:
            own[table.root] = table.columns, table.partitioned
        else:
            below[table.root] = below.get(table.root, "") + table.columns
            if not table.partitioned:
                leaves.setdefault(table.root, {})[table.oid] = table.id
                files.setdefault(table.root, {})[table.oid] = table.file
    return {
        oid: Form(
            columns,
            leaves.get(oid, {}) if parted else None,
            _digest(below.get(oid, "")),
            files.get(oid, {}),
            labels.get(oid, ""),
        )
        for oid, (columns, parted) in own.items()
    }


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]


def difference(before: Sequence[str], now: Sequence[str]) -> str:
    """What has changed between two fingerprints, in words."""
    names = (trait.split(" ", 1)[0] for trait in sorted(set(before) ^ set(now)))
    return ", ".join(dict.fromkeys(_WORDS.get(name, "its definition was changed") for name in names))

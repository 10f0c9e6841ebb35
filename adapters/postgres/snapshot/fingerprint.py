"""What must stay the same in a table so that ranges of its rows, read at different times, fit together.

No log shows when one of these changes between two windows. Rows already read would be outdated, or the bounds
of the remaining ranges would be wrong. So the table is read again from scratch. Owns the query and the words
for it.

To detect rewritten rows, neither the table's file nor its oid is enough. TRUNCATE changes the file, but is in
the log; VACUUM FULL changes the file, but no row. Instead: every ALTER TABLE that can change rows' values
rewrites the columns' catalog entries, and one that makes the table unlogged for a while gives it another
TOAST table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, LiteralString

from adapters.postgres.server.connection import source_errors
from engine.model import CollectionId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg

_TREES: LiteralString = """
WITH RECURSIVE tree (root, relid) AS (
    SELECT oid, oid FROM pg_class WHERE oid = ANY (%s)
    UNION ALL SELECT tree.root, i.inhrelid FROM tree
    JOIN pg_class c ON c.oid = tree.relid AND c.relkind = 'p' JOIN pg_inherits i ON i.inhparent = c.oid)
SELECT tree.root::bigint, tree.relid::bigint, n.nspname, c.relname, c.relkind = 'p', c.relfilenode::bigint,
       md5(concat_ws(' ', c.oid, c.reltoastrelid, (
           SELECT string_agg(concat_ws(' ', a.attnum, a.xmin), ',' ORDER BY a.attnum)
           FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)))
FROM tree JOIN pg_class c ON c.oid = tree.relid JOIN pg_namespace n ON n.oid = c.relnamespace
ORDER BY tree.root, tree.relid
"""
_LABELS: LiteralString = """
WITH RECURSIVE made (relid, type) AS (
    SELECT attrelid, atttypid FROM pg_attribute
    WHERE attrelid = ANY (%s) AND attnum > 0 AND NOT attisdropped AND atttypid >= 16384
    UNION SELECT made.relid, part.type FROM made JOIN pg_type t ON t.oid = made.type CROSS JOIN LATERAL (
        SELECT t.typbasetype WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typcategory = 'A'
        UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid
        UNION ALL SELECT atttypid FROM pg_attribute
            WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) part (type)
    WHERE part.type >= 16384)
SELECT made.relid::bigint, md5(string_agg(concat_ws(' ', e.oid, e.enumlabel), ',' ORDER BY e.oid))
FROM made JOIN pg_enum e ON e.enumtypid = made.type GROUP BY made.relid
"""
"""The enum labels that values of a table's columns may have.

Includes labels within arrays, domains, ranges and composites. Built-in types have oids below 16384, and no
labels.
"""
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


def forms(connection: psycopg.Connection, oids: Sequence[int]) -> dict[int, Form]:
    """The forms of these tables, by oid."""
    with source_errors("looking at the tables' columns"), connection.pipeline():
        trees = connection.execute(_TREES, [list(oids)])
        labelled = connection.execute(_LABELS, [list(oids)])
        rows = trees.fetchall()
        labels: dict[int, str] = dict(labelled.fetchall())
    own: dict[int, tuple[str, bool]] = {}
    leaves: dict[int, dict[int, CollectionId]] = {}
    files: dict[int, dict[int, int]] = {}
    below: dict[int, str] = {}
    for root, relid, schema, name, parted, file, columns in rows:
        if relid == root:
            own[root] = columns, parted
        else:
            below[root] = below.get(root, "") + columns
            if not parted:
                leaves.setdefault(root, {})[relid] = CollectionId((schema, name))
                files.setdefault(root, {})[relid] = file
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
